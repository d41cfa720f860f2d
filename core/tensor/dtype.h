// Element types of tensors. Numbers and names are TensorFlow's.
#ifndef TANDEM_CORE_TENSOR_DTYPE_H_
#define TANDEM_CORE_TENSOR_DTYPE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/tensor/float16.h"

namespace tandem {

class ResourceHandle;
class Variant;

// The enumerators' values are those of TensorFlow's DataType on the wire.
enum class DataType : int32_t {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kFloat16 = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kInt4 = 29,
  kUint4 = 30,
  kInt2 = 31,
  kUint2 = 32,
};

inline constexpr DataType kFloat32 = DataType::kFloat32;
inline constexpr DataType kFloat64 = DataType::kFloat64;
inline constexpr DataType kInt32 = DataType::kInt32;
inline constexpr DataType kUint8 = DataType::kUint8;
inline constexpr DataType kInt16 = DataType::kInt16;
inline constexpr DataType kInt8 = DataType::kInt8;
inline constexpr DataType kString = DataType::kString;
inline constexpr DataType kComplex64 = DataType::kComplex64;
inline constexpr DataType kInt64 = DataType::kInt64;
inline constexpr DataType kBool = DataType::kBool;
inline constexpr DataType kBfloat16 = DataType::kBfloat16;
inline constexpr DataType kUint16 = DataType::kUint16;
inline constexpr DataType kComplex128 = DataType::kComplex128;
inline constexpr DataType kFloat16 = DataType::kFloat16;
inline constexpr DataType kResource = DataType::kResource;
inline constexpr DataType kVariant = DataType::kVariant;
inline constexpr DataType kUint32 = DataType::kUint32;
inline constexpr DataType kUint64 = DataType::kUint64;

// A reference type (a variable and its lock, in graphs of TensorFlow 1) is its base type plus 100.
inline constexpr int kReferenceOffset = 100;
inline bool IsReference(DataType type) { return static_cast<int>(type) > kReferenceOffset; }
inline DataType MakeReference(DataType type) {
  return static_cast<DataType>(static_cast<int>(type) + kReferenceOffset);
}
inline DataType RemoveReference(DataType type) {
  return IsReference(type) ? static_cast<DataType>(static_cast<int>(type) - kReferenceOffset)
                           : type;
}

// "float32", "int64", …; a reference type is "float32_ref"; an unknown number is "type 77".
std::string DataTypeName(DataType type);

// The inverse of DataTypeName; also takes TensorFlow's other spellings ("float", "half", "double",
// "DT_FLOAT"). Nothing when the name is unknown.
absl::optional<DataType> ParseDataType(absl::string_view name);

// True for the types in which Tandem holds tensors: all but quantized ones and those under 8 bits
// (a tensor of an unsupported type cannot be made).
bool IsSupported(DataType type);

// Bytes of one element in memory. Types whose elements own memory (string, resource, variant)
// give the size of their object. 0 for types that are not supported.
size_t DataTypeSize(DataType type);

// True when elements may be copied with memcpy.
inline bool IsTriviallyCopyable(DataType type) {
  return type != kString && type != kResource && type != kVariant;
}

bool IsFloating(DataType type);  // float16, bfloat16, float32, float64.
bool IsComplex(DataType type);
bool IsInteger(DataType type);  // Signed and unsigned, without bool and quantized.

// The DataType of a C++ type: DataTypeOf<float>() is kFloat32.
template <typename T>
struct DataTypeOfTrait;
#define TANDEM_MATCH_TYPE_(CppType, enumerator)              \
  template <>                                                \
  struct DataTypeOfTrait<CppType> {                          \
    static constexpr DataType kValue = DataType::enumerator; \
  };
TANDEM_MATCH_TYPE_(float, kFloat32)
TANDEM_MATCH_TYPE_(double, kFloat64)
TANDEM_MATCH_TYPE_(int32_t, kInt32)
TANDEM_MATCH_TYPE_(uint8_t, kUint8)
TANDEM_MATCH_TYPE_(int16_t, kInt16)
TANDEM_MATCH_TYPE_(int8_t, kInt8)
TANDEM_MATCH_TYPE_(std::string, kString)
TANDEM_MATCH_TYPE_(std::complex<float>, kComplex64)
TANDEM_MATCH_TYPE_(int64_t, kInt64)
TANDEM_MATCH_TYPE_(bool, kBool)
TANDEM_MATCH_TYPE_(Bfloat16, kBfloat16)
TANDEM_MATCH_TYPE_(uint16_t, kUint16)
TANDEM_MATCH_TYPE_(std::complex<double>, kComplex128)
TANDEM_MATCH_TYPE_(Float16, kFloat16)
TANDEM_MATCH_TYPE_(ResourceHandle, kResource)
TANDEM_MATCH_TYPE_(Variant, kVariant)
TANDEM_MATCH_TYPE_(uint32_t, kUint32)
TANDEM_MATCH_TYPE_(uint64_t, kUint64)
#undef TANDEM_MATCH_TYPE_

template <typename T>
constexpr DataType DataTypeOf() {
  return DataTypeOfTrait<std::remove_cv_t<T>>::kValue;
}

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_DTYPE_H_
