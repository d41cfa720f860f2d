#include "core/graph/op_call.h"

namespace tandem {

void OpCall::AddRepeated(const InputList& list, const char* number) {
  inputs_.insert(inputs_.end(), list.begin(), list.end());
  // Two arguments may share one length; when they do not, the node's check of its inputs says so.
  attrs_.emplace(number, static_cast<int64_t>(list.size()));
}

void OpCall::AddTyped(const InputList& list, const char* types) {
  std::vector<DataType> found;
  for (const Input& input : list) {
    DataType type = DataType::kInvalid;  // The scope reports an input that is none.
    if (input.is_value()) type = input.value().dtype();
    if (input.output().valid()) type = RemoveReference(input.output().dtype());
    found.push_back(type);
  }
  inputs_.insert(inputs_.end(), list.begin(), list.end());
  attrs_.emplace(types, std::move(found));
}

void OpCall::Set(const char* name, bool value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, int64_t value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, float value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const std::string& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, DataType value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const PartialShape& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const Tensor& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const FunctionRef& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const std::vector<bool>& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const std::vector<int64_t>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const std::vector<float>& value) { attrs_.emplace(name, value); }
void OpCall::Set(const char* name, const std::vector<std::string>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const std::vector<DataType>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const std::vector<PartialShape>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const std::vector<Tensor>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const std::vector<FunctionRef>& value) {
  attrs_.emplace(name, value);
}
void OpCall::Set(const char* name, const absl::optional<Tensor>& value) {
  if (value) Set(name, *value);
}
void OpCall::Set(const char* name, const absl::optional<FunctionRef>& value) {
  if (value) Set(name, *value);
}

Node* OpCall::Finish() {
  node_ = scope_.AddNode(op_, inputs_, std::move(attrs_));
  return node_;
}

Output OpCall::NextOutput() {
  if (node_ == nullptr) return Output();
  ++next_arg_;
  return node_->output(next_output_++);
}

std::vector<Output> OpCall::NextOutputs() {
  std::vector<Output> outputs;
  if (node_ == nullptr) return outputs;
  const ArgDef& arg = node_->op().outputs[next_arg_++];
  size_t count = 0;
  if (const auto* number = node_->Attr<int64_t>(arg.number_attr)) {
    count = static_cast<size_t>(*number);
  } else if (const auto* types = node_->Attr<std::vector<DataType>>(arg.type_list_attr)) {
    count = types->size();
  }
  while (outputs.size() < count) outputs.push_back(node_->output(next_output_++));
  return outputs;
}

}  // namespace tandem
