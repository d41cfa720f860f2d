#include "core/graph/op_def_proto.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "proto/op_def.pb.h"

namespace tandem {
namespace {

void ArgToProto(const ArgDef& arg, tensorflow::OpDef::ArgDef* proto) {
  proto->set_name(arg.name);
  if (arg.type != DataType::kInvalid) proto->set_type(static_cast<tensorflow::DataType>(arg.type));
  proto->set_type_attr(arg.type_attr);
  proto->set_type_list_attr(arg.type_list_attr);
  proto->set_number_attr(arg.number_attr);
  proto->set_is_ref(arg.is_ref);
}

absl::Status AttrDefToProto(const AttrDef& attr, tensorflow::OpDef::AttrDef* proto) {
  proto->set_name(attr.name);
  proto->set_type(std::string(AttrKindName(attr.kind)));
  proto->set_has_minimum(attr.has_minimum);
  proto->set_minimum(attr.minimum);
  for (const DataType type : attr.allowed_types) {
    proto->mutable_allowed_values()->mutable_list()->add_type(
        static_cast<tensorflow::DataType>(type));
  }
  for (const std::string& text : attr.allowed_strings) {
    proto->mutable_allowed_values()->mutable_list()->add_s(text);
  }
  return attr.has_default ? AttrToProto(attr.default_value, proto->mutable_default_value())
                          : absl::OkStatus();
}

absl::StatusOr<AttrKind> KindFromName(const std::string& name) {
  for (int kind = 1; kind <= static_cast<int>(AttrKind::kFunctionList); ++kind) {
    if (AttrKindName(static_cast<AttrKind>(kind)) == name) return static_cast<AttrKind>(kind);
  }
  return errors::InvalidArgument("'", name, "' is no kind of attribute");
}

absl::StatusOr<AttrDef> AttrDefFromProto(const tensorflow::OpDef::AttrDef& proto) {
  AttrDef attr;
  attr.name = proto.name();
  TANDEM_ASSIGN_OR_RETURN(attr.kind, KindFromName(proto.type()));
  attr.has_minimum = proto.has_minimum();
  attr.minimum = proto.minimum();
  for (const int type : proto.allowed_values().list().type()) {
    if (!tensorflow::DataType_IsValid(type)) {
      return errors::InvalidArgument("type ", type, " does not exist");
    }
    attr.allowed_types.push_back(static_cast<DataType>(type));
  }
  for (const std::string& text : proto.allowed_values().list().s()) {
    attr.allowed_strings.push_back(text);
  }
  if (proto.has_default_value()) {
    attr.has_default = true;
    TANDEM_ASSIGN_OR_RETURN(attr.default_value, AttrFromProto(proto.default_value()));
    const bool empty = attr.default_value.Get<AttrValue::EmptyList>() != nullptr;
    if (empty && attr.kind == AttrKind::kTypeList) attr.default_value = std::vector<DataType>();
    if (attr.default_value.kind() != attr.kind && !(empty && IsList(attr.kind))) {
      return errors::InvalidArgument("its default ", attr.default_value.DebugString(),
                                     " is not of kind ", AttrKindName(attr.kind));
    }
  }
  return attr;
}

absl::Status RequireAttr(const OpDef& def, const std::string& name, AttrKind kind) {
  const AttrDef* attr = def.FindAttr(name);
  if (attr != nullptr && attr->kind == kind) return absl::OkStatus();
  return errors::InvalidArgument("it refers to '", name, "', which is no attribute of kind ",
                                 AttrKindName(kind));
}

absl::StatusOr<ArgDef> ArgFromProto(const OpDef& def, const tensorflow::OpDef::ArgDef& proto) {
  ArgDef arg;
  arg.name = proto.name();
  arg.type = static_cast<DataType>(proto.type());
  arg.type_attr = proto.type_attr();
  arg.type_list_attr = proto.type_list_attr();
  arg.number_attr = proto.number_attr();
  arg.is_ref = proto.is_ref();
  if (arg.name.empty()) return errors::InvalidArgument("it has no name");
  const int types = (proto.type() != tensorflow::DT_INVALID) + !arg.type_attr.empty() +
                    !arg.type_list_attr.empty();
  if (types != 1) {
    return errors::InvalidArgument(
        "exactly one of type, type_attr and type_list_attr must be set; ", types, " are");
  }
  if (proto.type() != tensorflow::DT_INVALID &&
      (!tensorflow::DataType_IsValid(proto.type()) || IsReference(arg.type))) {
    return errors::InvalidArgument("no tensor can have its type ", static_cast<int>(proto.type()));
  }
  if (!arg.type_list_attr.empty() && !arg.number_attr.empty()) {
    return errors::InvalidArgument("it cannot have both a number_attr and a type_list_attr");
  }
  if (!arg.type_attr.empty()) {
    TANDEM_RETURN_IF_ERROR(RequireAttr(def, arg.type_attr, AttrKind::kType));
  }
  if (!arg.type_list_attr.empty()) {
    TANDEM_RETURN_IF_ERROR(RequireAttr(def, arg.type_list_attr, AttrKind::kTypeList));
  }
  if (!arg.number_attr.empty()) {
    TANDEM_RETURN_IF_ERROR(RequireAttr(def, arg.number_attr, AttrKind::kInt));
  }
  return arg;
}

template <typename Protos>
absl::Status ArgsFromProto(const OpDef& def, const char* what, const Protos& protos,
                           std::vector<ArgDef>* args) {
  std::set<std::string> names;
  for (const auto& proto : protos) {
    const std::string context =
        absl::StrCat("signature of '", def.name, "': ", what, " '", proto.name(), "'");
    absl::StatusOr<ArgDef> arg = ArgFromProto(def, proto);
    if (!arg.ok()) return WithContext(arg.status(), context);
    if (!names.insert(arg->name).second) {
      return errors::InvalidArgument(context, ": it is declared twice");
    }
    args->push_back(*std::move(arg));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpDefToProto(const OpDef& def, tensorflow::OpDef* proto) {
  proto->Clear();
  proto->set_name(def.name);
  for (const ArgDef& arg : def.inputs) ArgToProto(arg, proto->add_input_arg());
  for (const ArgDef& arg : def.outputs) ArgToProto(arg, proto->add_output_arg());
  for (const AttrDef& attr : def.attrs) {
    TANDEM_RETURN_IF_ERROR(AttrDefToProto(attr, proto->add_attr()));
  }
  proto->set_is_stateful(def.is_stateful);
  proto->set_is_commutative(def.is_commutative);
  proto->set_allows_uninitialized_input(def.allows_uninitialized_input);
  return absl::OkStatus();
}

absl::StatusOr<OpDef> OpDefFromProto(const tensorflow::OpDef& proto) {
  OpDef def;
  def.name = proto.name();
  if (def.name.empty()) return errors::InvalidArgument("a signature has no name");
  for (const auto& message : proto.attr()) {
    const std::string context =
        absl::StrCat("signature of '", def.name, "': attribute '", message.name(), "'");
    if (message.name().empty() || def.FindAttr(message.name()) != nullptr) {
      return errors::InvalidArgument(context, ": it has no name, or is declared twice");
    }
    absl::StatusOr<AttrDef> attr = AttrDefFromProto(message);
    if (!attr.ok()) return WithContext(attr.status(), context);
    def.attrs.push_back(*std::move(attr));
  }
  TANDEM_RETURN_IF_ERROR(ArgsFromProto(def, "input", proto.input_arg(), &def.inputs));
  TANDEM_RETURN_IF_ERROR(ArgsFromProto(def, "output", proto.output_arg(), &def.outputs));
  def.is_stateful = proto.is_stateful();
  def.is_commutative = proto.is_commutative();
  def.allows_uninitialized_input = proto.allows_uninitialized_input();
  return def;
}

}  // namespace tandem
