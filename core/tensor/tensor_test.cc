#include "core/tensor/tensor.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TestResource : public Resource {
 public:
  std::string DebugString() const override { return "test"; }
};
class TestValue : public VariantValue {
 public:
  absl::string_view TypeName() const override { return "tandem::TestValue"; }
  std::string DebugString() const override { return "a test value"; }
};
class OtherValue : public VariantValue {
 public:
  absl::string_view TypeName() const override { return "tandem::OtherValue"; }
  std::string DebugString() const override { return "another value"; }
};

TEST(Tensor, IsNoneByDefault) {
  const Tensor none;
  EXPECT_FALSE(none.is_valid());
  EXPECT_EQ(none.dtype(), DataType::kInvalid);
  EXPECT_EQ(none.num_bytes(), 0u);
  EXPECT_EQ(none.DebugString(), "<no tensor>");
  EXPECT_EQ(none.Clone().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Tensor, HoldsTheValuesThatItIsMadeOf) {
  EXPECT_EQ(Tensor::Scalar<int64_t>(7).ScalarValue<int64_t>(), 7);
  EXPECT_EQ(Tensor::Scalar<std::string>("word").ScalarValue<std::string>(), "word");
  const Tensor vector = Tensor::Vector<float>({1, 2, 3});
  EXPECT_EQ(vector.shape(), Shape({3}));
  EXPECT_THAT(vector.Elements<float>(), ElementsAre(1, 2, 3));
  const Tensor matrix = Tensor::FromValues<int32_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(matrix.dtype(), kInt32);
  EXPECT_EQ(matrix.num_bytes(), 16u);
  EXPECT_THAT(matrix.Elements<int32_t>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Tensor::Zeros(kFloat16, {2}).Elements<Float16>(),
              ElementsAre(Float16(0), Float16(0)));
  EXPECT_EQ(Tensor::Vector<float>({}).num_elements(), 0);
}

TEST(Tensor, NumbersBeginAtAnAlignedAddress) {
  for (int64_t count : {0, 1, 5, 1000, 100000}) {
    const Tensor tensor(kFloat32, {count});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % kBufferAlignment, 0u) << count;
  }
}

TEST(Tensor, CreateRefusesWhatCannotBe) {
  for (DataType type :
       {DataType::kInvalid, DataType::kQint8, MakeReference(kFloat32), static_cast<DataType>(77)}) {
    EXPECT_EQ(Tensor::Create(type, {2}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const absl::Status huge =
      Tensor::Create(kFloat64, Shape({std::numeric_limits<int64_t>::max()})).status();
  EXPECT_EQ(huge.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(huge.message()), HasSubstr("[9223372036854775807]"));
  for (DataType type : {kUint8, kString}) {
    const absl::Status status = Tensor::Create(type, Shape({int64_t{1} << 57})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

TEST(Tensor, CopiesShareMemory) {
  Tensor first = Tensor::Vector<int32_t>({1, 2});
  EXPECT_TRUE(first.OwnsBufferAlone());
  Tensor second = first;
  EXPECT_FALSE(first.OwnsBufferAlone());
  EXPECT_TRUE(first.SharesBufferWith(second));
  second.MutableElements<int32_t>()[0] = 9;
  EXPECT_EQ(first.Elements<int32_t>()[0], 9);
  second = Tensor();
  EXPECT_TRUE(first.OwnsBufferAlone());
  EXPECT_FALSE(first.SharesBufferWith(second));
}

TEST(Tensor, SlicesAreRowsOfTheSameMemory) {
  Tensor matrix = Tensor::FromValues<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  Tensor rows = matrix.Slice(1, 3);
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  EXPECT_THAT(rows.Elements<int32_t>(), ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(rows.SharesBufferWith(matrix));
  EXPECT_FALSE(matrix.OwnsBufferAlone());
  rows.MutableElements<int32_t>()[0] = 30;
  EXPECT_EQ(matrix.Elements<int32_t>()[2], 30);
  EXPECT_THAT(rows.Slice(1, 2).Elements<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(matrix.Slice(3, 3).num_elements(), 0);

  const Tensor words = Tensor::Vector<std::string>({"a", "b", "c"});
  EXPECT_THAT(words.Slice(1, 3).Elements<std::string>(), ElementsAre("b", "c"));
  EXPECT_EQ(Tensor(kFloat32, {4, 0}).Slice(1, 2).shape(), Shape({1, 0}));
}

TEST(Tensor, ASliceKeepsTheMemoryAlive) {
  Tensor rows;
  { rows = Tensor::Vector<std::string>({"first", std::string(100, 'x')}).Slice(1, 2); }
  EXPECT_EQ(rows.ScalarValue<std::string>(), std::string(100, 'x'));
  EXPECT_TRUE(rows.OwnsBufferAlone());
}

TEST(Tensor, ReshapedSharesMemoryAndKeepsTheNumberOfElements) {
  const Tensor tensor = Tensor::FromValues<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const absl::StatusOr<Tensor> reshaped = tensor.Reshaped({3, 1, 2});
  ASSERT_TRUE(reshaped.ok());
  EXPECT_TRUE(reshaped->SharesBufferWith(tensor));
  EXPECT_EQ(reshaped->data(), tensor.data());
  EXPECT_EQ(reshaped->shape(), Shape({3, 1, 2}));
  const absl::Status status = tensor.Reshaped({4}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[2,3] (6 elements)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[4] (4 elements)"));
}

TEST(Tensor, BitcastReadsTheSameBits) {
  const Tensor bits = Tensor::Scalar(1.0f).BitcastTo(kUint32);
  EXPECT_EQ(bits.dtype(), kUint32);
  EXPECT_EQ(bits.ScalarValue<uint32_t>(), 0x3f800000u);
}

TEST(Tensor, AClonesMemoryIsItsOwn) {
  const Tensor numbers = Tensor::Vector<double>({1, 2, 3}).Slice(1, 3);
  Tensor copy = *numbers.Clone();
  EXPECT_FALSE(copy.SharesBufferWith(numbers));
  EXPECT_THAT(copy.Elements<double>(), ElementsAre(2, 3));
  copy.MutableElements<double>()[0] = 7;
  EXPECT_EQ(numbers.Elements<double>()[0], 2);

  const Tensor words = Tensor::Vector<std::string>({"a", "b"});
  Tensor copied_words = *words.Clone();
  copied_words.MutableElements<std::string>()[0] = "changed";
  EXPECT_THAT(words.Elements<std::string>(), ElementsAre("a", "b"));

  const Tensor variants = Tensor::Scalar(Variant(MakeRef<TestValue>()));
  const Tensor copied_variants = *variants.Clone();
  EXPECT_EQ(copied_variants.ScalarValue<Variant>().value(),
            variants.ScalarValue<Variant>().value());
  EXPECT_EQ(Tensor(kResource, {2}).Clone()->shape(), Shape({2}));
  EXPECT_EQ(Tensor(kFloat32, {0}).Clone()->shape(), Shape({0}));
}

TEST(Tensor, FromBufferKeepsTheGivenPlace) {
  RefPtr<Buffer> buffer = HostAllocator()->Allocate(64);
  char* const place = static_cast<char*>(buffer->data()) + 16;
  Tensor tensor = Tensor::FromBuffer(kInt32, {2}, buffer, place);
  EXPECT_EQ(tensor.data(), place);
  EXPECT_EQ(tensor.buffer(), buffer);
  EXPECT_FALSE(tensor.OwnsBufferAlone());
  buffer = nullptr;
  EXPECT_TRUE(tensor.OwnsBufferAlone());
}

TEST(Tensor, PrintsTypeShapeAndTheFirstValues) {
  EXPECT_EQ(Tensor::FromValues<float>({2, 2}, {1, 2.5f, -3, 4}).DebugString(),
            "float32[2,2] = 1 2.5 -3 4");
  EXPECT_EQ(Tensor::Vector<int8_t>({65, -1, 2}).DebugString(2), "int8[3] = 65 -1 …");
  EXPECT_EQ(Tensor::Vector<uint8_t>({65}).DebugString(), "uint8[1] = 65");
  EXPECT_EQ(Tensor::Scalar(true).DebugString(), "bool[] = true");
  EXPECT_EQ(Tensor::Scalar(Float16(0.5f)).DebugString(), "float16[] = 0.5");
  EXPECT_EQ(Tensor::Scalar(Bfloat16(0.5f)).DebugString(), "bfloat16[] = 0.5");
  EXPECT_EQ(Tensor::Scalar(std::complex<float>(1, -2)).DebugString(), "complex64[] = (1,-2)");
  EXPECT_EQ(Tensor::Vector<std::string>({"a\n", "\"b\""}).DebugString(),
            "string[2] = \"a\\n\" \"\\\"b\\\"\"");
  EXPECT_EQ(Tensor(kVariant, {}).DebugString(), "variant[] = <empty>");
  EXPECT_EQ(Tensor(kFloat32, {0, 2}).DebugString(), "float32[0,2] =");
}

TEST(ResourceHandle, CopiesShareTheDescription) {
  auto description = MakeRef<ResourceHandle::Description>();
  description->container = "localhost";
  description->name = "weights";
  description->resource = MakeRef<TestResource>();
  const ResourceHandle handle(std::move(description));
  const Tensor tensor = Tensor::Scalar(handle);
  EXPECT_FALSE(tensor.ScalarValue<ResourceHandle>().empty());
  EXPECT_EQ(&tensor.ScalarValue<ResourceHandle>().description(), &handle.description());
  EXPECT_EQ(tensor.DebugString(), "resource[] = localhost/weights");
  EXPECT_TRUE(ResourceHandle().empty());
  EXPECT_EQ(ResourceHandle().DebugString(), "<empty>");
}

TEST(Variant, GivesItsValueByItsTypeOnly) {
  const Variant variant(MakeRef<TestValue>());
  EXPECT_FALSE(variant.empty());
  ASSERT_NE(variant.Get<TestValue>(), nullptr);
  EXPECT_EQ(variant.Get<OtherValue>(), nullptr);
  EXPECT_EQ(variant.DebugString(), "a test value");
  EXPECT_TRUE(Variant().empty());
  EXPECT_EQ(Variant().Get<TestValue>(), nullptr);
}

}  // namespace
}  // namespace tandem
