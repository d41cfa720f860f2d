#include "strategies/export/export.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "strategies/builder.h"
#include "strategies/one_device/one_device.h"

namespace tandem {
namespace {

// Adds the model once more, for one signature.
absl::StatusOr<SavedModelContents::Signature> AddSignature(StrategyBuilder& builder,
                                                           const nn::Layer& model,
                                                           const ExportSignature& signature,
                                                           size_t number) {
  SavedModelContents::Signature result;
  result.name = signature.name;
  const std::string step = absl::StrCat("export_", number);
  TANDEM_RETURN_IF_ERROR(builder.BeginStep(step));
  const Scope host = builder.host_scope().SubScope(step);
  std::vector<Output> inputs;
  for (const ExportInput& input : signature.inputs) {
    inputs.push_back(
        host.Call("Placeholder", {}, {{"dtype", input.dtype}, {"shape", input.shape}}));
    TANDEM_RETURN_IF_ERROR(host.status());
    result.inputs.push_back({input.name, input.dtype, input.shape, inputs.back().name()});
  }
  const auto call = [&](const ReplicaContext& replica) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const Output output, model.Call(replica, "", inputs, {}));
    TANDEM_RETURN_IF_ERROR(replica.scope().status());
    auto outputs = signature.outputs;
    if (outputs.empty()) outputs.emplace("output", nullptr);
    for (const auto& [name, make] : outputs) {
      const Output made = make == nullptr ? output : make(replica.scope(), output);
      TANDEM_RETURN_IF_ERROR(replica.scope().status());
      if (!made.valid()) return errors::InvalidArgument("output '", name, "' is invalid");
      result.outputs.push_back({name, made.dtype(), made.shape(), made.name()});
    }
    return absl::OkStatus();
  };
  TANDEM_RETURN_IF_ERROR(builder.Run(call));
  TANDEM_RETURN_IF_ERROR(builder.EndStep().status());
  return result;
}

absl::Status AddVariables(const StrategyBuilder& builder, const StrategyState& state,
                          SavedModelContents* contents) {
  std::map<std::string, const Tensor*> values;
  for (const auto& [name, value] : state) values.emplace(name, &value);
  std::vector<std::string> missing;
  for (const StrategyVariable* const variable : builder.variables()) {
    const auto value = values.find(variable->name());
    if (value == values.end()) {
      missing.push_back(variable->name());
      continue;
    }
    contents->variables.push_back(
        {variable->name(), variable->handle(0).name(), *value->second, variable->spec().trainable});
  }
  if (missing.empty()) return absl::OkStatus();
  return errors::NotFound("the state has no values for the model's variables ",
                          absl::StrJoin(missing, ", "));
}

}  // namespace

absl::Status ExportSavedModel(const nn::Layer& model,
                              const std::vector<ExportSignature>& signatures,
                              const StrategyState& state, const std::string& folder,
                              const ExportSavedModelOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<StrategyBuilder> builder,
                          NewOneDeviceBuilder("/device:CPU:0"));
  SavedModelContents contents;
  contents.tags = options.tags;
  for (size_t i = 0; i < signatures.size(); ++i) {
    absl::StatusOr<SavedModelContents::Signature> added =
        AddSignature(*builder, model, signatures[i], i);
    if (!added.ok()) {
      return WithContext(added.status(), absl::StrCat("exporting '", folder, "': signature '",
                                                      signatures[i].name, "'"));
    }
    contents.signatures.push_back(*std::move(added));
  }
  TANDEM_RETURN_IF_ERROR(WithContext(AddVariables(*builder, state, &contents),
                                     absl::StrCat("exporting '", folder, "'")));
  contents.graph = builder->graph();
  return WriteSavedModel(folder, contents, options.write);
}

}  // namespace tandem
