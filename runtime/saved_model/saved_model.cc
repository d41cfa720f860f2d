#include "runtime/saved_model/saved_model.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "runtime/saved_model/signature_state.h"

namespace tandem {
namespace {

std::vector<std::string> NamesOf(const std::vector<SignatureTensor>& tensors) {
  std::vector<std::string> names;
  for (const SignatureTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::string ListOf(const std::vector<std::string>& names) {
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

absl::Status CheckInput(const SignatureTensor& wanted, const Tensor& given) {
  if (!given.is_valid()) return errors::InvalidArgument("input '", wanted.name, "' has no value");
  if (given.dtype() == wanted.dtype && wanted.shape.IsCompatibleWith(given.shape())) {
    return absl::OkStatus();
  }
  return errors::InvalidArgument("input '", wanted.name, "' is ", DataTypeName(given.dtype()),
                                 given.shape().DebugString(), "; expected ",
                                 DataTypeName(wanted.dtype), wanted.shape.DebugString());
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ModelSignature::State::Arrange(
    const Session::Feeds& inputs) const {
  std::vector<absl::optional<Tensor>> values(info.inputs.size());
  for (const auto& [name, value] : inputs) {
    const auto input = absl::c_find_if(
        info.inputs, [&name = name](const SignatureTensor& t) { return t.name == name; });
    if (input == info.inputs.end()) {
      const std::vector<std::string> names = NamesOf(info.inputs);
      return errors::InvalidArgument("there is no input '", name,
                                     "'; the inputs are: ", ListOf(names), DidYouMean(name, names));
    }
    absl::optional<Tensor>& slot = values[static_cast<size_t>(input - info.inputs.begin())];
    if (slot.has_value()) return errors::InvalidArgument("input '", name, "' is given twice");
    TANDEM_RETURN_IF_ERROR(CheckInput(*input, value));
    slot = value;
  }
  std::vector<Tensor> arranged;
  std::vector<std::string> missing;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = info.inputs[i].name;
    const auto standard = info.defaults.find(name);
    if (values[i].has_value()) {
      arranged.push_back(*std::move(values[i]));
    } else if (standard != info.defaults.end()) {
      TANDEM_RETURN_IF_ERROR(CheckInput(info.inputs[i], standard->second));
      arranged.push_back(standard->second);
    } else {
      missing.push_back(name);
    }
  }
  if (missing.empty()) return arranged;
  return errors::InvalidArgument("inputs are missing: ", absl::StrJoin(missing, ", "));
}

absl::StatusOr<Session::Callable*> ModelSignature::State::GetCallable() {
  MutexLock lock(mu);
  if (callable == nullptr) {
    RunSignature signature;
    for (const SignatureTensor& input : info.inputs) signature.feeds.push_back(input.tensor);
    for (const SignatureTensor& output : info.outputs) signature.fetches.push_back(output.tensor);
    TANDEM_ASSIGN_OR_RETURN(callable, session->MakeCallable(signature));
  }
  return callable.get();
}

const SignatureInfo* ModelSignature::info() const {
  return state_ == nullptr ? nullptr : &state_->info;
}

absl::StatusOr<std::map<std::string, Tensor>> ModelSignature::Run(const Session::Feeds& inputs,
                                                                  const RunOptions& options) const {
  TANDEM_RETURN_IF_ERROR(status_);
  const auto run = [&]() -> absl::StatusOr<std::vector<Tensor>> {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> arranged, state_->Arrange(inputs));
    TANDEM_ASSIGN_OR_RETURN(Session::Callable* const callable, state_->GetCallable());
    return callable->Run(std::move(arranged), options);
  };
  absl::StatusOr<std::vector<Tensor>> results = run();
  if (!results.ok()) {
    return WithContext(results.status(), absl::StrCat("signature '", state_->info.name, "'"));
  }
  std::map<std::string, Tensor> outputs;
  for (size_t i = 0; i < results->size(); ++i) {
    outputs.emplace(state_->info.outputs[i].name, std::move((*results)[i]));
  }
  return outputs;
}

SavedModel::~SavedModel() = default;

std::vector<std::string> SavedModel::signature_names() const {
  std::vector<std::string> names;
  for (const auto& [name, state] : signatures_) names.push_back(name);
  return names;
}

ModelSignature SavedModel::signature(absl::string_view name) const {
  const auto found = signatures_.find(name);
  if (found != signatures_.end()) return {found->second.get(), found->second->status};
  const std::vector<std::string> names = signature_names();
  return {nullptr, errors::NotFound("the model has no signature '", name, "'; its signatures are: ",
                                    ListOf(names), DidYouMean(name, names))};
}

absl::StatusOr<Tensor> SavedModel::ReadVariable(absl::string_view name) const {
  std::vector<std::string> names;
  for (const Variable& variable : variables_) {
    names.push_back(variable.name);
    if (variable.name != name) continue;
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session_->Run({}, {variable.read}));
    return values[0];
  }
  return errors::NotFound("the model has no variable '", name, "'", DidYouMean(name, names));
}

}  // namespace tandem
