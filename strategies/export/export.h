// Writing a trained model as a SavedModel, for whatever serves and runs those: TensorFlow, model
// servers, tandem saved_model, SavedModel::Load.
//
//   trainer.Fit(train, options);
//   TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
//   ExportSignature serve;
//   serve.inputs = {{.name = "image", .shape = {-1, 28, 28, 1}}};
//   serve.outputs = {{"probabilities", Softmax}};
//   TANDEM_RETURN_IF_ERROR(ExportSavedModel(*model, {serve}, state, "served/1"));
//
// The model is built anew, for inference on one device: how it was trained does not show.
#ifndef TANDEM_STRATEGIES_EXPORT_EXPORT_H_
#define TANDEM_STRATEGIES_EXPORT_EXPORT_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/scope.h"
#include "runtime/saved_model/files.h"
#include "runtime/saved_model/write.h"
#include "strategies/nn/base.h"
#include "strategies/runner.h"

namespace tandem {

struct ExportInput {
  std::string name;
  PartialShape shape;  // Sizes of -1, such as the batch's, stay free.
  DataType dtype = kFloat32;
};

struct ExportSignature {
  std::string name = kDefaultSignature;
  std::vector<ExportInput> inputs;  // In the order in which the model takes them.
  // Outputs by name, and how each is made of what the model gives; a function that is empty gives
  // just that. None: that alone, as "output".
  std::map<std::string, std::function<Output(const Scope& scope, Output output)>> outputs;
};

struct ExportSavedModelOptions {
  std::set<std::string> tags = {kServeTag};
  WriteSavedModelOptions write;
};

// Writes `model` with the values in `state`, as CaptureState of a runner or trainer of any strategy
// gives it; what else is in there (slots of optimizers) is left out.
//
//   InvalidArgument  the model does not take such inputs, or a value has another type or shape.
//   NotFound         `state` lacks variables; all are listed.
// and those of WriteSavedModel. CheckSavedModelFolder tells beforehand what is wrong with the
// folder.
absl::Status ExportSavedModel(const nn::Layer& model,
                              const std::vector<ExportSignature>& signatures,
                              const StrategyState& state, const std::string& folder,
                              const ExportSavedModelOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_EXPORT_EXPORT_H_
