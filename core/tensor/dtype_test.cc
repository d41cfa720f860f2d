#include "core/tensor/dtype.h"

#include "core/tensor/resource_handle.h"
#include "core/tensor/variant.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

struct Fact {
  int number;
  const char* name;
  const char* enumerator;
  size_t size;  // 0: not supported.
};

// TensorFlow's numbers and names.
constexpr Fact kFacts[] = {
    {1, "float32", "DT_FLOAT", 4},
    {2, "float64", "DT_DOUBLE", 8},
    {3, "int32", "DT_INT32", 4},
    {4, "uint8", "DT_UINT8", 1},
    {5, "int16", "DT_INT16", 2},
    {6, "int8", "DT_INT8", 1},
    {7, "string", "DT_STRING", sizeof(std::string)},
    {8, "complex64", "DT_COMPLEX64", 8},
    {9, "int64", "DT_INT64", 8},
    {10, "bool", "DT_BOOL", 1},
    {11, "qint8", "DT_QINT8", 0},
    {12, "quint8", "DT_QUINT8", 0},
    {13, "qint32", "DT_QINT32", 0},
    {14, "bfloat16", "DT_BFLOAT16", 2},
    {15, "qint16", "DT_QINT16", 0},
    {16, "quint16", "DT_QUINT16", 0},
    {17, "uint16", "DT_UINT16", 2},
    {18, "complex128", "DT_COMPLEX128", 16},
    {19, "float16", "DT_HALF", 2},
    {20, "resource", "DT_RESOURCE", sizeof(ResourceHandle)},
    {21, "variant", "DT_VARIANT", sizeof(Variant)},
    {22, "uint32", "DT_UINT32", 4},
    {23, "uint64", "DT_UINT64", 8},
    {24, "float8_e5m2", "DT_FLOAT8_E5M2", 0},
    {25, "float8_e4m3fn", "DT_FLOAT8_E4M3FN", 0},
    {29, "int4", "DT_INT4", 0},
    {30, "uint4", "DT_UINT4", 0},
    {31, "int2", "DT_INT2", 0},
    {32, "uint2", "DT_UINT2", 0},
};

TEST(DataType, HasTensorFlowsNumbersNamesAndSizes) {
  for (const Fact& fact : kFacts) {
    const auto type = static_cast<DataType>(fact.number);
    EXPECT_EQ(DataTypeName(type), fact.name);
    EXPECT_EQ(ParseDataType(fact.name), type) << fact.name;
    EXPECT_EQ(ParseDataType(fact.enumerator), type) << fact.enumerator;
    EXPECT_EQ(DataTypeSize(type), fact.size) << fact.name;
    EXPECT_EQ(IsSupported(type), fact.size != 0) << fact.name;
  }
}

TEST(DataType, ReferenceTypesAreTheirBasePlusOneHundred) {
  for (const Fact& fact : kFacts) {
    const auto type = static_cast<DataType>(fact.number);
    const DataType reference = MakeReference(type);
    EXPECT_EQ(static_cast<int>(reference), fact.number + 100);
    EXPECT_TRUE(IsReference(reference));
    EXPECT_FALSE(IsReference(type));
    EXPECT_EQ(RemoveReference(reference), type);
    EXPECT_EQ(RemoveReference(type), type);
    EXPECT_EQ(DataTypeName(reference), std::string(fact.name) + "_ref");
    EXPECT_EQ(ParseDataType(DataTypeName(reference)), reference);
    EXPECT_EQ(ParseDataType(std::string(fact.enumerator) + "_REF"), reference);
    EXPECT_FALSE(IsSupported(reference)) << "a reference is no element";
  }
}

TEST(DataType, TakesTheSpellingsOfOpDefinitions) {
  EXPECT_EQ(ParseDataType("float"), kFloat32);
  EXPECT_EQ(ParseDataType("double"), kFloat64);
  EXPECT_EQ(ParseDataType("half"), kFloat16);
}

TEST(DataType, UnknownNamesAndNumbersAreToldAsSuch) {
  for (const char* name : {"", "_ref", "DT_", "float33", "int", "type 77", " float32"}) {
    EXPECT_FALSE(ParseDataType(name).has_value()) << name;
  }
  EXPECT_EQ(DataTypeName(static_cast<DataType>(77)), "type 77");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(-1)), "type -1");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(177)), "type 177");
  EXPECT_EQ(DataTypeName(DataType::kInvalid), "invalid");
  EXPECT_FALSE(IsSupported(DataType::kInvalid));
  EXPECT_FALSE(IsSupported(static_cast<DataType>(77)));
}

TEST(DataType, KindsDivideTheSupportedTypes) {
  for (const Fact& fact : kFacts) {
    const auto type = static_cast<DataType>(fact.number);
    const int kinds = IsFloating(type) + IsComplex(type) + IsInteger(type);
    const bool number = fact.size != 0 && type != kBool && IsTriviallyCopyable(type);
    EXPECT_EQ(kinds, number ? 1 : 0) << fact.name;
  }
  EXPECT_TRUE(IsFloating(kBfloat16));
  EXPECT_TRUE(IsInteger(kUint64));
  EXPECT_TRUE(IsComplex(kComplex64));
  EXPECT_FALSE(IsTriviallyCopyable(kString));
  EXPECT_FALSE(IsTriviallyCopyable(kResource));
  EXPECT_FALSE(IsTriviallyCopyable(kVariant));
}

template <typename T>
void ExpectType(DataType type) {
  EXPECT_EQ(DataTypeOf<T>(), type);
  EXPECT_EQ(DataTypeOf<const T>(), type);
  EXPECT_EQ(DataTypeSize(type), sizeof(T)) << DataTypeName(type);
}

TEST(DataType, EveryCppTypeHasTheSizeOfItsDataType) {
  ExpectType<float>(kFloat32);
  ExpectType<double>(kFloat64);
  ExpectType<int8_t>(kInt8);
  ExpectType<int16_t>(kInt16);
  ExpectType<int32_t>(kInt32);
  ExpectType<int64_t>(kInt64);
  ExpectType<uint8_t>(kUint8);
  ExpectType<uint16_t>(kUint16);
  ExpectType<uint32_t>(kUint32);
  ExpectType<uint64_t>(kUint64);
  ExpectType<bool>(kBool);
  ExpectType<Float16>(kFloat16);
  ExpectType<Bfloat16>(kBfloat16);
  ExpectType<std::complex<float>>(kComplex64);
  ExpectType<std::complex<double>>(kComplex128);
  ExpectType<std::string>(kString);
  ExpectType<ResourceHandle>(kResource);
  ExpectType<Variant>(kVariant);
}

}  // namespace
}  // namespace tandem
