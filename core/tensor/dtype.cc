#include "core/tensor/dtype.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/variant.h"

namespace tandem {
namespace {

struct TypeInfo {
  DataType type;
  const char* name;
  const char* alias;  // TensorFlow's spelling in op definitions and text protos.
  size_t size;        // 0: not supported.
};

constexpr TypeInfo kTypes[] = {
    {DataType::kFloat32, "float32", "float", 4},
    {DataType::kFloat64, "float64", "double", 8},
    {DataType::kInt32, "int32", "int32", 4},
    {DataType::kUint8, "uint8", "uint8", 1},
    {DataType::kInt16, "int16", "int16", 2},
    {DataType::kInt8, "int8", "int8", 1},
    {DataType::kString, "string", "string", sizeof(std::string)},
    {DataType::kComplex64, "complex64", "complex64", 8},
    {DataType::kInt64, "int64", "int64", 8},
    {DataType::kBool, "bool", "bool", 1},
    {DataType::kQint8, "qint8", "qint8", 0},
    {DataType::kQuint8, "quint8", "quint8", 0},
    {DataType::kQint32, "qint32", "qint32", 0},
    {DataType::kBfloat16, "bfloat16", "bfloat16", 2},
    {DataType::kQint16, "qint16", "qint16", 0},
    {DataType::kQuint16, "quint16", "quint16", 0},
    {DataType::kUint16, "uint16", "uint16", 2},
    {DataType::kComplex128, "complex128", "complex128", 16},
    {DataType::kFloat16, "float16", "half", 2},
    {DataType::kResource, "resource", "resource", sizeof(ResourceHandle)},
    {DataType::kVariant, "variant", "variant", sizeof(Variant)},
    {DataType::kUint32, "uint32", "uint32", 4},
    {DataType::kUint64, "uint64", "uint64", 8},
    {DataType::kFloat8E5m2, "float8_e5m2", "float8_e5m2", 0},
    {DataType::kFloat8E4m3fn, "float8_e4m3fn", "float8_e4m3fn", 0},
    {DataType::kInt4, "int4", "int4", 0},
    {DataType::kUint4, "uint4", "uint4", 0},
    {DataType::kInt2, "int2", "int2", 0},
    {DataType::kUint2, "uint2", "uint2", 0},
};

const TypeInfo* Find(DataType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

}  // namespace

std::string DataTypeName(DataType type) {
  if (type == DataType::kInvalid) return "invalid";
  const TypeInfo* info = Find(RemoveReference(type));
  if (info == nullptr) return absl::StrCat("type ", static_cast<int>(type));
  return absl::StrCat(info->name, IsReference(type) ? "_ref" : "");
}

absl::optional<DataType> ParseDataType(absl::string_view name) {
  const bool reference = absl::EndsWithIgnoreCase(name, "_ref");
  if (reference) name.remove_suffix(4);
  if (absl::StartsWith(name, "DT_")) name.remove_prefix(3);
  for (const TypeInfo& info : kTypes) {
    if (absl::EqualsIgnoreCase(name, info.name) || absl::EqualsIgnoreCase(name, info.alias)) {
      return reference ? MakeReference(info.type) : info.type;
    }
  }
  return absl::nullopt;
}

bool IsSupported(DataType type) { return DataTypeSize(type) != 0; }

size_t DataTypeSize(DataType type) {
  const TypeInfo* info = Find(type);
  return info == nullptr ? 0 : info->size;
}

bool IsFloating(DataType type) {
  return type == kFloat32 || type == kFloat64 || type == kFloat16 || type == kBfloat16;
}

bool IsComplex(DataType type) { return type == kComplex64 || type == kComplex128; }

bool IsInteger(DataType type) {
  switch (type) {
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
    case kUint8:
    case kUint16:
    case kUint32:
    case kUint64:
      return true;
    default:
      return false;
  }
}

}  // namespace tandem
