#include "runtime/saved_model/model_functions.h"

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "proto/meta_graph.pb.h"
#include "runtime/saved_model/graph_part.h"

namespace tandem {
namespace {

using tensorflow::SavedObject;
using tensorflow::StructuredValue;

// A tensor of a function's arguments or results.
struct NamedSpec {
  std::string
      name;  // Its place in dictionaries and lists; empty: there is but one, or none of them.
  const tensorflow::TensorSpecProto* spec = nullptr;
};

std::string Joined(const std::string& prefix, absl::string_view name) {
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, "/", name);
}

// The tensors in the order in which functions take and give them; false: something is made of
// tensors in a way of its own (sparse, ragged). As deep as the message, whose depth the parser
// limits.
bool Flatten(const StructuredValue& value, const std::string& prefix,
             std::vector<NamedSpec>* specs) {
  const auto list = [&](const auto& values) {
    bool all = true;
    int i = 0;
    for (const StructuredValue& element : values) {
      // Elements of the outermost list have no names of their own.
      all &= Flatten(element, prefix.empty() ? "" : Joined(prefix, absl::StrCat(i)), specs);
      ++i;
    }
    return all;
  };
  switch (value.kind_case()) {
    case StructuredValue::kTensorSpecValue:
      specs->push_back({prefix, &value.tensor_spec_value()});
      return true;
    case StructuredValue::kListValue:
      return list(value.list_value().values());
    case StructuredValue::kTupleValue:
      return list(value.tuple_value().values());
    case StructuredValue::kDictValue: {
      bool all = true;
      std::map<std::string, const StructuredValue*> sorted;
      for (const auto& [key, field] : value.dict_value().fields()) sorted[key] = &field;
      for (const auto& [key, field] : sorted) all &= Flatten(*field, Joined(prefix, key), specs);
      return all;
    }
    case StructuredValue::kNamedTupleValue: {
      bool all = true;
      for (const auto& pair : value.named_tuple_value().values()) {
        all &= Flatten(pair.value(), Joined(prefix, pair.key()), specs);
      }
      return all;
    }
    case StructuredValue::kTypeSpecValue:
    case StructuredValue::kBoundedTensorSpecValue:
      return false;
    default:
      return true;  // A plain value, which is in the function already.
  }
}

class Functions {
 public:
  explicit Functions(tensorflow::MetaGraphDef* meta_graph)
      : meta_graph_(*meta_graph), objects_(meta_graph->object_graph_def()) {
    for (const auto& function : meta_graph_.graph_def().library().function()) {
      library_.emplace(function.signature().name(), &function);
    }
    for (const tensorflow::NodeDef& node : meta_graph_.graph_def().node()) {
      node_names_.insert(node.name());
    }
    FindPaths();
    FindCaptures();
  }

  absl::Status Add(const std::string& name) {
    if (meta_graph_.signature_def().count(name) != 0) {
      return errors::InvalidArgument("the model has a signature '", name,
                                     "', too; name the function as the library does");
    }
    TANDEM_ASSIGN_OR_RETURN(const std::string concrete, Find(name));
    return AddCall(name, concrete);
  }

 private:
  // Of each function the concrete ones, by its object's path.
  void FindPaths() {
    std::map<int, std::string> paths = {{0, ""}};
    std::deque<int> queue;
    if (objects_.nodes_size() > 0) queue.push_back(0);
    while (!queue.empty()) {
      const int number = queue.front();
      queue.pop_front();
      const SavedObject& object = objects_.nodes(number);
      const std::string path = paths[number];
      for (const std::string& concrete : object.function().concrete_functions()) {
        by_path_[path].push_back(concrete);
      }
      if (object.has_bare_concrete_function()) {
        by_path_[path].push_back(object.bare_concrete_function().concrete_function_name());
      }
      if (object.has_function()) continue;
      for (const auto& child : object.children()) {
        if (child.node_id() < 0 || child.node_id() >= objects_.nodes_size()) continue;
        if (paths.emplace(child.node_id(), Joined(path, child.local_name())).second) {
          queue.push_back(child.node_id());
        }
      }
    }
  }

  // The tensors that stand for objects in the graph.
  void FindCaptures() {
    // What calls in the graph give to what they capture, which comes last.
    for (const tensorflow::NodeDef& node : meta_graph_.graph_def().node()) {
      const auto called = node.attr().find("f");
      if (called == node.attr().end()) continue;
      const auto function = objects_.concrete_functions().find(called->second.func().name());
      if (function == objects_.concrete_functions().end()) continue;
      std::vector<std::string> inputs;
      for (const std::string& input : node.input()) {
        if (!absl::StartsWith(input, "^")) inputs.push_back(input);
      }
      const auto& bound = function->second.bound_inputs();
      const auto count = static_cast<size_t>(bound.size());
      for (size_t i = 0; i < count && count <= inputs.size(); ++i) {
        captures_.emplace(bound[static_cast<int>(i)], inputs[inputs.size() - count + i]);
      }
    }
    // Variables by name; empty: several have it.
    std::map<std::string, std::string> handles;
    for (const tensorflow::NodeDef& node : meta_graph_.graph_def().node()) {
      if (node.op() != "VarHandleOp") continue;
      const auto shared_name = node.attr().find("shared_name");
      if (shared_name == node.attr().end()) continue;
      const auto [handle, is_new] = handles.emplace(shared_name->second.s(), node.name());
      if (!is_new) handle->second.clear();
    }
    for (int i = 0; i < objects_.nodes_size(); ++i) {
      const SavedObject& object = objects_.nodes(i);
      std::string tensor;
      if (object.has_variable()) {
        tensor = handles[object.variable().name()];
      } else if (object.has_constant()) {
        tensor = object.constant().operation();
      } else if (object.has_asset()) {
        const int asset = object.asset().asset_file_def_index();
        if (asset >= 0 && asset < meta_graph_.asset_file_def_size()) {
          tensor = meta_graph_.asset_file_def(asset).tensor_info().name();
        }
      }
      if (!tensor.empty()) captures_.emplace(i, tensor);
    }
  }

  // The name in the library of a function that a user names.
  absl::StatusOr<std::string> Find(const std::string& name) const {
    if (objects_.concrete_functions().count(name) != 0) return name;
    const auto found = by_path_.find(name);
    if (found == by_path_.end()) {
      std::vector<std::string> names;
      for (const auto& [path, concrete] : by_path_) names.push_back(path);
      return errors::NotFound("the model has no function '", name, "'; its functions are: ",
                              names.empty() ? "none" : absl::StrJoin(names, ", "),
                              DidYouMean(name, names));
    }
    if (found->second.size() == 1) return found->second[0];
    return errors::InvalidArgument(
        "the function '", name, "' has ", found->second.size(),
        " forms, for other types; name one of them: ", absl::StrJoin(found->second, ", "));
  }

  absl::Status AddCall(const std::string& name, const std::string& concrete) {
    const auto known = objects_.concrete_functions().find(concrete);
    const auto defined = library_.find(concrete);
    if (known == objects_.concrete_functions().end() || defined == library_.end()) {
      return errors::InvalidArgument("the function '", concrete, "' is not in the library");
    }
    const tensorflow::OpDef& signature = defined->second->signature();
    const auto& bound = known->second.bound_inputs();
    const int args = signature.input_arg_size() - bound.size();
    if (args < 0) {
      return errors::InvalidArgument("the function '", concrete, "' has ",
                                     signature.input_arg_size(), " arguments and captures ",
                                     bound.size());
    }
    std::vector<std::string> inputs;
    for (const int object : bound) {
      const auto tensor = captures_.find(object);
      if (tensor == captures_.end()) {
        return errors::Unimplemented("the function '", name, "' captures the object ", object,
                                     " of the model, for which the graph has no node");
      }
      inputs.push_back(tensor->second);
    }
    const std::string base = UniqueName();
    tensorflow::SignatureDef def;
    AddInputs(base, known->second, signature, args, &inputs, &def);
    AddOutputs(base, known->second, signature, &def);
    tensorflow::NodeDef* const call = meta_graph_.mutable_graph_def()->add_node();
    call->set_name(base + "/call");
    call->set_op(concrete);
    for (std::string& input : inputs) call->add_input(std::move(input));
    (*meta_graph_.mutable_signature_def())[name] = std::move(def);
    return absl::OkStatus();
  }

  // Adds a placeholder for each argument, before the captured `inputs`.
  void AddInputs(const std::string& base, const tensorflow::SavedConcreteFunction& function,
                 const tensorflow::OpDef& signature, int args, std::vector<std::string>* inputs,
                 tensorflow::SignatureDef* def) {
    std::vector<NamedSpec> specs;
    const bool are_known = Flatten(function.canonicalized_input_signature(), "", &specs) &&
                           static_cast<int>(specs.size()) == args;
    std::vector<std::string> placeholders;
    for (int i = 0; i < args; ++i) {
      const tensorflow::OpDef::ArgDef& arg = signature.input_arg(i);
      const tensorflow::TensorSpecProto* const spec =
          are_known ? specs[static_cast<size_t>(i)].spec : nullptr;
      tensorflow::NodeDef* const node = meta_graph_.mutable_graph_def()->add_node();
      node->set_name(absl::StrCat(base, "/arg_", i));
      node->set_op("Placeholder");
      (*node->mutable_attr())["dtype"].set_type(arg.type());
      placeholders.push_back(node->name());
      std::string name = spec != nullptr && !spec->name().empty() ? spec->name() : arg.name();
      if (def->inputs().count(name) != 0) name = arg.name();
      SetTensor(absl::StrCat(node->name(), ":0"), arg.type(), spec,
                &(*def->mutable_inputs())[name]);
    }
    inputs->insert(inputs->begin(), placeholders.begin(), placeholders.end());
  }

  static void AddOutputs(const std::string& base, const tensorflow::SavedConcreteFunction& function,
                         const tensorflow::OpDef& signature, tensorflow::SignatureDef* def) {
    std::vector<NamedSpec> specs;
    const bool are_known = Flatten(function.output_signature(), "", &specs) &&
                           static_cast<int>(specs.size()) == signature.output_arg_size();
    for (int i = 0; i < signature.output_arg_size(); ++i) {
      const NamedSpec known = are_known ? specs[static_cast<size_t>(i)] : NamedSpec();
      const std::string name = known.name.empty() ? absl::StrCat("output_", i) : known.name;
      SetTensor(absl::StrCat(base, "/call:", i), signature.output_arg(i).type(), known.spec,
                &(*def->mutable_outputs())[name]);
    }
  }

  static void SetTensor(const std::string& tensor, tensorflow::DataType dtype,
                        const tensorflow::TensorSpecProto* spec, tensorflow::TensorInfo* info) {
    info->set_name(tensor);
    info->set_dtype(dtype);
    if (spec != nullptr) {
      *info->mutable_tensor_shape() = spec->shape();
    } else {
      info->mutable_tensor_shape()->set_unknown_rank(true);
    }
  }

  // A beginning of names that no node has.
  std::string UniqueName() {
    for (;; ++next_) {
      const std::string base = absl::StrCat("tandem_function_", next_);
      const auto near = node_names_.lower_bound(base);
      if (near != node_names_.end() && absl::StartsWith(*near, base)) continue;
      ++next_;
      return base;
    }
  }

  tensorflow::MetaGraphDef& meta_graph_;
  const tensorflow::SavedObjectGraph& objects_;
  std::map<std::string, const tensorflow::FunctionDef*> library_;
  std::set<std::string> node_names_;
  std::map<std::string, std::vector<std::string>> by_path_;
  std::map<int, std::string> captures_;  // Tensors by the numbers of their objects.
  int next_ = 0;
};

}  // namespace

absl::Status AddFunctionSignatures(const std::vector<std::string>& functions,
                                   tensorflow::MetaGraphDef* meta_graph) {
  if (functions.empty()) return absl::OkStatus();
  Functions all(meta_graph);
  for (const std::string& function : functions) TANDEM_RETURN_IF_ERROR(all.Add(function));
  return absl::OkStatus();
}

}  // namespace tandem
