#include "tools/demo_program/export.h"

#include <vector>

#include "core/base/status.h"
#include "core/io/file.h"
#include "strategies/export/export.h"

namespace tandem::demo {

absl::Status CheckExportFolder(const std::string& folder) {
  FileSystem* const files = PosixFileSystem();
  if (!files->Stat(folder).ok() || files->Stat(JoinPath(folder, "saved_model.pb")).ok()) {
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(folder));
  if (names.empty()) return absl::OkStatus();
  return errors::FailedPrecondition("--export=", folder,
                                    ": the folder holds something else than a SavedModel (",
                                    names[0], "); give another one");
}

absl::Status ExportTo(const std::string& folder, const Model& model, Trainer& trainer) {
  TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
  ExportSignature serve;
  serve.inputs = {{.name = "images", .shape = {-1, 28, 28, 1}}};
  serve.outputs = {{"logits", nullptr}, {"probabilities", [](const Scope& scope, Output logits) {
                                           return scope.Call("Softmax", {logits});
                                         }}};
  ExportSavedModelOptions options;
  options.write.overwrite = true;
  return ExportSavedModel(*model.layers, {serve}, state, folder, options);
}

}  // namespace tandem::demo
