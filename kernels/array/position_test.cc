// Parts of tensors by position, and tensors made of parts. Values over all types are compared with
// TensorFlow's in tests/golden; here is what that does not see: memory that is shared, large
// inputs, and what bad arguments say.
#include <cstdint>
#include <limits>

#include "kernels/array/array_test.h"

namespace tandem::array {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Slice, AlignedRowsAreAViewAndOthersACopy) {
  const Tensor x = Counting({8, 16});  // A row is 64 bytes.
  const Tensor view = Evaluate("Slice", {x, Ints32({2, 0}), Ints32({3, -1})})[0];
  EXPECT_TRUE(view.SharesBufferWith(x));
  EXPECT_EQ(view.Elements<float>()[0], 32);
  const Tensor y = Counting({8, 3});
  const Tensor copy = Evaluate("Slice", {y, Ints32({1, 0}), Ints32({2, -1})})[0];
  EXPECT_FALSE(copy.SharesBufferWith(y));
  EXPECT_EQ(Text(copy), "[2,3] | 3 4 5 6 7 8");
}

TEST(Slice, NamesTheDimensionThatIsTooShort) {
  const absl::Status status = Failure("Slice", {Counting({3, 4}), Ints32({0, 2}), Ints32({1, 3})});
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("size[1] is 3 from begin[1] = 2 on"));
}

TEST(Slice, ExtremeArgumentsAreRefused) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t greatest = std::numeric_limits<int64_t>::max();
  const auto ints = [](int64_t value) { return Tensor::Vector<int64_t>({value}); };
  for (const int64_t begin : {least, greatest}) {
    for (const int64_t size : {int64_t{-1}, int64_t{1}, greatest, least}) {
      EXPECT_EQ(Failure("Slice", {Counting({3}), ints(begin), ints(size)}).code(), kInvalid);
    }
  }
}

TEST(StridedSlice, ElementsRowsAndNegativeSteps) {
  const Tensor x = Counting({3, 4});
  const auto slice = [&](Tensor begin, Tensor end, Tensor strides, AttrMap masks) {
    return Text(Evaluate("StridedSlice", {x, begin, end, strides}, std::move(masks))[0]);
  };
  EXPECT_EQ(slice(Ints32({1, -1}), Ints32({2, 0}), Ints32({1, 1}), {{"shrink_axis_mask", 3}}),
            "[] | 7");
  EXPECT_EQ(slice(Ints32({2, 3}), Ints32({0, 0}), Ints32({-2, -1}), {{"end_mask", 3}}),
            "[2,4] | 11 10 9 8 3 2 1 0");
  EXPECT_EQ(slice(Ints32({0, 1}), Ints32({0, 2}), Ints32({1, 1}),
                  {{"ellipsis_mask", 1}, {"shrink_axis_mask", 2}}),
            "[3] | 1 5 9");
}

TEST(StridedSlice, StridesOfAnySizeOverflowNothing) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t greatest = std::numeric_limits<int64_t>::max();
  const auto ints = [](int64_t value) { return Tensor::Vector<int64_t>({value}); };
  const Tensor x = Counting({3});
  EXPECT_EQ(Text(Evaluate("StridedSlice", {x, ints(0), ints(greatest), ints(greatest)})[0]),
            "[1] | 0");
  EXPECT_EQ(Text(Evaluate("StridedSlice", {x, ints(-1), ints(least), ints(least)})[0]), "[1] | 2");
  EXPECT_EQ(Text(Evaluate("StridedSlice", {x, ints(least), ints(greatest), ints(2)})[0]),
            "[2] | 0 2");
}

TEST(StridedSlice, MoreThanSixtyTwoEntriesAreRefused) {
  const Tensor zeros = Tensor::Zeros(kInt32, {70});
  EXPECT_EQ(Failure("StridedSlice", {Counting({3}), zeros, zeros, zeros}).code(), kInvalid);
}

TEST(StridedSliceGrad, PutsElementsBack) {
  const Tensor y = Evaluate("StridedSliceGrad", {Ints32({5}), Ints32({4}), Ints32({0}),
                                                 Ints32({-2}), Tensor::Vector<float>({1, 2})})[0];
  EXPECT_EQ(Text(y), "[5] | 0 0 2 0 1");
}

TEST(Concat, InnermostAndOuterDimension) {
  const Tensor x = Counting({2, 2});
  const Tensor axis = Tensor::Scalar<int32_t>(-1);
  EXPECT_EQ(Text(Evaluate("ConcatV2", {x, x, axis}, {{"N", 2}})[0]), "[2,4] | 0 1 0 1 2 3 2 3");
  EXPECT_EQ(Text(Evaluate("ConcatV2", {x, x, Tensor::Scalar<int32_t>(0)}, {{"N", 2}})[0]),
            "[4,2] | 0 1 2 3 0 1 2 3");
}

TEST(Concat, LargeInputsInManyRuns) {
  const Tensor x = Counting({64, 300});
  const Tensor y = Evaluate("ConcatV2", {x, x, x, Tensor::Scalar<int32_t>(1)}, {{"N", 3}})[0];
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 900; ++j) {
      ASSERT_EQ(y.Elements<float>()[static_cast<size_t>(i * 900 + j)],
                static_cast<float>(i * 300 + j % 300));
    }
  }
}

TEST(Split, AlignedPartsOfTheOuterDimensionAreViews) {
  const Tensor x = Counting({4, 16});
  for (const Tensor& part :
       Evaluate("Split", {Tensor::Scalar<int32_t>(0), x}, {{"num_split", 4}})) {
    EXPECT_TRUE(part.SharesBufferWith(x));
  }
  const Tensors parts =
      Evaluate("SplitV", {Counting({2, 4}), Ints32({1, -1}), Tensor::Scalar<int32_t>(1)},
               {{"num_split", 2}});
  EXPECT_EQ(Text(parts[0]), "[2,1] | 0 4");
  EXPECT_EQ(Text(parts[1]), "[2,3] | 1 2 3 5 6 7");
}

TEST(Pack, AndUnpackAreInverse) {
  const Tensor x = Counting({2, 3});
  for (const int axis : {0, 1, 2, -1}) {
    const Tensor packed = Evaluate("Pack", {x, Evaluate("ZerosLike", {x})[0]}, {{"axis", axis}})[0];
    const Tensors parts = Evaluate("Unpack", {packed}, {{"num", 2}, {"axis", axis}});
    EXPECT_EQ(Text(parts[0]), Text(x));
    EXPECT_EQ(Text(parts[1]), "[2,3] | 0 0 0 0 0 0");
  }
}

TEST(Pad, EveryElementOfTheMarginOnce) {
  const Tensor paddings = Tensor::FromValues<int32_t>({2, 2}, {1, 0, 1, 2});
  EXPECT_EQ(Text(Evaluate("PadV2", {Counting({1, 2}), paddings, Tensor::Scalar(9.f)})[0]),
            "[2,5] | 9 9 9 9 9 9 0 1 9 9");
}

TEST(Pad, AMarginThatNoMemoryHoldsIsRefused) {
  const int64_t greatest = std::numeric_limits<int64_t>::max();
  const Tensor paddings = Tensor::FromValues<int64_t>({1, 2}, {greatest, greatest});
  EXPECT_EQ(Failure("Pad", {Counting({2}), paddings}).code(), kInvalid);
}

TEST(MirrorPad, BothModes) {
  const Tensor paddings = Tensor::FromValues<int32_t>({1, 2}, {2, 2});
  EXPECT_EQ(Text(Evaluate("MirrorPad", {Counting({3}), paddings}, {{"mode", "REFLECT"}})[0]),
            "[7] | 2 1 0 1 2 1 0");
  EXPECT_EQ(Text(Evaluate("MirrorPad", {Counting({3}), paddings}, {{"mode", "SYMMETRIC"}})[0]),
            "[7] | 1 0 0 1 2 2 1");
  EXPECT_EQ(Text(Evaluate("MirrorPadGrad", {Counting({7}), paddings}, {{"mode", "REFLECT"}})[0]),
            "[3] | 8 9 4");
}

TEST(Transpose, MovesOnlyWhatMoves) {
  const Tensor x = Counting({2, 1, 3});
  EXPECT_TRUE(Evaluate("Transpose", {x, Ints32({1, 0, 2})})[0].SharesBufferWith(x));
  EXPECT_EQ(Text(Evaluate("Transpose", {x, Ints32({2, 1, 0})})[0]), "[3,1,2] | 0 3 1 4 2 5");
}

TEST(Transpose, SaysWhatIsNoPermutation) {
  const absl::Status twice = Failure("Transpose", {Counting({2, 3}), Ints32({1, 1})});
  EXPECT_EQ(twice.code(), kInvalid);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("[1,1] is no permutation: 1 occurs twice"));
  EXPECT_EQ(Failure("Transpose", {Counting({2, 3}), Ints32({0, -1})}).code(), kInvalid);
}

TEST(ConjugateTranspose, LeavesAnInputThatItSharesAlone) {
  using Complex = std::complex<float>;
  const Tensor x = Tensor::FromValues<Complex>({1, 2}, {Complex(1, 2), Complex(3, -4)});
  const Tensor y = Evaluate("ConjugateTranspose", {x, Ints32({1, 0})})[0];
  EXPECT_EQ(y.Elements<Complex>()[0], Complex(1, -2));
  EXPECT_EQ(y.Elements<Complex>()[1], Complex(3, 4));
  EXPECT_EQ(x.Elements<Complex>()[0], Complex(1, 2));
}

TEST(Tile, RepeatsRowsAndElements) {
  EXPECT_EQ(Text(Evaluate("Tile", {Counting({2, 1}), Ints32({2, 3})})[0]),
            "[4,3] | 0 0 0 1 1 1 0 0 0 1 1 1");
  const Tensor many = Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::max()});
  EXPECT_EQ(tandem::testing::RunOp("Tile", {Counting({2}), many}).status().code(), kInvalid);
}

TEST(BroadcastTo, NewAndOldDimensions) {
  EXPECT_EQ(Text(Evaluate("BroadcastTo", {Counting({2, 1}), Ints32({2, 2, 2})})[0]),
            "[2,2,2] | 0 0 1 1 0 0 1 1");
}

TEST(Reverse, AlongAxesAndSequences) {
  EXPECT_EQ(Text(Evaluate("ReverseV2", {Counting({2, 3}), Ints32({-1})})[0]),
            "[2,3] | 2 1 0 5 4 3");
  EXPECT_EQ(
      Text(Evaluate("ReverseSequence", {Counting({2, 3}), Ints32({2, 0})}, {{"seq_dim", 1}})[0]),
      "[2,3] | 1 0 2 3 4 5");
}

TEST(MatrixBandPart, InPlaceOrNot) {
  const auto scalar = [](int64_t value) { return Tensor::Scalar<int64_t>(value); };
  const Tensor x = Counting({2, 3});
  EXPECT_EQ(Text(Evaluate("MatrixBandPart", {x, scalar(0), scalar(1)})[0]), "[2,3] | 0 1 0 0 4 5");
  EXPECT_EQ(Text(x), "[2,3] | 0 1 2 3 4 5");
}

TEST(SpaceToBatch, ElementsAtOnePlaceOfAllBlocksComeTogether) {
  const Tensor x = Counting({1, 4});
  EXPECT_EQ(Text(Evaluate("SpaceToBatchND",
                          {x, Ints32({2}), Tensor::FromValues<int32_t>({1, 2}, {0, 0})})[0]),
            "[2,2] | 0 2 1 3");
  const Tensor paddings = Tensor::FromValues<int32_t>({1, 2}, {1, 1});
  const Tensor padded = Evaluate("SpaceToBatchND", {x, Ints32({3}), paddings})[0];
  EXPECT_EQ(Text(padded), "[3,2] | 0 2 0 3 1 0");
  EXPECT_EQ(Text(Evaluate("BatchToSpaceND", {padded, Ints32({3}), paddings})[0]),
            "[1,4] | 0 1 2 3");
}

TEST(SpaceToBatch, ExtremeArgumentsAreRefused) {
  const int64_t greatest = std::numeric_limits<int64_t>::max();
  const Tensor x = Tensor::Zeros(kFloat32, {1, 0, 0});
  for (const char* op : {"SpaceToBatchND", "BatchToSpaceND"}) {
    for (const int64_t block : {int64_t{1} << 40, greatest, int64_t{0}, int64_t{-1}}) {
      const Tensor blocks = Tensor::Vector<int64_t>({block, block});
      const Tensor none = Tensor::Zeros(kInt64, {2, 2});
      EXPECT_EQ(Failure(op, {x, blocks, none}).code(), kInvalid);
    }
    const Tensor paddings = Tensor::FromValues<int64_t>({2, 2}, {greatest, greatest, 0, 0});
    EXPECT_EQ(Failure(op, {x, Tensor::Vector<int64_t>({1, 1}), paddings}).code(), kInvalid);
  }
}

TEST(SpaceToDepth, ABlockBecomesThePixelsChannels) {
  const Tensor x = Counting({1, 2, 4, 1});
  const Tensor y = Evaluate("SpaceToDepth", {x}, {{"block_size", 2}})[0];
  EXPECT_EQ(Text(y), "[1,1,2,4] | 0 1 4 5 2 3 6 7");
  EXPECT_EQ(Text(Evaluate("DepthToSpace", {y}, {{"block_size", 2}})[0]), Text(x));
  EXPECT_EQ(Failure("DepthToSpace", {x}, {{"block_size", int64_t{1} << 40}}).code(), kInvalid);
}

TEST(Roll, ElementsComeInAtTheOtherEnd) {
  const Tensor x = Counting({2, 3});
  EXPECT_EQ(Text(Evaluate("Roll", {x, Ints32({1, -1}), Ints32({0, 1})})[0]), "[2,3] | 4 5 3 1 2 0");
  const Tensor same = Evaluate("Roll", {x, Ints32({4}), Ints32({0})})[0];
  EXPECT_TRUE(same.SharesBufferWith(x));
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Text(Evaluate("Roll", {x, Tensor::Vector<int64_t>({least, least}), Ints32({1, 1})})[0]),
            Text(Evaluate("Roll", {x, Ints32({-4}), Ints32({1})})[0]));
  EXPECT_EQ(Failure("Roll", {Tensor::Scalar(1.0f), Tensor::Scalar(1), Tensor::Scalar(0)}).code(),
            kInvalid);
}

}  // namespace
}  // namespace tandem::array
