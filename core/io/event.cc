#include "core/io/event.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "proto/config.pb.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";
// TensorFlow's name for its writer; TensorBoard counts writers by it.
constexpr char kWriterName[] = "tensorflow.core.util.events_writer";
// Writers that begin in the same second in the same folder.
constexpr int kMaxWritersPerSecond = 1000;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// A host's name is put into a file's.
std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = name;
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(FileSystem* files,
                                                         const std::string& directory,
                                                         const EventWriterOptions& options) {
  const std::string host = options.host.empty() ? HostName() : options.host;
  const int64_t seconds = absl::ToUnixSeconds(options.clock->Now());
  for (int number = 0;; ++number) {
    // TensorBoard asks for "tfevents" in the name and reads in the order of names.
    const std::string name = absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d%s", seconds, host,
                                             getpid(), number, options.suffix);
    absl::StatusOr<std::unique_ptr<WritableFile>> file =
        files->OpenToWrite(JoinPath(directory, name), WriteMode::kNew);
    if (file.status().code() != absl::StatusCode::kAlreadyExists ||
        number + 1 == kMaxWritersPerSecond) {
      return file;
    }
  }
}

}  // namespace

EventWriter::EventWriter(std::unique_ptr<RecordWriter> writer, const EventWriterOptions& options)
    : options_(options), writer_(std::move(writer)), last_flush_(options.clock->Now()) {}

EventWriter::~EventWriter() = default;

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Open(FileSystem* files,
                                                               const std::string& directory,
                                                               const EventWriterOptions& options) {
  if (absl::StrContains(options.host, '/') || absl::StrContains(options.suffix, '/')) {
    return errors::InvalidArgument("event file in ", directory, ": host '", options.host,
                                   "' and suffix '", options.suffix,
                                   "' become part of its name; expected no slash in them");
  }
  TANDEM_RETURN_IF_ERROR(files->MakeDirectories(directory));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          CreateFile(files, directory, options));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> records,
                          RecordWriter::Create(std::move(file)));
  std::unique_ptr<EventWriter> writer(new EventWriter(std::move(records), options));
  tensorflow::Event first;
  first.set_file_version(kFileVersion);
  first.mutable_source_metadata()->set_writer(kWriterName);
  absl::Status status = writer->Write(std::move(first));
  if (status.ok()) status = writer->Flush();
  if (!status.ok()) {
    // So that whoever tries again and again on a full disk leaves no empty files.
    files->Remove(writer->path()).IgnoreError();
    return status;
  }
  return writer;
}

absl::Status EventWriter::Write(tensorflow::Event event) {
  if (event.wall_time() == 0) event.set_wall_time(Seconds(options_.clock->Now()));
  const size_t size = event.ByteSizeLong();
  if (size > INT_MAX) {
    return errors::InvalidArgument(path(), ": an event of ", size,
                                   " bytes is larger than a message can be (2 GiB)");
  }
  TANDEM_RETURN_IF_ERROR(writer_->Write(event.SerializeAsString()));
  ++pending_;
  if (pending_ >= options_.flush_events) return Flush();
  return FlushIfDue();
}

absl::Status EventWriter::WriteSummary(int64_t step,
                                       absl::Span<const tensorflow::Summary::Value> values) {
  tensorflow::Event event;
  event.set_step(step);
  for (const tensorflow::Summary::Value& value : values) {
    *event.mutable_summary()->add_value() = value;
  }
  return Write(std::move(event));
}

absl::Status EventWriter::WriteGraph(const tensorflow::GraphDef& graph) {
  tensorflow::Event event;
  if (!graph.SerializeToString(event.mutable_graph_def())) {
    return errors::InvalidArgument(path(), ": the graph is larger than a message can be (2 GiB)");
  }
  return Write(std::move(event));
}

absl::Status EventWriter::WriteRunMetadata(int64_t step, absl::string_view tag,
                                           const tensorflow::RunMetadata& metadata) {
  tensorflow::Event event;
  event.set_step(step);
  tensorflow::TaggedRunMetadata& tagged = *event.mutable_tagged_run_metadata();
  tagged.set_tag(std::string(tag));
  if (!metadata.SerializeToString(tagged.mutable_run_metadata())) {
    return errors::InvalidArgument(path(), ": run metadata '", tag,
                                   "' is larger than a message can be (2 GiB)");
  }
  return Write(std::move(event));
}

absl::Status EventWriter::Flush() {
  TANDEM_RETURN_IF_ERROR(writer_->Flush());
  pending_ = 0;
  last_flush_ = options_.clock->Now();
  return absl::OkStatus();
}

absl::Status EventWriter::FlushIfDue() {
  if (pending_ == 0 || options_.clock->Now() - last_flush_ < options_.flush_interval) {
    return absl::OkStatus();
  }
  return Flush();
}

absl::Status EventWriter::Close() { return writer_->Close(); }

absl::StatusOr<std::unique_ptr<EventReader>> EventReader::Open(FileSystem* files,
                                                               const std::string& path) {
  RecordReaderOptions options;
  options.max_record_bytes = INT_MAX;  // Of a message.
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> records,
                          RecordReader::Open(files, path, options));
  return std::unique_ptr<EventReader>(new EventReader(std::move(records)));
}

absl::StatusOr<bool> EventReader::Read(tensorflow::Event* event) {
  TANDEM_RETURN_IF_ERROR(status_);
  const int64_t offset = reader_->position();
  absl::string_view record;
  const absl::Status status = reader_->Read(&record);
  if (absl::IsOutOfRange(status) || (absl::IsDataLoss(status) && reader_->ended_in_record())) {
    return false;
  }
  if (status.ok() && !event->ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    status_ = errors::DataLoss(reader_->path(), ": the record of ", record.size(),
                               " bytes at byte ", offset, " is no event");
    return status_;
  }
  if (absl::IsDataLoss(status)) status_ = status;
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<std::vector<std::string>> ListEventFiles(FileSystem* files,
                                                        const std::string& directory) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (absl::StrContains(name, "tfevents")) paths.push_back(JoinPath(directory, name));
  }
  return paths;
}

}  // namespace tandem
