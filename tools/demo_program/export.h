// --export: the trained model as a SavedModel.
#ifndef TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_
#define TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "strategies/trainer/trainer.h"
#include "tools/demo_program/models.h"

namespace tandem::demo {

// A folder that cannot be meant shall not be found after an hour of training. FailedPrecondition:
// there is something in it that is no SavedModel.
absl::Status CheckExportFolder(const std::string& folder);

// Writes the model with the signature "serving_default": images, float32[?,28,28,1], to logits and
// probabilities. A SavedModel that is in the folder is replaced.
absl::Status ExportTo(const std::string& folder, const Model& model, Trainer& trainer);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_EXPORT_H_
