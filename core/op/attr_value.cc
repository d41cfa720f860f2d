#include "core/op/attr_value.h"

#include <cstring>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tensor/element_text.h"

namespace tandem {
namespace {

bool Same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == kString) return a.Elements<std::string>() == b.Elements<std::string>();
  if (!IsTriviallyCopyable(a.dtype())) return a.SharesBufferWith(b) && a.data() == b.data();
  return a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

template <typename T>
bool Same(const T& a, const T& b) {
  return a == b;
}
bool Same(const FunctionRef& a, const FunctionRef& b) {
  return a.name == b.name && a.attrs == b.attrs;
}
bool Same(std::monostate, std::monostate) { return true; }
bool Same(const AttrValue::EmptyList&, const AttrValue::EmptyList&) { return true; }
bool Same(const AttrValue::Placeholder& a, const AttrValue::Placeholder& b) {
  return a.name == b.name;
}
template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(static_cast<const T&>(a[i]), static_cast<const T&>(b[i]))) return false;
  }
  return true;
}

std::string Text(std::monostate) { return "<none>"; }
std::string Text(const std::string& value) { return QuotedText(value); }
std::string Text(int64_t value) { return absl::StrCat(value); }
std::string Text(float value) { return NumberText(value); }
std::string Text(bool value) { return value ? "true" : "false"; }
std::string Text(DataType value) { return DataTypeName(value); }
std::string Text(const PartialShape& value) { return value.DebugString(); }
std::string Text(const Tensor& value) { return value.DebugString(); }
std::string Text(const FunctionRef& value) {
  std::string text = value.name;
  for (const auto& [name, attr] : value.attrs) {
    absl::StrAppend(&text, "[", name, "=", attr.DebugString(), "]");
  }
  return text;
}
std::string Text(const AttrValue::EmptyList&) { return "[]"; }
std::string Text(const AttrValue::Placeholder& value) { return absl::StrCat("$", value.name); }
template <typename T>
std::string Text(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ",";
    text += Text(static_cast<const T&>(values[i]));
  }
  return text + "]";
}

// Parts of a key: every one says where it ends, so that no two rows of parts look alike.
void AppendKey(std::string* key, absl::string_view bytes) {
  absl::StrAppend(key, bytes.size(), ":", bytes);
}
void AppendKey(std::string*, std::monostate) {}
void AppendKey(std::string* key, const std::string& value) {
  AppendKey(key, absl::string_view(value));
}
void AppendKey(std::string* key, int64_t value) { absl::StrAppend(key, value, ";"); }
void AppendKey(std::string* key, float value) {
  absl::StrAppend(key, absl::bit_cast<uint32_t>(value), ";");
}
void AppendKey(std::string* key, bool value) { absl::StrAppend(key, value ? 1 : 0, ";"); }
void AppendKey(std::string* key, DataType value) {
  absl::StrAppend(key, static_cast<int>(value), ";");
}
void AppendKey(std::string* key, const PartialShape& value) {
  AppendKey(key, absl::string_view(value.DebugString()));
}
void AppendKey(std::string* key, const Tensor& value) {
  AppendKey(key, value.dtype());
  AppendKey(key, PartialShape(value.shape()));
  if (value.dtype() == kString) {
    for (const std::string& element : value.Elements<std::string>()) AppendKey(key, element);
  } else if (IsTriviallyCopyable(value.dtype())) {
    AppendKey(key, absl::string_view(static_cast<const char*>(value.data()), value.num_bytes()));
  } else {  // Handles and variants are the same when they are one.
    AppendKey(key, static_cast<int64_t>(reinterpret_cast<intptr_t>(value.data())));
  }
}
void AppendKey(std::string* key, const FunctionRef& value) {
  AppendKey(key, value.name);
  AppendKey(key, static_cast<int64_t>(value.attrs.size()));
  for (const auto& [name, attr] : value.attrs) {
    AppendKey(key, name);
    AppendKey(key, absl::string_view(attr.Key()));
  }
}
void AppendKey(std::string*, const AttrValue::EmptyList&) {}
void AppendKey(std::string* key, const AttrValue::Placeholder& value) {
  AppendKey(key, value.name);
}
template <typename T>
void AppendKey(std::string* key, const std::vector<T>& values) {
  AppendKey(key, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) AppendKey(key, static_cast<const T&>(values[i]));
}

}  // namespace

bool IsList(AttrKind kind) { return kind >= AttrKind::kStringList; }

absl::string_view AttrKindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kNone:
      return "none";
    case AttrKind::kString:
      return "string";
    case AttrKind::kInt:
      return "int";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kType:
      return "type";
    case AttrKind::kShape:
      return "shape";
    case AttrKind::kTensor:
      return "tensor";
    case AttrKind::kFunction:
      return "func";
    case AttrKind::kStringList:
      return "list(string)";
    case AttrKind::kIntList:
      return "list(int)";
    case AttrKind::kFloatList:
      return "list(float)";
    case AttrKind::kBoolList:
      return "list(bool)";
    case AttrKind::kTypeList:
      return "list(type)";
    case AttrKind::kShapeList:
      return "list(shape)";
    case AttrKind::kTensorList:
      return "list(tensor)";
    case AttrKind::kFunctionList:
      return "list(func)";
  }
  return "?";
}

AttrKind AttrValue::kind() const {
  // The alternatives stand in the order of AttrKind.
  const size_t index = value_.index();
  return index <= static_cast<size_t>(AttrKind::kFunctionList) ? static_cast<AttrKind>(index)
                                                               : AttrKind::kNone;
}

std::string AttrValue::DebugString() const {
  return std::visit([](const auto& value) { return Text(value); }, value_);
}

std::string AttrValue::Key() const {
  std::string key = absl::StrCat(value_.index(), "=");
  std::visit([&](const auto& value) { AppendKey(&key, value); }, value_);
  return key;
}

bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.value_.index() != b.value_.index()) return false;
  return std::visit(
      [&](const auto& value) {
        return Same(value, std::get<std::decay_t<decltype(value)>>(b.value_));
      },
      a.value_);
}

}  // namespace tandem
