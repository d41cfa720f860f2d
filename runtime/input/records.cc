// Records: the records of TFRecord files, as strings. Attributes: paths, compression (a name of
// core/io/compression.h, or none for what the contents show), skip_damaged.
#include "core/io/record.h"

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/damage_counts.h"
#include "runtime/input/file_reader.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/record_compression.h"

namespace tandem::data {
namespace {

struct Settings {
  std::vector<std::string> paths;
  absl::optional<Compression> compression;
  bool skip_damaged;
};

class RecordsPass final : public Pass {
 public:
  RecordsPass(const Settings& settings, const PassContext& context)
      : settings_(settings), context_(context) {}

  absl::StatusOr<MaybeElement> Next() override {
    while (file_ < settings_.paths.size()) {
      // Here too, for stages that read many elements in one call (Skip, Shard).
      if (context_.cancellation->IsCancelled()) return context_.cancellation->status();
      TANDEM_RETURN_IF_ERROR(OpenFile());
      absl::string_view record;
      const absl::Status status = reader_->Read(&record);
      if (settings_.skip_damaged) {
        context_.damage->Raise(path(), Damaged() + (reader_->ended_in_record() ? 1 : 0));
      }
      if (status.ok()) {
        return MaybeElement(Element{Tensor::Scalar<std::string>(std::string(record))});
      }
      if (!absl::IsOutOfRange(status)) return WithContext(status, "Records");
      CloseFile();
      ++file_;
    }
    return MaybeElement();
  }

  // Numbers: file, position in it, damaged places before that.
  absl::Status Save(InputState* state) override {
    state->set_kind("Records");
    state->add_numbers(static_cast<int64_t>(file_));
    state->add_numbers(reader_ ? reader_->position() : 0);
    state->add_numbers(reader_ ? Damaged() : 0);
    return absl::OkStatus();
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Records", 3, 0));
    const int64_t files = static_cast<int64_t>(settings_.paths.size());
    const int64_t position = state.numbers(1);
    if (state.numbers(0) < 0 || state.numbers(0) > files || position < 0 || state.numbers(2) < 0 ||
        state.numbers(2) > position || (state.numbers(0) == files && position > 0)) {
      return BadState("Records", absl::StrCat("stands at offset ", position, " of file ",
                                              state.numbers(0), " of ", files));
    }
    file_ = static_cast<size_t>(state.numbers(0));
    if (position == 0) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(OpenFile());
    damaged_before_ = state.numbers(2);
    return WithContext(reader_->Seek(position), "Records");
  }

 private:
  const std::string& path() const { return settings_.paths[file_]; }

  int64_t Damaged() const { return damaged_before_ + reader_->damaged(); }

  absl::Status OpenFile() {
    if (reader_) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> opened =
        PosixFileSystem()->OpenToRead(path());
    if (!opened.ok()) return WithContext(opened.status(), "Records");
    bytes_ = *std::move(opened);
    RecordReaderOptions options;
    options.skip_damaged = settings_.skip_damaged;
    options.check_search = [cancellation = context_.cancellation] {
      return cancellation->IsCancelled() ? cancellation->status() : absl::OkStatus();
    };
    if (settings_.compression) {
      options.compression = *settings_.compression;
    } else {
      const absl::StatusOr<Compression> found = FindRecordCompression(*bytes_);
      if (!found.ok()) return WithContext(found.status(), "Records");
      options.compression = *found;
    }
    reader_ = std::make_unique<RecordReader>(bytes_.get(), options);
    return absl::OkStatus();
  }

  void CloseFile() {
    reader_.reset();
    bytes_.reset();
    damaged_before_ = 0;
  }

  const Settings& settings_;
  const PassContext context_;
  size_t file_ = 0;  // As many as there are: the end.
  std::unique_ptr<RandomAccessFile> bytes_;
  std::unique_ptr<RecordReader> reader_;  // Of `bytes_`; null before the file is opened.
  int64_t damaged_before_ = 0;            // Places that the reader has not seen after a restore.
};

class RecordsStage final : public OpenedStage {
 public:
  explicit RecordsStage(Settings settings) : settings_(std::move(settings)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    return std::make_unique<RecordsPass>(settings_, context);
  }
  int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  const Settings settings_;
};

absl::StatusOr<OpenedStagePtr> OpenRecords(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const compression, stage.List("compression"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t skip_damaged, stage.Int("skip_damaged"));
  Settings settings{paths->strings, absl::nullopt, skip_damaged != 0};
  if (!compression->strings.empty()) {
    absl::StatusOr<Compression> parsed = ParseCompression(compression->strings[0]);
    if (!parsed.ok()) return WithContext(parsed.status(), "Records");
    settings.compression = *parsed;
  }
  TANDEM_RETURN_IF_ERROR(CheckFilesExist("Records", settings.paths));
  return std::make_shared<const RecordsStage>(std::move(settings));
}

const bool registered = RegisterStage("Records", /*inputs=*/0, OpenRecords);

}  // namespace
}  // namespace tandem::data
