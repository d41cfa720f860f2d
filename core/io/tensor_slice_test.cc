#include "core/io/tensor_slice.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor_slice.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorSlice Slice(absl::string_view text) { return *TensorSlice::Parse(text); }

TEST(TensorSlice, TextComesBack) {
  for (const char* text : {"", "-", "0,2:-", "3,4", "-:-:1,0", "0,0"}) {
    const absl::StatusOr<TensorSlice> slice = TensorSlice::Parse(text);
    ASSERT_TRUE(slice.ok()) << slice.status();
    EXPECT_EQ(slice->DebugString(), text);
    tensorflow::TensorSliceProto proto;
    slice->ToProto(&proto);
    EXPECT_EQ(*TensorSlice::FromProto(proto), *slice);
  }
}

TEST(TensorSlice, OtherTextIsRefused) {
  for (const char* text :
       {":", "1", "1,", ",1", "1,2,3", "-1,2", "1,-1", "a,b", "1,2:", "0,99999999999999999999"}) {
    EXPECT_EQ(TensorSlice::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(TensorSlice, MessagesWithImpossibleNumbersAreRefused) {
  tensorflow::TensorSliceProto proto;
  proto.add_extent()->set_start(1);  // The whole dimension, but from its second element on.
  EXPECT_FALSE(TensorSlice::FromProto(proto).ok());
  proto.mutable_extent(0)->set_length(-2);
  EXPECT_FALSE(TensorSlice::FromProto(proto).ok());
  proto.mutable_extent(0)->set_length(2);
  EXPECT_TRUE(TensorSlice::FromProto(proto).ok());
  proto.mutable_extent(0)->set_start(-1);
  EXPECT_FALSE(TensorSlice::FromProto(proto).ok());
}

TEST(TensorSlice, ResolvesWithinAShapeOnly) {
  EXPECT_EQ(Slice("0,2:-").Resolve(Shape({4, 5}))->DebugString(), "0,2:0,5");
  EXPECT_EQ(Slice("0,2:-").Resolve(Shape({4, 5}))->shape(), Shape({2, 5}));
  EXPECT_TRUE(Slice("-:-").Resolve(Shape({4, 5}))->Covers(Shape({4, 5})));
  EXPECT_TRUE(Slice("4,0").Resolve(Shape({4})).ok());
  for (const char* text :
       {"3,2:-", "5,0:-", "0,9223372036854775807:-", "9223372036854775807,1:-", "-", "-:-:-"}) {
    const absl::Status status = Slice(text).Resolve(Shape({4, 5})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("[4,5]"));
  }
}

TEST(ShapeAndSlice, IsParsed) {
  EXPECT_TRUE(ParseShapeAndSlice("")->whole);
  const absl::StatusOr<ShapeAndSlice> parsed = ParseShapeAndSlice("4 5 0,2:-");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->whole);
  EXPECT_EQ(parsed->full, Shape({4, 5}));
  EXPECT_EQ(parsed->slice.DebugString(), "0,2:-");
  for (const char* text : {"4 5 0,2", "4 0,5", "x 0,1", "4  0,1", "-1 0,1", "4 5"}) {
    EXPECT_EQ(ParseShapeAndSlice(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

TEST(TensorSliceKey, HasTensorFlowsBytes) {
  EXPECT_EQ(Hex(TensorSliceKey("w", Slice("0,2:-"))),
            "00770001"
            "0102"
            "8082"
            "807f");
  EXPECT_EQ(Hex(TensorSliceKey(absl::string_view("a\0\xff", 3), TensorSlice())),
            "006100ffff000001"
            "00");
  const auto number = [](int64_t start) {
    return Hex(TensorSliceKey("", TensorSlice({{start, 0}}))).substr(10);
  };
  EXPECT_EQ(number(0), "8080");
  EXPECT_EQ(number(63), "bf80");
  EXPECT_EQ(number(64), "c04080");
  EXPECT_EQ(number(1000), "c3e880");
  EXPECT_EQ(number(8192), "e0200080");
  EXPECT_EQ(number(std::numeric_limits<int64_t>::max()), "ffc07fffffffffffffff80");
}

TEST(TensorSliceKey, SortsLikeNumbers) {
  std::string last;
  for (int bits = 0; bits < 63; ++bits) {
    for (const int64_t start : {(int64_t{1} << bits) - 1, int64_t{1} << bits}) {
      const std::string key = TensorSliceKey("w", TensorSlice({{start, 1}}));
      if (bits > 1) {
        EXPECT_LT(last, key) << start;
      }
      last = key;
    }
  }
}

TEST(TensorSlice, CommonPartsAreCopiedAndNothingElse) {
  const Shape full({3, 4, 2});
  Tensor whole(kInt32, full);
  for (int i = 0; i < 24; ++i) whole.MutableElements<int32_t>()[static_cast<size_t>(i)] = i;
  const TensorSlice all = *TensorSlice(3).Resolve(full);
  for (const char* from_text : {"-:-:-", "0,2:-:-", "1,2:1,2:-", "-:0,3:1,1", "2,1:3,1:0,1"}) {
    const TensorSlice from_slice = *Slice(from_text).Resolve(full);
    Tensor from(kInt32, from_slice.shape());
    CopyCommonPart(whole, all, from_slice, &from);
    Tensor back = Tensor::Zeros(kInt32, full);
    CopyCommonPart(from, from_slice, all, &back);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        for (int64_t k = 0; k < 2; ++k) {
          const auto inside = [&](size_t dim, int64_t at) {
            const auto& extent = from_slice.extents()[dim];
            return at >= extent.start && at < extent.start + extent.length;
          };
          const int64_t value = 8 * i + 2 * j + k;
          const bool copied = inside(0, i) && inside(1, j) && inside(2, k);
          EXPECT_EQ(back.Elements<int32_t>()[static_cast<size_t>(value)], copied ? value : 0)
              << from_text;
        }
      }
    }
  }
}

TEST(TensorSlice, StringsAndScalarsAreCopiedToo) {
  const Tensor strings = Tensor::Vector<std::string>({"a", "b", "c"});
  Tensor part(kString, Shape({2}));
  CopyCommonPart(strings, Slice("0,3"), Slice("1,2"), &part);
  EXPECT_THAT(part.Elements<std::string>(), ElementsAre("b", "c"));
  Tensor scalar = Tensor::Zeros(kFloat32, Shape());
  CopyCommonPart(Tensor::Scalar(2.0f), TensorSlice(), TensorSlice(), &scalar);
  EXPECT_EQ(scalar.ScalarValue<float>(), 2.0f);
}

TEST(TensorSlice, EmptyPartsHaveNothingInCommon) {
  EXPECT_FALSE(Slice("0,2").Intersection(Slice("2,2")).has_value());
  EXPECT_FALSE(Slice("1,0").Intersection(Slice("0,3")).has_value());
  EXPECT_EQ(Slice("0,3").Intersection(Slice("2,2"))->DebugString(), "2,1");
}

}  // namespace
}  // namespace tandem
