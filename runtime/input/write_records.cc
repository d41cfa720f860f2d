#include "runtime/input/write_records.h"

#include <memory>
#include <set>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/io/example.h"

namespace tandem::data {
namespace {

// As many as TensorFlow's names of shards have digits for.
constexpr int64_t kMaxShards = 100000;

absl::Status CheckOptions(const WriteRecordsOptions& options) {
  if (options.shards < 1 || options.shards >= kMaxShards) {
    return errors::InvalidArgument("WriteRecords: shards is ", options.shards, ", expected 1 to ",
                                   kMaxShards - 1);
  }
  std::set<std::string> names;
  for (const std::string& name : options.features) {
    if (!names.insert(name).second) {
      return errors::InvalidArgument("WriteRecords: two features are called '", name, "'");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Record(const Element& element,
                                   const std::vector<std::string>& features) {
  if (features.empty()) {
    if (element.size() != 1 || element[0].dtype() != kString || !element[0].shape().IsScalar()) {
      return errors::InvalidArgument(
          "is not one string; name its components (WriteRecordsOptions::features) to write "
          "tf.Examples");
    }
    return element[0].ScalarValue<std::string>();
  }
  if (element.size() != features.size()) {
    return errors::InvalidArgument("has ", element.size(), " components, expected ",
                                   features.size(), " as there are names of features");
  }
  tensorflow::Example example;
  for (size_t i = 0; i < features.size(); ++i) {
    absl::StatusOr<tensorflow::Feature> feature = FeatureFromTensor(element[i]);
    if (!feature.ok()) {
      return WithContext(feature.status(), absl::StrCat("feature '", features[i], "'"));
    }
    SetFeature(features[i], *std::move(feature), &example);
  }
  return SerializeExample(example);
}

// A file under a name of its own until it is complete. Removes it when that does not happen.
class Shard {
 public:
  Shard(FileSystem* files, std::string path)
      : files_(files), path_(std::move(path)), temporary_(TemporaryPath(path_)) {}
  ~Shard() {
    if (!writer_) return;
    writer_.reset();
    files_->Remove(temporary_).IgnoreError();
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  absl::Status Open(const RecordWriterOptions& options) {
    TANDEM_ASSIGN_OR_RETURN(writer_, RecordWriter::Open(files_, temporary_, options));
    return absl::OkStatus();
  }
  absl::Status Write(absl::string_view record) { return writer_->Write(record); }
  absl::Status Finish() {
    // The end of a packed file is written by Close, so that is what has to reach the disk.
    TANDEM_RETURN_IF_ERROR(writer_->Close());
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                            files_->OpenToWrite(temporary_, WriteMode::kAppend));
    TANDEM_RETURN_IF_ERROR(file->Sync());
    return file->Close();
  }
  absl::Status Rename() {
    TANDEM_RETURN_IF_ERROR(files_->Rename(temporary_, path_));
    writer_.reset();
    return absl::OkStatus();
  }

 private:
  FileSystem* const files_;
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<RecordWriter> writer_;  // Null: there is no temporary file.
};

}  // namespace

absl::StatusOr<int64_t> WriteRecords(Iterator& iterator, FileSystem* files, const std::string& path,
                                     const WriteRecordsOptions& options) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<std::unique_ptr<Shard>> shards;
  for (int64_t i = 0; i < options.shards; ++i) {
    shards.push_back(std::make_unique<Shard>(
        files,
        options.shards == 1 ? path : absl::StrFormat("%s-%05d-of-%05d", path, i, options.shards)));
    TANDEM_RETURN_IF_ERROR(shards.back()->Open(options.records));
  }
  int64_t written = 0;
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(const MaybeElement element, iterator.Next());
    if (!element) break;
    const absl::StatusOr<std::string> record = Record(*element, options.features);
    if (!record.ok()) {
      return WithContext(record.status(), absl::StrCat("WriteRecords: element ", written));
    }
    TANDEM_RETURN_IF_ERROR(shards[static_cast<size_t>(written % options.shards)]->Write(*record));
    ++written;
  }
  for (const auto& shard : shards) TANDEM_RETURN_IF_ERROR(shard->Finish());
  for (const auto& shard : shards) TANDEM_RETURN_IF_ERROR(shard->Rename());
  TANDEM_RETURN_IF_ERROR(files->SyncDirectory(DirectoryOf(path)));
  return written;
}

}  // namespace tandem::data
