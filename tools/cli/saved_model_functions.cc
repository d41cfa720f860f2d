#include "tools/cli/saved_model_functions.h"

#include <deque>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor_proto.h"

namespace tandem::cli {
namespace {

using StructuredValue = tensorflow::StructuredValue;

std::string TypeText(const tensorflow::TensorSpecProto& spec) {
  const auto shape = PartialShapeFromProto(spec.shape());
  return absl::StrCat(DataTypeName(static_cast<DataType>(spec.dtype())),
                      shape.ok() ? shape->DebugString() : "[…]");
}

std::string Text(const StructuredValue& value);

// "name: type, …". As deep as the message, whose depth the parser limits.
std::string Fields(const tensorflow::DictValue& dict) {
  const std::map<std::string, StructuredValue> sorted(dict.fields().begin(), dict.fields().end());
  return absl::StrJoin(sorted, ", ", [](std::string* out, const auto& field) {
    absl::StrAppend(out, field.first, ": ", Text(field.second));
  });
}

template <typename List>
std::string Elements(const List& list, bool with_names) {
  return absl::StrJoin(list.values(), ", ", [&](std::string* out, const StructuredValue& value) {
    const bool named =
        with_names && value.has_tensor_spec_value() && !value.tensor_spec_value().name().empty();
    if (named) absl::StrAppend(out, value.tensor_spec_value().name(), ": ");
    absl::StrAppend(out, Text(value));
  });
}

std::string Text(const StructuredValue& value) {
  switch (value.kind_case()) {
    case StructuredValue::kTensorSpecValue:
      return TypeText(value.tensor_spec_value());
    case StructuredValue::kFloat64Value:
      return absl::StrCat(value.float64_value());
    case StructuredValue::kInt64Value:
      return absl::StrCat(value.int64_value());
    case StructuredValue::kStringValue:
      return absl::StrCat("\"", value.string_value(), "\"");
    case StructuredValue::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case StructuredValue::kListValue:
      return absl::StrCat("[", Elements(value.list_value(), false), "]");
    case StructuredValue::kTupleValue:
      return absl::StrCat("(", Elements(value.tuple_value(), false), ")");
    case StructuredValue::kDictValue:
      return absl::StrCat("{", Fields(value.dict_value()), "}");
    case StructuredValue::kNoneValue:
    case StructuredValue::KIND_NOT_SET:
      return "none";
    default:
      return "…";
  }
}

// The pair of positional and named arguments as one list.
std::string Arguments(const StructuredValue& signature) {
  if (signature.tuple_value().values_size() != 2) return Text(signature);
  const std::string positional = Elements(signature.tuple_value().values(0).tuple_value(), true);
  const std::string named = Fields(signature.tuple_value().values(1).dict_value());
  return absl::StrCat("(", positional, positional.empty() || named.empty() ? "" : ", ", named, ")");
}

}  // namespace

std::vector<ShownFunction> FunctionsOf(const tensorflow::SavedObjectGraph& objects) {
  std::vector<ShownFunction> shown;
  // The shortest path to each object; objects may hold each other.
  std::map<int, std::string> paths = {{0, ""}};
  std::deque<int> queue;
  if (objects.nodes_size() > 0) queue.push_back(0);
  const auto add = [&](const std::string& path, const std::string& name) {
    const auto function = objects.concrete_functions().find(name);
    if (function == objects.concrete_functions().end()) return;
    shown.push_back({path, name, Arguments(function->second.canonicalized_input_signature()),
                     Text(function->second.output_signature())});
  };
  while (!queue.empty()) {
    const int number = queue.front();
    queue.pop_front();
    const tensorflow::SavedObject& node = objects.nodes(number);
    const std::string& path = paths[number];
    for (const std::string& name : node.function().concrete_functions()) add(path, name);
    if (node.has_function()) continue;  // Its children are the same functions again.
    if (node.has_bare_concrete_function()) {
      add(path, node.bare_concrete_function().concrete_function_name());
    }
    for (const auto& child : node.children()) {
      if (child.node_id() < 0 || child.node_id() >= objects.nodes_size()) continue;
      const std::string child_path =
          absl::StrCat(path, path.empty() ? "" : "/", child.local_name());
      if (paths.emplace(child.node_id(), child_path).second) queue.push_back(child.node_id());
    }
  }
  absl::c_stable_sort(
      shown, [](const ShownFunction& a, const ShownFunction& b) { return a.path < b.path; });
  return shown;
}

}  // namespace tandem::cli
