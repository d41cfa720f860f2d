#include "kernels/array/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

// Cuts every loop into single units, from the last to the first: what depends on where pieces begin
// or on their order shows.
class SingleUnits : public ParallelRunner {
 public:
  int parallelism() const override { return 4; }
  void For(int64_t total, double, Body body) override {
    for (int64_t i = total; i-- > 0;) body(i, i + 1);
  }
};

// The same copy, element by element.
void CopySlowly(int64_t size, char* to, const char* from, const LoopDims& dims, size_t d = 0) {
  if (d == dims.size()) {
    std::memcpy(to, from, static_cast<size_t>(size));
    return;
  }
  for (int64_t i = 0; i < dims[d].size; ++i) {
    CopySlowly(size, to + i * dims[d].to_stride * size, from + i * dims[d].from_stride * size, dims,
               d + 1);
  }
}

// Copies with both and compares all of the target, also what lies between the grid's elements.
void ExpectSameCopy(DataType dtype, const LoopDims& dims, int64_t to_size, int64_t to_first,
                    int64_t from_size, int64_t from_first) {
  const int64_t size = static_cast<int64_t>(DataTypeSize(dtype));
  std::vector<char> from(static_cast<size_t>(from_size * size));
  std::mt19937 random(7);
  for (char& byte : from) byte = static_cast<char>(random());
  std::vector<char> wanted(static_cast<size_t>(to_size * size), 0x5a);
  std::vector<char> inline_copy = wanted;
  std::vector<char> cut_copy = wanted;
  CopySlowly(size, wanted.data() + to_first * size, from.data() + from_first * size, dims);
  InlineRunner whole;
  CopyStrided(whole, dtype, inline_copy.data() + to_first * size, from.data() + from_first * size,
              dims);
  SingleUnits cut;
  CopyStrided(cut, dtype, cut_copy.data() + to_first * size, from.data() + from_first * size, dims);
  EXPECT_EQ(inline_copy, wanted);
  EXPECT_EQ(cut_copy, wanted);
}

const DataType kBySize[] = {kInt8, kBfloat16, kFloat32, kComplex64, kComplex128};

TEST(CopyStrided, EveryPermutationOfFourDimensions) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{3, 5, 2, 7}, {2, 40, 1, 33}, {1, 17, 24, 4}}) {
    const auto from_strides = Strides(sizes);
    std::vector<size_t> perm = {0, 1, 2, 3};
    do {
      std::vector<int64_t> to_sizes;
      for (const size_t p : perm) to_sizes.push_back(sizes[p]);
      const auto to_strides = Strides(to_sizes);
      LoopDims dims;
      for (size_t i = 0; i < 4; ++i)
        dims.push_back({to_sizes[i], to_strides[i], from_strides[perm[i]]});
      const int64_t n = sizes[0] * sizes[1] * sizes[2] * sizes[3];
      for (const DataType dtype : kBySize) {
        SCOPED_TRACE(absl::StrCat(DataTypeName(dtype), " ", perm[0], perm[1], perm[2], perm[3]));
        ExpectSameCopy(dtype, dims, n, 0, n, 0);
      }
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

TEST(CopyStrided, LargeTransposition) {
  for (const DataType dtype : kBySize) {
    ExpectSameCopy(dtype, {{301, 517, 1}, {517, 1, 301}}, 301 * 517, 0, 301 * 517, 0);
  }
}

TEST(CopyStrided, StridesBackwardsAndGaps) {
  for (const DataType dtype : kBySize) {
    ExpectSameCopy(dtype, {{4, 10, -8}, {5, 2, 1}}, 50, 3, 64, 40);
    ExpectSameCopy(dtype, {{4, 5, -5}, {5, 1, -1}}, 20, 0, 20, 19);
    ExpectSameCopy(dtype, {{6, -3, 2}}, 20, 18, 20, 1);
    ExpectSameCopy(dtype, {{40000, 1, 2}}, 40000, 0, 80000, 0);
  }
}

TEST(CopyStrided, RepeatsElementsAndRuns) {
  for (const DataType dtype : kBySize) {
    ExpectSameCopy(dtype, {{1000, 1, 0}}, 1000, 0, 1, 0);
    ExpectSameCopy(dtype, {{7, 15, 0}, {5, 3, 1}, {3, 1, 0}}, 105, 0, 5, 0);
    ExpectSameCopy(dtype, {{3, 40000, 0}, {40000, 1, 1}}, 120000, 0, 40000, 0);
  }
}

TEST(CopyStrided, NothingWhenASizeIsZero) {
  InlineRunner whole;
  float to = 3;
  CopyStrided(whole, kFloat32, &to, nullptr, {{4, 0, 1}, {0, 1, 1}});
  EXPECT_EQ(to, 3);
}

TEST(CopyStrided, AScalar) {
  for (const DataType dtype : kBySize) ExpectSameCopy(dtype, {}, 3, 1, 3, 2);
}

TEST(CopyStrided, CopiesStringsAsObjects) {
  const std::vector<std::string> from = {
      "a long string that has memory of its own", "b", "c", "d", "e", "f"};
  std::vector<std::string> to(6);
  InlineRunner whole;
  CopyStrided(whole, kString, to.data(), from.data(), {{3, 2, 1}, {2, 1, 3}});
  EXPECT_EQ(to, (std::vector<std::string>{from[0], "d", "b", "e", "c", "f"}));
}

TEST(Odometer, BeginsAnywhere) {
  const LoopDims dims = {{2, 100, 7}, {3, 10, -1}};
  Odometer all(dims, 0);
  for (int64_t i = 0; i < 6; ++i, all.Next()) {
    const Odometer from_here(dims, i);
    EXPECT_EQ(all.to(), from_here.to()) << i;
    EXPECT_EQ(all.from(), from_here.from()) << i;
  }
}

}  // namespace
}  // namespace tandem::array
