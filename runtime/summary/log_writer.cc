#include "runtime/summary/log_writer.h"

#include <climits>
#include <limits>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "core/io/event.h"
#include "core/io/summary.h"
#include "proto/config.pb.h"
#include "proto/graph.pb.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/start_thread.h"

namespace tandem {
namespace {

using Value = tensorflow::Summary::Value;

// So many bytes are written before the interval is over.
constexpr int64_t kManyBytes = int64_t{1} << 20;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

LogWriter::LogWriter(std::string folder, const LogWriterOptions& options)
    : folder_(std::move(folder)), options_(options) {}

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& folder,
                                                           const LogWriterOptions& options) {
  if (options.flush_interval <= absl::ZeroDuration() || options.patience <= absl::ZeroDuration() ||
      options.max_waiting_bytes <= 0) {
    return errors::InvalidArgument(
        "the log '", folder, "' flushes every ", absl::FormatDuration(options.flush_interval),
        ", waits for ", absl::FormatDuration(options.patience), " and keeps ",
        options.max_waiting_bytes, " bytes; expected times and a size above 0");
  }
  std::unique_ptr<LogWriter> writer(new LogWriter(folder, options));
  TANDEM_RETURN_IF_ERROR(writer->OpenFile());
  writer->thread_ = StartThread("log", [raw = writer.get()] { raw->Serve(); });
  if (!writer->thread_.joinable()) {
    return errors::ResourceExhausted("the system grants no thread that writes the log '", folder,
                                     "'");
  }
  return writer;
}

LogWriter::~LogWriter() {
  Close().IgnoreError();  // It was said when it happened.
  if (!thread_.joinable()) return;
  ScopedRunTokenRelease released;
  thread_.join();
}

template <typename V>
absl::Status LogWriter::AddValue(int64_t step, absl::StatusOr<V> value) {
  if (!value.ok()) return value.status();
  tensorflow::Event event;
  event.set_step(step);
  *event.mutable_summary()->add_value() = *std::move(value);
  return Add(std::move(event));
}

absl::Status LogWriter::WriteScalar(int64_t step, absl::string_view tag, double value,
                                    absl::string_view description) {
  return AddValue(step, ScalarSummary(tag, static_cast<float>(value), description));
}

absl::Status LogWriter::WriteHistogram(int64_t step, absl::string_view tag, const Tensor& values,
                                       absl::string_view description) {
  absl::StatusOr<FiniteElements> finite = TakeFinite(values);
  if (!finite.ok()) return WithContext(finite.status(), absl::StrCat("histogram '", tag, "'"));
  TANDEM_RETURN_IF_ERROR(
      AddValue(step, HistogramSummary(tag, finite->values, kDefaultHistogramBuckets, description)));
  if (finite->left_out == 0) return absl::OkStatus();
  bool is_first;
  {
    MutexLock lock(mu_);
    is_first = non_finite_ == 0;
    non_finite_ += finite->left_out;
  }
  if (is_first) {
    TANDEM_LOG(Warning) << "histogram '" << tag << "' of step " << step << " leaves out "
                        << finite->left_out << " of " << values.num_elements()
                        << " elements, which are infinite or not a number; so do later ones in '"
                        << folder_ << "', without a word";
  }
  return absl::OkStatus();
}

absl::Status LogWriter::WriteHistogram(int64_t step, absl::string_view tag,
                                       const Histogram& histogram, absl::string_view description) {
  return AddValue(step, HistogramSummary(tag, histogram, description));
}

absl::Status LogWriter::WriteImages(int64_t step, absl::string_view tag, const Tensor& images,
                                    int max_images, absl::string_view description) {
  return AddValue(step, ImageSummary(tag, images, max_images, description));
}

absl::Status LogWriter::WriteText(int64_t step, absl::string_view tag, absl::string_view text,
                                  absl::string_view description) {
  return AddValue(step, TextSummary(tag, text, description));
}

absl::Status LogWriter::WriteText(int64_t step, absl::string_view tag, const Tensor& text,
                                  absl::string_view description) {
  return AddValue(step, TextSummary(tag, text, description));
}

absl::Status LogWriter::WriteSummary(int64_t step, const tensorflow::Summary& values) {
  tensorflow::Event event;
  event.set_step(step);
  *event.mutable_summary() = values;
  return Add(std::move(event));
}

absl::Status LogWriter::WriteGraph(const Graph& graph) {
  ExportOptions options;
  options.internal_ops = true;
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ExportGraphDef(graph, options, &def));
  return WriteGraph(def);
}

absl::Status LogWriter::WriteGraph(const tensorflow::GraphDef& graph) {
  tensorflow::Event event;
  if (!graph.SerializeToString(event.mutable_graph_def())) {
    return errors::InvalidArgument("the graph for the log '", folder_,
                                   "' is larger than a message can be (2 GiB)");
  }
  return Add(std::move(event));
}

absl::Status LogWriter::WriteRunMetadata(int64_t step, absl::string_view tag,
                                         const tensorflow::RunMetadata& metadata) {
  tensorflow::Event event;
  event.set_step(step);
  tensorflow::TaggedRunMetadata& tagged = *event.mutable_tagged_run_metadata();
  tagged.set_tag(std::string(tag));
  if (!metadata.SerializeToString(tagged.mutable_run_metadata())) {
    return errors::InvalidArgument("run metadata '", tag, "' for the log '", folder_,
                                   "' is larger than a message can be (2 GiB)");
  }
  return Add(std::move(event));
}

absl::Status LogWriter::WriteHyperparameters(const Hyperparameters& values,
                                             absl::string_view group) {
  return AddValue(0, absl::StatusOr<Value>(RunStartSummary(values, options_.clock->Now(), group)));
}

absl::Status LogWriter::WriteRunEnd(RunStatus status) {
  return AddValue(0, absl::StatusOr<Value>(RunEndSummary(status, options_.clock->Now())));
}

absl::Status LogWriter::WriteRestart(int64_t step) {
  tensorflow::Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(tensorflow::SessionLog::START);
  return Add(std::move(event));
}

absl::Status LogWriter::Add(tensorflow::Event event) {
  event.set_wall_time(Seconds(options_.clock->Now()));
  const size_t size = event.ByteSizeLong();
  if (size > INT_MAX) {
    return errors::InvalidArgument("an event of ", size, " bytes for the log '", folder_,
                                   "' is larger than a message can be (2 GiB)");
  }
  MutexLock lock(mu_);
  if (ends_) return errors::FailedPrecondition("the log '", folder_, "' was closed");
  const auto bytes = static_cast<int64_t>(size);
  if (bytes > options_.max_waiting_bytes - waiting_bytes_) {
    Lose(1, errors::ResourceExhausted("events of ", waiting_bytes_, " bytes wait for the log '",
                                      folder_, "', and the disk does not take them"));
    return absl::OkStatus();
  }
  if (waiting_.empty()) due_ = absl::Now() + options_.flush_interval;
  waiting_.push_back(std::move(event));
  waiting_bytes_ += bytes;
  ++added_;
  if (waiting_bytes_ >= kManyBytes) due_ = absl::InfinitePast();
  if (waiting_.size() == 1 || due_ == absl::InfinitePast()) changed_.NotifyAll();
  return absl::OkStatus();
}

void LogWriter::Lose(int64_t count, const absl::Status& why) {
  if (error_.ok()) {
    error_ = why;
    TANDEM_LOG(Warning) << "what is logged into '" << folder_
                        << "' is lost until it can be written again: " << why.message();
  }
  lost_ += count;
}

absl::Status LogWriter::WaitUntilWritten() {
  ScopedRunTokenRelease released;
  const absl::Time deadline = absl::Now() + options_.patience;
  MutexLock lock(mu_);
  const int64_t wanted = added_;
  if (!waiting_.empty()) due_ = absl::InfinitePast();
  changed_.NotifyAll();
  while (handled_ < wanted) {
    if (changed_.WaitUntil(mu_, deadline) || handled_ >= wanted) continue;
    return errors::DeadlineExceeded("the log '", folder_, "' is not written after ",
                                    absl::FormatDuration(options_.patience),
                                    "; is the disk too slow, or does it hang?");
  }
  return last_;
}

absl::Status LogWriter::Flush() { return WaitUntilWritten(); }

absl::Status LogWriter::Close() {
  {
    MutexLock lock(mu_);
    ends_ = true;
  }
  const absl::Status written = WaitUntilWritten();
  if (absl::IsDeadlineExceeded(written)) return written;
  return status();
}

void LogWriter::Serve() {
  while (true) {
    std::vector<tensorflow::Event> batch;
    {
      MutexLock lock(mu_);
      while (!ends_ && absl::Now() < due_) changed_.WaitUntil(mu_, due_);
      if (waiting_.empty()) break;  // All is written, and it ends.
      batch.swap(waiting_);
      waiting_bytes_ = 0;
      due_ = absl::InfiniteFuture();
    }
    const auto count = static_cast<int64_t>(batch.size());
    absl::Status status = WriteBatch(std::move(batch));
    MutexLock lock(mu_);
    if (!status.ok()) Lose(count, status);
    last_ = std::move(status);
    handled_ += count;
    changed_.NotifyAll();
  }
  // What was flushed is in the file, whatever closing it says.
  if (file_ != nullptr) file_->Close().IgnoreError();
}

absl::Status LogWriter::OpenFile() {
  EventWriterOptions options;
  options.clock = options_.clock;
  options.flush_events = std::numeric_limits<int64_t>::max();  // A batch is flushed as a whole.
  options.flush_interval = absl::InfiniteDuration();
  TANDEM_ASSIGN_OR_RETURN(file_, EventWriter::Open(options_.files, folder_, options));
  MutexLock lock(mu_);
  path_ = file_->path();
  return absl::OkStatus();
}

absl::Status LogWriter::WriteBatch(std::vector<tensorflow::Event> batch) {
  if (file_ == nullptr) {
    TANDEM_RETURN_IF_ERROR(OpenFile());
    TANDEM_LOG(Info) << "the log goes on in '" << file_->path() << "'";
  }
  absl::Status status;
  for (tensorflow::Event& event : batch) {
    status = file_->Write(std::move(event));
    if (!status.ok()) break;
  }
  if (status.ok()) status = file_->Flush();
  // Nobody knows what of the batch is in the file; its last record may be cut off.
  if (!status.ok()) file_.reset();
  return status;
}

absl::Status LogWriter::status() const {
  MutexLock lock(mu_);
  return error_;
}

int64_t LogWriter::lost() const {
  MutexLock lock(mu_);
  return lost_;
}

int64_t LogWriter::non_finite() const {
  MutexLock lock(mu_);
  return non_finite_;
}

std::string LogWriter::path() const {
  MutexLock lock(mu_);
  return path_;
}

}  // namespace tandem
