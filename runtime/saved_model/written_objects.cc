#include "runtime/saved_model/written_objects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"

namespace tandem {
namespace {

using StructuredValue = tensorflow::StructuredValue;

// A name as it stands in a path of objects.
std::string Escape(absl::string_view name) {
  return absl::StrReplaceAll(name, {{".", ".."}, {"/", ".S"}});
}

StructuredValue None() {
  StructuredValue value;
  value.mutable_none_value();
  return value;
}

// {name: type} of all tensors, as a dictionary.
StructuredValue Specs(const std::vector<SignatureTensor>& tensors) {
  StructuredValue value;
  auto& fields = *value.mutable_dict_value()->mutable_fields();
  for (const SignatureTensor& tensor : tensors) {
    tensorflow::TensorSpecProto& spec = *fields[tensor.name].mutable_tensor_spec_value();
    spec.set_name(tensor.name);
    spec.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype));
    ShapeToProto(tensor.shape, spec.mutable_shape());
  }
  return value;
}

// def f(*, x, y), as Python describes it.
void DescribeArguments(const std::vector<SignatureTensor>& inputs,
                       tensorflow::FunctionSpec* function) {
  tensorflow::NamedTupleValue& tuple =
      *function->mutable_fullargspec()->mutable_named_tuple_value();
  tuple.set_name("FullArgSpec");
  const auto add = [&](const char* key, StructuredValue value) {
    tensorflow::PairValue& pair = *tuple.add_values();
    pair.set_key(key);
    *pair.mutable_value() = std::move(value);
  };
  StructuredValue no_list;
  no_list.mutable_list_value();
  StructuredValue names = no_list;
  for (const SignatureTensor& input : inputs) {
    names.mutable_list_value()->add_values()->set_string_value(input.name);
  }
  StructuredValue no_dict;
  no_dict.mutable_dict_value();
  add("args", no_list);
  add("varargs", None());
  add("varkw", None());
  add("defaults", None());
  add("kwonlyargs", names);
  add("kwonlydefaults", None());
  add("annotations", no_dict);
  *function->mutable_input_signature() = None();
}

}  // namespace

WrittenObjects::WrittenObjects() {
  saved_.add_nodes();
  trackable_.add_nodes();
  MakeUserObject(0, "_generic_user_object");
}

void WrittenObjects::MakeUserObject(int node, const std::string& identifier) {
  tensorflow::SavedUserObject& object = *saved_.mutable_nodes(node)->mutable_user_object();
  object.set_identifier(identifier);
  object.mutable_version()->set_producer(1);
  object.mutable_version()->set_min_consumer(1);
}

absl::StatusOr<int> WrittenObjects::AddObject(int parent, const std::string& name) {
  const int node = saved_.nodes_size();
  if (!children_.emplace(std::make_pair(parent, name), node).second) {
    return errors::InvalidArgument("two objects would be called '", name, "'");
  }
  saved_.add_nodes();
  trackable_.add_nodes();
  for (auto* children : {saved_.mutable_nodes(parent)->mutable_children(),
                         trackable_.mutable_nodes(parent)->mutable_children()}) {
    auto* const child = children->Add();
    child->set_node_id(node);
    child->set_local_name(name);
  }
  return node;
}

absl::StatusOr<int> WrittenObjects::FindOrAddFolder(int parent, const std::string& name) {
  const auto found = children_.find(std::make_pair(parent, name));
  if (found != children_.end() && saved_.nodes(found->second).has_user_object()) {
    return found->second;
  }
  TANDEM_ASSIGN_OR_RETURN(const int node, AddObject(parent, name));
  MakeUserObject(node, "_generic_user_object");
  return node;
}

absl::Status WrittenObjects::AddVariable(const std::string& name, DataType dtype,
                                         const Shape& shape, bool trainable) {
  const std::string context = absl::StrCat("variable '", name, "'");
  const std::vector<std::string> path = absl::StrSplit(name, '/');
  int parent = 0;
  std::string key;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i].empty() || (i == 0 && (path[i] == "signatures" || path[i] == "assets"))) {
      return errors::InvalidArgument(context, ": '", path[i], "' cannot be the name of an object ",
                                     "here; rename the variable");
    }
    absl::StrAppend(&key, Escape(path[i]), "/");
    absl::StatusOr<int> node =
        i + 1 < path.size() ? FindOrAddFolder(parent, path[i]) : AddObject(parent, path[i]);
    if (!node.ok()) return WithContext(node.status(), context);
    parent = *node;
  }
  absl::StrAppend(&key, ".ATTRIBUTES/VARIABLE_VALUE");
  tensorflow::SavedVariable& variable = *saved_.mutable_nodes(parent)->mutable_variable();
  variable.set_name(name);
  variable.set_dtype(static_cast<tensorflow::DataType>(dtype));
  ShapeToProto(shape, variable.mutable_shape());
  variable.set_trainable(trainable);
  auto& value = *trackable_.mutable_nodes(parent)->add_attributes();
  value.set_name("VARIABLE_VALUE");
  value.set_full_name(name);
  value.set_checkpoint_key(key);
  keys_.push_back(std::move(key));
  captures_.push_back(parent);
  return absl::OkStatus();
}

absl::Status WrittenObjects::AddAsset() {
  TANDEM_ASSIGN_OR_RETURN(const int folder, FindOrAddFolder(0, "assets"));
  TANDEM_ASSIGN_OR_RETURN(const int node, AddObject(folder, absl::StrCat(num_assets_)));
  saved_.mutable_nodes(node)->mutable_asset()->set_asset_file_def_index(num_assets_++);
  captures_.push_back(node);
  return absl::OkStatus();
}

absl::Status WrittenObjects::AddSignature(const std::string& name, const ExportedFunction& function,
                                          const std::vector<int>& bound) {
  const auto found = children_.find(std::make_pair(0, std::string("signatures")));
  int signatures = found == children_.end() ? -1 : found->second;
  if (signatures < 0) {
    TANDEM_ASSIGN_OR_RETURN(signatures, AddObject(0, "signatures"));
    MakeUserObject(signatures, "signature_map");
  }
  TANDEM_ASSIGN_OR_RETURN(const int node, AddObject(signatures, name));
  const std::string& function_name = function.def.signature().name();
  auto& bare = *saved_.mutable_nodes(node)->mutable_bare_concrete_function();
  bare.set_concrete_function_name(function_name);
  for (const SignatureTensor& input : function.inputs) bare.add_argument_keywords(input.name);
  bare.set_allowed_positional_arguments(static_cast<int64_t>(function.inputs.size()));
  DescribeArguments(function.inputs, bare.mutable_function_spec());

  auto& concrete = (*saved_.mutable_concrete_functions())[function_name];
  for (const int capture : bound) {
    concrete.add_bound_inputs(captures_[static_cast<size_t>(capture)]);
  }
  auto& arguments = *concrete.mutable_canonicalized_input_signature()->mutable_tuple_value();
  arguments.add_values()->mutable_tuple_value();
  *arguments.add_values() = Specs(function.inputs);
  *concrete.mutable_output_signature() = Specs(function.outputs);
  return absl::OkStatus();
}

}  // namespace tandem
