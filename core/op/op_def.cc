#include "core/op/op_def.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Splits at `separator` outside brackets of any kind and quotes; pieces are trimmed, empty ones
// left out.
std::vector<std::string> SplitOutsideBrackets(absl::string_view text, char separator) {
  std::vector<std::string> pieces;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool end = i == text.size();
    if (!end) {
      if (text[i] == '"') quoted = !quoted;
      if (!quoted && (text[i] == '{' || text[i] == '[' || text[i] == '(')) ++depth;
      if (!quoted && (text[i] == '}' || text[i] == ']' || text[i] == ')')) --depth;
    }
    if (end || (text[i] == separator && depth == 0 && !quoted)) {
      const absl::string_view piece = absl::StripAsciiWhitespace(text.substr(begin, i - begin));
      if (!piece.empty()) pieces.emplace_back(piece);
      begin = i + 1;
    }
  }
  return pieces;
}

absl::StatusOr<AttrKind> ParseKind(absl::string_view text) {
  static const auto& kinds = *new std::map<std::string, AttrKind, std::less<>>([] {
    std::map<std::string, AttrKind, std::less<>> map;
    for (int i = 1; i <= static_cast<int>(AttrKind::kFunctionList); ++i) {
      const AttrKind kind = static_cast<AttrKind>(i);
      map.emplace(std::string(AttrKindName(kind)), kind);
    }
    return map;
  }());
  const auto found = kinds.find(std::string(text));
  if (found == kinds.end()) {
    return errors::InvalidArgument("unknown attribute kind '", text, "'");
  }
  return found->second;
}

std::string Unquote(absl::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

absl::StatusOr<DataType> ParseTypeOrError(absl::string_view text) {
  const absl::optional<DataType> type = ParseDataType(text);
  if (!type.has_value()) return errors::InvalidArgument("unknown type '", text, "'");
  return *type;
}

// "[1,2]" or "unknown" (also the rank); "[-1,3]" has an unknown size.
absl::StatusOr<PartialShape> ParseShape(absl::string_view text) {
  if (text == "unknown" || text == "<unknown>") return PartialShape::Unknown();
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return errors::InvalidArgument("'", text, "' is not a shape");
  }
  std::vector<int64_t> dims;
  for (const std::string& piece : SplitOutsideBrackets(text, ',')) {
    int64_t size = PartialShape::kUnknownDim;
    if (piece != "?" && !absl::SimpleAtoi(piece, &size)) {
      return errors::InvalidArgument("'", piece, "' is not the size of a dimension");
    }
    dims.push_back(size);
  }
  return PartialShape::FromDims(dims);
}

// "uint8[255,0]", a vector: of all ops in TensorFlow's table one has a default that is a tensor,
// and that is a colour.
absl::StatusOr<AttrValue> ParseTensorDefault(absl::string_view text) {
  const absl::string_view whole = text;
  std::vector<uint8_t> bytes;
  bool good = absl::ConsumePrefix(&text, "uint8[") && absl::ConsumeSuffix(&text, "]");
  for (const std::string& piece : SplitOutsideBrackets(text, ',')) {
    int value = -1;
    good = good && absl::SimpleAtoi(piece, &value) && value >= 0 && value <= 255;
    bytes.push_back(static_cast<uint8_t>(value));
  }
  if (good) return AttrValue(Tensor::Vector<uint8_t>(absl::MakeConstSpan(bytes)));
  return errors::InvalidArgument("'", whole, "' is no vector of uint8 like uint8[255,0]");
}

absl::StatusOr<AttrValue> ParseDefault(AttrKind kind, absl::string_view text) {
  if (IsList(kind)) {
    absl::string_view inner = text;
    if (!absl::ConsumePrefix(&inner, "[") || !absl::ConsumeSuffix(&inner, "]")) {
      return errors::InvalidArgument("the default of a list must stand in brackets, not '", text,
                                     "'");
    }
    const std::vector<std::string> pieces = SplitOutsideBrackets(inner, ',');
    std::vector<std::string> strings;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<bool> bools;
    std::vector<DataType> types;
    std::vector<PartialShape> shapes;
    for (const std::string& piece : pieces) {
      const AttrKind element =
          static_cast<AttrKind>(static_cast<int>(kind) - static_cast<int>(AttrKind::kStringList) +
                                static_cast<int>(AttrKind::kString));
      TANDEM_ASSIGN_OR_RETURN(const AttrValue value, ParseDefault(element, piece));
      if (const auto* v = value.Get<std::string>()) strings.push_back(*v);
      if (const auto* v = value.Get<int64_t>()) ints.push_back(*v);
      if (const auto* v = value.Get<float>()) floats.push_back(*v);
      if (const auto* v = value.Get<bool>()) bools.push_back(*v);
      if (const auto* v = value.Get<DataType>()) types.push_back(*v);
      if (const auto* v = value.Get<PartialShape>()) shapes.push_back(*v);
    }
    switch (kind) {
      case AttrKind::kStringList:
        return AttrValue(std::move(strings));
      case AttrKind::kIntList:
        return AttrValue(std::move(ints));
      case AttrKind::kFloatList:
        return AttrValue(std::move(floats));
      case AttrKind::kBoolList:
        return AttrValue(std::move(bools));
      case AttrKind::kTypeList:
        return AttrValue(std::move(types));
      case AttrKind::kShapeList:
        return AttrValue(std::move(shapes));
      case AttrKind::kTensorList:
        return AttrValue(std::vector<Tensor>());
      default:
        return AttrValue(std::vector<FunctionRef>());
    }
  }
  switch (kind) {
    case AttrKind::kString:
      return AttrValue(Unquote(text));
    case AttrKind::kInt: {
      int64_t value;
      if (absl::SimpleAtoi(text, &value)) return AttrValue(value);
      break;
    }
    case AttrKind::kFloat: {
      float value;
      if (absl::SimpleAtof(text, &value)) return AttrValue(value);
      break;
    }
    case AttrKind::kBool:
      if (absl::EqualsIgnoreCase(text, "true")) return AttrValue(true);
      if (absl::EqualsIgnoreCase(text, "false")) return AttrValue(false);
      break;
    case AttrKind::kType: {
      TANDEM_ASSIGN_OR_RETURN(const DataType type, ParseTypeOrError(text));
      return AttrValue(type);
    }
    case AttrKind::kShape: {
      TANDEM_ASSIGN_OR_RETURN(PartialShape shape, ParseShape(text));
      return AttrValue(std::move(shape));
    }
    case AttrKind::kTensor:
      return ParseTensorDefault(text);
    default:
      break;
  }
  return errors::InvalidArgument("'", text, "' is no default for an attribute of kind ",
                                 AttrKindName(kind));
}

// name:kind{allowed}>=minimum=default
absl::StatusOr<AttrDef> ParseAttr(absl::string_view text) {
  AttrDef attr;
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) {
    return errors::InvalidArgument("attribute '", text, "' lacks ':kind'");
  }
  attr.name = std::string(absl::StripAsciiWhitespace(text.substr(0, colon)));
  absl::string_view rest = absl::StripAsciiWhitespace(text.substr(colon + 1));
  const size_t kind_end = std::min(rest.find_first_of("{>="), rest.size());
  TANDEM_ASSIGN_OR_RETURN(attr.kind, ParseKind(rest.substr(0, kind_end)));
  rest.remove_prefix(kind_end);
  if (absl::ConsumePrefix(&rest, "{")) {
    const size_t close = rest.find('}');
    if (close == absl::string_view::npos) {
      return errors::InvalidArgument("attribute '", text, "' lacks a '}'");
    }
    for (const std::string& value : SplitOutsideBrackets(rest.substr(0, close), ',')) {
      if (attr.kind == AttrKind::kType || attr.kind == AttrKind::kTypeList) {
        TANDEM_ASSIGN_OR_RETURN(const DataType type, ParseTypeOrError(value));
        attr.allowed_types.push_back(type);
      } else {
        attr.allowed_strings.push_back(Unquote(value));
      }
    }
    rest.remove_prefix(close + 1);
  }
  if (absl::ConsumePrefix(&rest, ">=")) {
    const size_t end = std::min(rest.find('='), rest.size());
    if (!absl::SimpleAtoi(rest.substr(0, end), &attr.minimum)) {
      return errors::InvalidArgument("attribute '", text, "' has no number after '>='");
    }
    attr.has_minimum = true;
    rest.remove_prefix(end);
  }
  if (absl::ConsumePrefix(&rest, "=")) {
    TANDEM_ASSIGN_OR_RETURN(attr.default_value, ParseDefault(attr.kind, rest));
    attr.has_default = true;
  } else if (!rest.empty()) {
    return errors::InvalidArgument("attribute '", text, "' has '", rest, "' left over");
  }
  return attr;
}

std::string ArgsText(const std::vector<ArgDef>& args) {
  return absl::StrJoin(args, ", ", [](std::string* out, const ArgDef& arg) {
    absl::StrAppend(out, arg.name, ":");
    if (arg.is_ref) absl::StrAppend(out, "ref ");
    if (!arg.number_attr.empty()) absl::StrAppend(out, arg.number_attr, "*");
    if (!arg.type_attr.empty()) {
      absl::StrAppend(out, arg.type_attr);
    } else if (!arg.type_list_attr.empty()) {
      absl::StrAppend(out, arg.type_list_attr);
    } else {
      absl::StrAppend(out, DataTypeName(arg.type));
    }
  });
}

std::string AttrText(const AttrDef& attr) {
  std::string text = absl::StrCat(attr.name, ":", AttrKindName(attr.kind));
  if (!attr.allowed_types.empty()) {
    absl::StrAppend(
        &text, "{",
        absl::StrJoin(attr.allowed_types, ",",
                      [](std::string* out, DataType type) { out->append(DataTypeName(type)); }),
        "}");
  }
  if (!attr.allowed_strings.empty()) {
    absl::StrAppend(&text, "{", absl::StrJoin(attr.allowed_strings, ","), "}");
  }
  if (attr.has_minimum) absl::StrAppend(&text, ">=", attr.minimum);
  if (attr.has_default) absl::StrAppend(&text, "=", attr.default_value.DebugString());
  return text;
}

}  // namespace

const AttrDef* OpDef::FindAttr(absl::string_view attr_name) const {
  for (const AttrDef& attr : attrs) {
    if (attr.name == attr_name) return &attr;
  }
  return nullptr;
}

bool OpDef::MayBeMerged() const {
  const auto is_ref = [](const ArgDef& arg) { return arg.is_ref; };
  return !is_stateful && absl::c_none_of(inputs, is_ref) && absl::c_none_of(outputs, is_ref);
}

std::string OpDef::DebugString() const {
  return absl::StrCat(
      name, "(", ArgsText(inputs), ") -> (", ArgsText(outputs), ")", attrs.empty() ? "" : "  ",
      absl::StrJoin(attrs, "; ",
                    [](std::string* out, const AttrDef& attr) { out->append(AttrText(attr)); }),
      is_stateful ? "  stateful" : "");
}

absl::StatusOr<std::vector<AttrDef>> ParseAttrs(absl::string_view text) {
  std::vector<AttrDef> attrs;
  for (const std::string& piece : SplitOutsideBrackets(text, ';')) {
    TANDEM_ASSIGN_OR_RETURN(AttrDef attr, ParseAttr(piece));
    attrs.push_back(std::move(attr));
  }
  return attrs;
}

absl::StatusOr<std::vector<ArgDef>> ParseArgs(absl::string_view text,
                                              const std::vector<AttrDef>& attrs) {
  const auto find = [&](absl::string_view name) -> const AttrDef* {
    for (const AttrDef& attr : attrs) {
      if (attr.name == name) return &attr;
    }
    return nullptr;
  };
  std::vector<ArgDef> args;
  for (const std::string& piece : SplitOutsideBrackets(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(piece, absl::MaxSplits(':', 1));
    ArgDef arg;
    arg.name = std::string(absl::StripAsciiWhitespace(halves.first));
    absl::string_view type = absl::StripAsciiWhitespace(halves.second);
    if (arg.name.empty() || type.empty()) {
      return errors::InvalidArgument("argument '", piece, "' is not of the form 'name:type'");
    }
    // "ref N*T" and "N*ref T" are the same.
    if (absl::ConsumePrefix(&type, "ref ")) arg.is_ref = true;
    const size_t star = type.find('*');
    if (star != absl::string_view::npos) {
      arg.number_attr = std::string(type.substr(0, star));
      type.remove_prefix(star + 1);
      const AttrDef* number = find(arg.number_attr);
      if (number == nullptr || number->kind != AttrKind::kInt) {
        return errors::InvalidArgument("argument '", piece, "': there is no int attribute '",
                                       arg.number_attr, "'");
      }
    }
    if (absl::ConsumePrefix(&type, "ref ")) arg.is_ref = true;
    if (const AttrDef* attr = find(type)) {
      if (attr->kind == AttrKind::kType) {
        arg.type_attr = attr->name;
      } else if (attr->kind == AttrKind::kTypeList) {
        arg.type_list_attr = attr->name;
      } else {
        return errors::InvalidArgument("argument '", piece, "': attribute '", attr->name,
                                       "' is no type");
      }
    } else {
      TANDEM_ASSIGN_OR_RETURN(arg.type, ParseTypeOrError(type));
    }
    args.push_back(std::move(arg));
  }
  return args;
}

OpDefBuilder::OpDefBuilder(absl::string_view name) { def_.name = std::string(name); }

OpDefBuilder& OpDefBuilder::Inputs(absl::string_view args) {
  inputs_ = std::string(args);
  return *this;
}
OpDefBuilder& OpDefBuilder::Outputs(absl::string_view args) {
  outputs_ = std::string(args);
  return *this;
}
OpDefBuilder& OpDefBuilder::Attrs(absl::string_view attrs) {
  attrs_ = std::string(attrs);
  return *this;
}
OpDefBuilder& OpDefBuilder::Stateful() {
  def_.is_stateful = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::Commutative() {
  def_.is_commutative = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::Cheap() {
  def_.is_cheap = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::AllowsUninitializedInput() {
  def_.allows_uninitialized_input = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::Shape(ShapeFunction function) {
  def_.shape = function;
  return *this;
}
OpDefBuilder& OpDefBuilder::Gradient(GradientFunction function) {
  def_.gradient = function;
  def_.differentiability = Differentiability::kDifferentiable;
  return *this;
}
OpDefBuilder& OpDefBuilder::NotDifferentiable() {
  def_.gradient = nullptr;
  def_.differentiability = Differentiability::kNotDifferentiable;
  return *this;
}
OpDefBuilder& OpDefBuilder::HostMemory(std::vector<std::string> args) {
  def_.host_memory = std::move(args);
  return *this;
}
OpDefBuilder& OpDefBuilder::Cpu(KernelDef kernel) {
  kernel.device = kCpu;
  def_.kernels.push_back(std::move(kernel));
  return *this;
}

absl::StatusOr<OpDef> OpDefBuilder::Build() const {
  const auto build = [this]() -> absl::StatusOr<OpDef> {
    OpDef def = def_;
    TANDEM_ASSIGN_OR_RETURN(def.attrs, ParseAttrs(attrs_));
    TANDEM_ASSIGN_OR_RETURN(def.inputs, ParseArgs(inputs_, def.attrs));
    TANDEM_ASSIGN_OR_RETURN(def.outputs, ParseArgs(outputs_, def.attrs));
    if (def.shape == nullptr) return errors::InvalidArgument("no shape function");
    for (const std::string& name : def.host_memory) {
      const auto matches = [&](const ArgDef& arg) { return arg.name == name; };
      if (absl::c_none_of(def.inputs, matches) && absl::c_none_of(def.outputs, matches)) {
        return errors::InvalidArgument("HostMemory names '", name, "', which is no argument");
      }
    }
    for (KernelDef& kernel : def.kernels) {
      for (const auto& [attr, types] : kernel.types) {
        if (def.FindAttr(attr) == nullptr) {
          return errors::InvalidArgument("a kernel constrains the attribute '", attr,
                                         "', which there is not");
        }
      }
      kernel.host_memory = def.host_memory;
    }
    return def;
  };
  absl::StatusOr<OpDef> def = build();
  if (!def.ok()) return WithContext(def.status(), absl::StrCat("op ", def_.name));
  return def;
}

}  // namespace tandem
