// TextLines: a string for each line of files. Attributes: paths.
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/file_reader.h"
#include "runtime/input/line_files.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

class TextLinesPass final : public Pass {
 public:
  explicit TextLinesPass(const std::vector<std::string>& paths) : lines_(paths) {}

  absl::StatusOr<MaybeElement> Next() override {
    std::string line;
    absl::StatusOr<bool> found = lines_.Next(&line);
    if (!found.ok()) return WithContext(found.status(), "TextLines");
    if (!*found) return MaybeElement();
    return MaybeElement(Element{Tensor::Scalar<std::string>(std::move(line))});
  }

  absl::Status Save(InputState* state) override { return lines_.Save("TextLines", state); }
  absl::Status Restore(const InputState& state) override {
    return lines_.Restore("TextLines", state);
  }

 private:
  LineFiles lines_;
};

class TextLinesStage final : public OpenedStage {
 public:
  explicit TextLinesStage(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext&) const override {
    return std::make_unique<TextLinesPass>(paths_);
  }
  int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  const std::vector<std::string> paths_;
};

absl::StatusOr<OpenedStagePtr> OpenTextLines(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  TANDEM_RETURN_IF_ERROR(CheckFilesExist("TextLines", paths->strings));
  return std::make_shared<const TextLinesStage>(paths->strings);
}

const bool registered = RegisterStage("TextLines", /*inputs=*/0, OpenTextLines);

}  // namespace
}  // namespace tandem::data
