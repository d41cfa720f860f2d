// --export: the trained model as a SavedModel.
#ifndef TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_
#define TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "strategies/trainer/trainer.h"
#include "tools/demo_program/models.h"

namespace tandem::demo {

// Another folder that the training writes.
struct OtherFolder {
  std::string flag;  // "--log_dir"
  std::string path;  // Empty: it writes none.
};

// What is wrong with the folder shall not be found after an hour of training: it is equal to one of
// the others, in it or around it (InvalidArgument), or a SavedModel cannot be written there
// (CheckSavedModelFolder).
absl::Status CheckExportFolder(const std::string& folder, const std::vector<OtherFolder>& others);

// Writes the model with the signature "serving_default": images, float32[?,28,28,1], to logits and
// probabilities. A SavedModel that is in the folder is replaced.
absl::Status ExportTo(const std::string& folder, const Model& model, Trainer& trainer);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_
