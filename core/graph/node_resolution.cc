#include "core/graph/node_resolution.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

bool IsVariadic(const ArgDef& arg) {
  return !arg.number_attr.empty() || !arg.type_list_attr.empty();
}

std::string TypeNames(absl::Span<const DataType> types) {
  return absl::StrJoin(types, ", ",
                       [](std::string* out, DataType type) { out->append(DataTypeName(type)); });
}

// An attribute given as "empty list" takes the declared kind.
AttrValue TypedEmptyList(AttrKind kind) {
  switch (kind) {
    case AttrKind::kStringList:
      return std::vector<std::string>();
    case AttrKind::kIntList:
      return std::vector<int64_t>();
    case AttrKind::kFloatList:
      return std::vector<float>();
    case AttrKind::kBoolList:
      return std::vector<bool>();
    case AttrKind::kTypeList:
      return std::vector<DataType>();
    case AttrKind::kShapeList:
      return std::vector<PartialShape>();
    case AttrKind::kTensorList:
      return std::vector<Tensor>();
    default:
      return std::vector<FunctionRef>();
  }
}

int64_t ListLength(const AttrValue& value) {
  if (const auto* v = value.Get<std::vector<std::string>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<int64_t>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<float>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<bool>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<DataType>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<PartialShape>>()) {
    return static_cast<int64_t>(v->size());
  }
  if (const auto* v = value.Get<std::vector<Tensor>>()) return static_cast<int64_t>(v->size());
  if (const auto* v = value.Get<std::vector<FunctionRef>>()) return static_cast<int64_t>(v->size());
  return 0;
}

absl::Status CheckType(const AttrDef& def, DataType type) {
  if (type == DataType::kInvalid || IsReference(type)) {
    return errors::InvalidArgument("attribute '", def.name, "' is ", DataTypeName(type),
                                   ", which no tensor can have");
  }
  if (def.allowed_types.empty() || absl::c_linear_search(def.allowed_types, type)) {
    return absl::OkStatus();
  }
  return errors::InvalidArgument("attribute '", def.name, "' is ", DataTypeName(type),
                                 "; allowed are ", TypeNames(def.allowed_types));
}

absl::Status CheckString(const AttrDef& def, const std::string& value) {
  if (def.allowed_strings.empty() || absl::c_linear_search(def.allowed_strings, value)) {
    return absl::OkStatus();
  }
  return errors::InvalidArgument("attribute '", def.name, "' is '", value, "'; allowed are ",
                                 absl::StrJoin(def.allowed_strings, ", "));
}

absl::Status CheckAttr(const AttrDef& def, AttrValue& value) {
  if (value.Get<AttrValue::EmptyList>() != nullptr && IsList(def.kind)) {
    value = TypedEmptyList(def.kind);
  }
  if (value.kind() != def.kind) {
    return errors::InvalidArgument("attribute '", def.name, "' is ", value.DebugString(), " (",
                                   AttrKindName(value.kind()), "); it must be of kind ",
                                   AttrKindName(def.kind));
  }
  if (const auto* type = value.Get<DataType>()) TANDEM_RETURN_IF_ERROR(CheckType(def, *type));
  if (const auto* types = value.Get<std::vector<DataType>>()) {
    for (const DataType type : *types) TANDEM_RETURN_IF_ERROR(CheckType(def, type));
  }
  if (const auto* text = value.Get<std::string>()) TANDEM_RETURN_IF_ERROR(CheckString(def, *text));
  if (const auto* texts = value.Get<std::vector<std::string>>()) {
    for (const std::string& text : *texts) TANDEM_RETURN_IF_ERROR(CheckString(def, text));
  }
  if (def.has_minimum) {
    const int64_t* number = value.Get<int64_t>();
    if (number != nullptr && *number < def.minimum) {
      return errors::InvalidArgument("attribute '", def.name, "' is ", *number,
                                     "; it must be at least ", def.minimum);
    }
    if (IsList(def.kind) && ListLength(value) < def.minimum) {
      return errors::InvalidArgument("attribute '", def.name, "' has ", ListLength(value),
                                     " elements; it must have at least ", def.minimum);
    }
  }
  return absl::OkStatus();
}

// Sets attributes that the inputs imply and that were not given. Only as far as it is unambiguous:
// when more than one argument is variadic their lengths must come from the attributes.
void InferAttrs(const OpDef& op, absl::Span<const DataType> input_types, AttrMap& attrs) {
  const auto is_variadic = [](const ArgDef& arg) { return IsVariadic(arg); };
  const bool one_variadic = absl::c_count_if(op.inputs, is_variadic) == 1;
  const size_t fixed = op.inputs.size() - 1;
  size_t next = 0;
  for (const ArgDef& arg : op.inputs) {
    size_t count = 1;
    if (!arg.number_attr.empty()) {
      const auto given = attrs.find(arg.number_attr);
      if (given != attrs.end()) {
        const int64_t* number = given->second.Get<int64_t>();
        if (number == nullptr || *number < 0) return;  // CheckAttr will complain.
        count = static_cast<size_t>(*number);
      } else if (one_variadic && input_types.size() >= fixed) {
        count = input_types.size() - fixed;
        attrs.emplace(arg.number_attr, static_cast<int64_t>(count));
      } else {
        return;
      }
    } else if (!arg.type_list_attr.empty()) {
      const auto given = attrs.find(arg.type_list_attr);
      if (given != attrs.end()) {
        count = static_cast<size_t>(ListLength(given->second));
      } else if (one_variadic && input_types.size() >= fixed) {
        count = input_types.size() - fixed;
        std::vector<DataType> types;
        for (size_t i = 0; i < count && next + i < input_types.size(); ++i) {
          types.push_back(RemoveReference(input_types[next + i]));
        }
        attrs.emplace(arg.type_list_attr, std::move(types));
      } else {
        return;
      }
    }
    if (!arg.type_attr.empty() && count > 0 && next < input_types.size()) {
      attrs.emplace(arg.type_attr, RemoveReference(input_types[next]));
    }
    next += count;
  }
}

}  // namespace

bool TypesFit(DataType source, DataType wanted) {
  return source == wanted || (!IsReference(wanted) && RemoveReference(source) == wanted);
}

absl::StatusOr<std::vector<DataType>> ArgTypes(const std::vector<ArgDef>& args,
                                               const AttrMap& attrs) {
  std::vector<DataType> types;
  for (const ArgDef& arg : args) {
    if (!arg.type_list_attr.empty()) {
      for (const DataType type : *attrs.at(arg.type_list_attr).Get<std::vector<DataType>>()) {
        types.push_back(arg.is_ref ? MakeReference(type) : type);
      }
      continue;
    }
    int64_t count = 1;
    if (!arg.number_attr.empty()) count = *attrs.at(arg.number_attr).Get<int64_t>();
    // A node's arguments are counted before memory is spent on them.
    constexpr int64_t kMaxArgs = 1 << 20;
    if (count > kMaxArgs || static_cast<int64_t>(types.size()) > kMaxArgs) {
      return errors::InvalidArgument("argument '", arg.name, "' is repeated ", count,
                                     " times; at most ", kMaxArgs, " are possible");
    }
    DataType type = arg.type_attr.empty() ? arg.type : *attrs.at(arg.type_attr).Get<DataType>();
    if (arg.is_ref) type = MakeReference(type);
    types.insert(types.end(), static_cast<size_t>(std::max<int64_t>(count, 0)), type);
  }
  return types;
}

absl::Status ResolveNode(const OpDef& op, AttrMap attrs, absl::Span<const DataType> input_types,
                         int first_missing, ResolvedNode* resolved) {
  for (const auto& [name, value] : attrs) {
    // Names that begin with an underscore are notes of whoever wrote the graph; they are kept.
    if (!name.empty() && name[0] != '_' && op.FindAttr(name) == nullptr) {
      std::vector<std::string> names;
      for (const AttrDef& def : op.attrs) names.push_back(def.name);
      return errors::InvalidArgument("the op has no attribute '", name, "'",
                                     DidYouMean(name, names));
    }
  }
  if (first_missing < 0) InferAttrs(op, input_types, attrs);
  for (const AttrDef& def : op.attrs) {
    auto given = attrs.find(def.name);
    if (given == attrs.end()) {
      if (!def.has_default) {
        return errors::InvalidArgument("attribute '", def.name, "' (", AttrKindName(def.kind),
                                       ") is missing");
      }
      attrs.emplace(def.name, def.default_value);
    } else {
      TANDEM_RETURN_IF_ERROR(CheckAttr(def, given->second));
    }
  }
  TANDEM_ASSIGN_OR_RETURN(resolved->input_types, ArgTypes(op.inputs, attrs));
  TANDEM_ASSIGN_OR_RETURN(resolved->output_types, ArgTypes(op.outputs, attrs));
  const size_t wanted = resolved->input_types.size();
  if (input_types.size() > wanted || (first_missing < 0 && input_types.size() < wanted)) {
    return errors::InvalidArgument("has ", input_types.size(), " inputs; ", wanted, " are wanted (",
                                   TypeNames(resolved->input_types), ")");
  }
  for (size_t i = 0; i < input_types.size(); ++i) {
    if (!TypesFit(input_types[i], resolved->input_types[i])) {
      return errors::InvalidArgument("input ", i, " is ", DataTypeName(input_types[i]), "; ",
                                     DataTypeName(resolved->input_types[i]), " is wanted");
    }
  }
  resolved->attrs = std::move(attrs);
  return absl::OkStatus();
}

}  // namespace tandem
