#include "tools/generate_ops/wrappers.h"

#include <cmath>
#include <limits>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tandem {
namespace {

constexpr size_t kColumns = 100;

bool IsList(const ArgDef& arg) { return !arg.number_attr.empty() || !arg.type_list_attr.empty(); }

// A name that C++ or the wrapper itself needs gets an underscore at its end.
std::string Identifier(const std::string& name) {
  static const std::set<std::string>* const taken = new std::set<std::string>{
      "alignas",  "alignof",  "and",     "asm",     "auto",      "bool",   "break",     "case",
      "catch",    "char",     "class",   "compl",   "concept",   "const",  "constexpr", "continue",
      "decltype", "default",  "delete",  "do",      "double",    "else",   "enum",      "explicit",
      "export",   "extern",   "false",   "float",   "for",       "friend", "goto",      "if",
      "inline",   "int",      "long",    "mutable", "namespace", "new",    "noexcept",  "not",
      "nullptr",  "operator", "or",      "private", "protected", "public", "register",  "requires",
      "return",   "short",    "signed",  "sizeof",  "static",    "struct", "switch",    "template",
      "this",     "throw",    "true",    "try",     "typedef",   "typeid", "typename",  "union",
      "unsigned", "using",    "virtual", "void",    "volatile",  "while",  "xor",       "scope",
      "options",  "call",     "outputs"};
  return taken->count(name) != 0 ? name + "_" : name;
}

std::string CppType(AttrKind kind) {
  switch (kind) {
    case AttrKind::kString:
      return "std::string";
    case AttrKind::kInt:
      return "int64_t";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kType:
      return "DataType";
    case AttrKind::kShape:
      return "PartialShape";
    case AttrKind::kTensor:
      return "Tensor";
    case AttrKind::kFunction:
      return "FunctionRef";
    case AttrKind::kStringList:
      return "std::vector<std::string>";
    case AttrKind::kIntList:
      return "std::vector<int64_t>";
    case AttrKind::kFloatList:
      return "std::vector<float>";
    case AttrKind::kBoolList:
      return "std::vector<bool>";
    case AttrKind::kTypeList:
      return "std::vector<DataType>";
    case AttrKind::kShapeList:
      return "std::vector<PartialShape>";
    case AttrKind::kTensorList:
      return "std::vector<Tensor>";
    case AttrKind::kFunctionList:
      return "std::vector<FunctionRef>";
    case AttrKind::kNone:
      break;
  }
  return "void";
}

// "DataType::kBfloat16" for "bfloat16", "DataType::kFloat8E5m2" for "float8_e5m2".
std::string Literal(DataType type) {
  std::string name = "DataType::k";
  for (std::string part : std::vector<std::string>(absl::StrSplit(DataTypeName(type), '_'))) {
    part[0] = absl::ascii_toupper(static_cast<unsigned char>(part[0]));
    name += part;
  }
  return name;
}

std::string Literal(const std::string& text) {
  return absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

std::string Literal(int64_t value) {
  // The least number cannot be written as a minus and a literal.
  if (value == std::numeric_limits<int64_t>::min()) return "INT64_MIN";
  return absl::StrCat(value);
}

std::string Literal(float value) {
  if (std::isnan(value)) return "std::numeric_limits<float>::quiet_NaN()";
  if (std::isinf(value)) {
    return absl::StrCat(value < 0 ? "-" : "", "std::numeric_limits<float>::infinity()");
  }
  std::string text = absl::StrCat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string Literal(bool value) { return value ? "true" : "false"; }

std::string Literal(const PartialShape& shape) {
  if (!shape.has_rank()) return "PartialShape()";
  // Inside namespace ops, Shape is an op.
  if (shape.rank() == 0) return "PartialShape(::tandem::Shape::Scalar())";
  return absl::StrCat("PartialShape({", absl::StrJoin(shape.dims(), ", "), "})");
}

template <typename T>
bool AppendList(const AttrValue& value, std::string* text) {
  const auto* list = value.Get<std::vector<T>>();
  if (list == nullptr) return false;
  std::vector<std::string> items;
  for (const T& item : *list) items.push_back(Literal(item));
  *text = absl::StrCat("{", absl::StrJoin(items, ", "), "}");
  return true;
}

// Defaults that cannot be written as an initializer are left to the op.
bool IsOptional(AttrKind kind) { return kind == AttrKind::kTensor || kind == AttrKind::kFunction; }

std::string DefaultText(const AttrDef& attr) {
  const AttrValue& value = attr.default_value;
  std::string list = "{}";
  if (const auto* v = value.Get<std::string>()) return Literal(*v);
  if (const auto* v = value.Get<int64_t>()) return Literal(*v);
  if (const auto* v = value.Get<float>()) return Literal(*v);
  if (const auto* v = value.Get<bool>()) return Literal(*v);
  if (const auto* v = value.Get<DataType>()) return Literal(*v);
  if (const auto* v = value.Get<PartialShape>()) return Literal(*v);
  if (AppendList<std::string>(value, &list) || AppendList<int64_t>(value, &list) ||
      AppendList<float>(value, &list) || AppendList<DataType>(value, &list) ||
      AppendList<PartialShape>(value, &list)) {
    return list;
  }
  if (const auto* bools = value.Get<std::vector<bool>>()) {
    std::vector<std::string> items;
    for (const bool item : *bools) items.push_back(Literal(item));
    return absl::StrCat("{", absl::StrJoin(items, ", "), "}");
  }
  return list;
}

bool IsImplied(const OpDef& op, const AttrDef& attr) {
  return absl::c_any_of(op.inputs, [&](const ArgDef& arg) {
    return attr.name == arg.type_attr || attr.name == arg.number_attr ||
           attr.name == arg.type_list_attr;
  });
}

struct Attrs {
  std::vector<const AttrDef*> required;
  std::vector<const AttrDef*> optional;
};

Attrs ExplicitAttrs(const OpDef& op) {
  Attrs attrs;
  for (const AttrDef& attr : op.attrs) {
    if (!IsImplied(op, attr)) (attr.has_default ? attrs.optional : attrs.required).push_back(&attr);
  }
  return attrs;
}

std::string ResultType(const OpDef& op) {
  if (op.outputs.empty()) return "Node*";
  if (op.outputs.size() > 1) return op.name + "Outputs";
  return IsList(op.outputs[0]) ? "std::vector<Output>" : "Output";
}

// "const Scope& scope, const Input& a, …", with the default of the options when asked for.
std::vector<std::string> Parameters(const OpDef& op, bool with_default) {
  std::vector<std::string> parameters = {"const Scope& scope"};
  for (const ArgDef& arg : op.inputs) {
    parameters.push_back(
        absl::StrCat("const ", IsList(arg) ? "InputList" : "Input", "& ", Identifier(arg.name)));
  }
  const Attrs attrs = ExplicitAttrs(op);
  for (const AttrDef* attr : attrs.required) {
    const bool by_value = attr->kind == AttrKind::kInt || attr->kind == AttrKind::kFloat ||
                          attr->kind == AttrKind::kBool || attr->kind == AttrKind::kType;
    parameters.push_back(
        by_value ? absl::StrCat(CppType(attr->kind), " ", Identifier(attr->name))
                 : absl::StrCat("const ", CppType(attr->kind), "& ", Identifier(attr->name)));
  }
  if (!attrs.optional.empty()) {
    parameters.push_back(
        absl::StrCat("const ", op.name, "Options& options", with_default ? " = {}" : ""));
  }
  return parameters;
}

// `head` and the comma separated `items`, as many on a line as fit, later lines under the first
// item.
std::string Wrapped(const std::string& head, const std::vector<std::string>& items,
                    const std::string& tail) {
  std::string text;
  std::string line = head;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = absl::StrCat(items[i], i + 1 < items.size() ? "," : tail);
    if (i > 0 && line.size() + 1 + item.size() > kColumns) {
      absl::StrAppend(&text, line, "\n");
      line = std::string(head.size(), ' ');
    } else if (i > 0) {
      line += " ";
    }
    line += item;
  }
  return text + line;
}

std::string Comment(const std::string& text) {
  std::string comment;
  std::string line = "//";
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (line.size() + 1 + word.size() > kColumns && line != "//") {
      absl::StrAppend(&comment, line, "\n");
      line = "//    ";
    }
    absl::StrAppend(&line, " ", word);
  }
  return absl::StrCat(comment, line, "\n");
}

std::string Declaration(const OpDef& op) {
  std::string text;
  if (op.outputs.size() > 1) {
    absl::StrAppend(&text, "struct ", op.name, "Outputs {\n");
    for (const ArgDef& arg : op.outputs) {
      absl::StrAppend(&text, "  ", IsList(arg) ? "std::vector<Output>" : "Output", " ",
                      Identifier(arg.name), ";\n");
    }
    absl::StrAppend(&text, "};\n");
  }
  const Attrs attrs = ExplicitAttrs(op);
  if (!attrs.optional.empty()) {
    absl::StrAppend(&text, "struct ", op.name, "Options {\n");
    for (const AttrDef* attr : attrs.optional) {
      if (IsOptional(attr->kind)) {
        absl::StrAppend(&text, "  absl::optional<", CppType(attr->kind), "> ",
                        Identifier(attr->name), " = absl::nullopt;\n");
      } else {
        absl::StrAppend(&text, "  ", CppType(attr->kind), " ", Identifier(attr->name), " = ",
                        DefaultText(*attr), ";\n");
      }
    }
    absl::StrAppend(&text, "};\n");
  }
  return absl::StrCat(Comment(op.DebugString()), text,
                      Wrapped(absl::StrCat(ResultType(op), " ", op.name, "("),
                              Parameters(op, /*with_default=*/true), ");"),
                      "\n\n");
}

std::string Definition(const OpDef& op) {
  std::string text = absl::StrCat(Wrapped(absl::StrCat(ResultType(op), " ", op.name, "("),
                                          Parameters(op, /*with_default=*/false), ") {"),
                                  "\n  OpCall call(scope, \"", op.name, "\");\n");
  for (const ArgDef& arg : op.inputs) {
    const std::string name = Identifier(arg.name);
    if (!arg.number_attr.empty()) {
      absl::StrAppend(&text, "  call.AddRepeated(", name, ", \"", arg.number_attr, "\");\n");
    } else if (!arg.type_list_attr.empty()) {
      absl::StrAppend(&text, "  call.AddTyped(", name, ", \"", arg.type_list_attr, "\");\n");
    } else {
      absl::StrAppend(&text, "  call.Add(", name, ");\n");
    }
  }
  const Attrs attrs = ExplicitAttrs(op);
  for (const AttrDef* attr : attrs.required) {
    absl::StrAppend(&text, "  call.Set(\"", attr->name, "\", ", Identifier(attr->name), ");\n");
  }
  for (const AttrDef* attr : attrs.optional) {
    absl::StrAppend(&text, "  call.Set(\"", attr->name, "\", options.", Identifier(attr->name),
                    ");\n");
  }
  const auto next = [](const ArgDef& arg) {
    return IsList(arg) ? "call.NextOutputs()" : "call.NextOutput()";
  };
  if (op.outputs.empty()) {
    absl::StrAppend(&text, "  return call.Finish();\n");
  } else if (op.outputs.size() == 1) {
    absl::StrAppend(&text, "  call.Finish();\n  return ", next(op.outputs[0]), ";\n");
  } else {
    absl::StrAppend(&text, "  call.Finish();\n  ", op.name, "Outputs outputs;\n");
    for (const ArgDef& arg : op.outputs) {
      absl::StrAppend(&text, "  outputs.", Identifier(arg.name), " = ", next(arg), ";\n");
    }
    absl::StrAppend(&text, "  return outputs;\n");
  }
  return absl::StrCat(text, "}\n\n");
}

}  // namespace

std::vector<const OpDef*> OpsToWrap(const std::vector<const OpDef*>& ops) {
  std::vector<const OpDef*> wrapped;
  for (const OpDef* op : ops) {
    if (!absl::StartsWith(op->name, "_") && op->name != "Const") wrapped.push_back(op);
  }
  return wrapped;
}

std::string WrapperHeader(const std::vector<const OpDef*>& ops, const std::string& path) {
  const std::string guard = absl::StrCat(
      "TANDEM_", absl::AsciiStrToUpper(absl::StrReplaceAll(path, {{"/", "_"}, {".", "_"}})), "_");
  std::string text = absl::StrCat(
      "// Typed wrappers of the registered ops, generated from their registrations.\n"
      "// Each adds a node to the scope's graph; after an error what it returns is invalid\n"
      "// (core/graph/scope.h). Options take designated initializers: {.transpose_b = true}.\n"
      "#ifndef ",
      guard, "\n#define ", guard,
      "\n\n#include <cstdint>\n#include <limits>\n#include <string>\n#include <vector>\n\n"
      "#include \"absl/types/optional.h\"\n#include \"core/graph/scope.h\"\n\n"
      "namespace tandem {\nnamespace ops {\n\n");
  for (const OpDef* op : ops) absl::StrAppend(&text, Declaration(*op));
  return absl::StrCat(text, "}  // namespace ops\n}  // namespace tandem\n\n#endif  // ", guard,
                      "\n");
}

std::string WrapperSource(const std::vector<const OpDef*>& ops, const std::string& header_path) {
  std::string text = absl::StrCat("// Generated; see ", header_path, ".\n#include \"", header_path,
                                  "\"\n\n#include \"core/graph/op_call.h\"\n\n"
                                  "namespace tandem {\nnamespace ops {\n\n");
  for (const OpDef* op : ops) absl::StrAppend(&text, Definition(*op));
  return absl::StrCat(text, "}  // namespace ops\n}  // namespace tandem\n");
}

}  // namespace tandem
