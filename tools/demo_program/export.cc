#include "tools/demo_program/export.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/base/status.h"
#include "strategies/export/export.h"

namespace tandem::demo {
namespace {

// As far as it is there without links, and without a slash at the end.
std::filesystem::path RealPath(const std::string& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  if (error) real = std::filesystem::absolute(path, error).lexically_normal();
  return real.has_filename() ? real : real.parent_path();
}

bool IsInOrEqual(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

ExportSavedModelOptions Options() {
  ExportSavedModelOptions options;
  options.write.overwrite = true;
  return options;
}

}  // namespace

absl::Status CheckExportFolder(const std::string& folder, const std::vector<OtherFolder>& others) {
  const std::filesystem::path real = RealPath(folder);
  for (const OtherFolder& other : others) {
    if (other.path.empty()) continue;
    const std::filesystem::path real_other = RealPath(other.path);
    if (!IsInOrEqual(real, real_other) && !IsInOrEqual(real_other, real)) continue;
    return errors::InvalidArgument("--export=", folder, " and ", other.flag, "=", other.path,
                                   " are one folder, or one is in the other; a SavedModel has a "
                                   "folder of its own, which is replaced as a whole");
  }
  return WithContext(CheckSavedModelFolder(folder, Options().write), "--export");
}

absl::Status ExportTo(const std::string& folder, const Model& model, Trainer& trainer) {
  TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
  ExportSignature serve;
  serve.inputs = {{.name = "images", .shape = {-1, 28, 28, 1}}};
  serve.outputs = {{"logits", nullptr}, {"probabilities", [](const Scope& scope, Output logits) {
                                           return scope.Call("Softmax", {logits});
                                         }}};
  return ExportSavedModel(*model.layers, {serve}, state, folder, Options());
}

}  // namespace tandem::demo
