#include "kernels/common/broadcast.h"

#include <algorithm>
#include <vector>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

// What the plan must be: NumPy's rule, index by index.
int64_t IndexOf(const Shape& input, const Shape& output, int64_t index) {
  int64_t result = 0;
  int64_t stride = 1;
  for (int d = output.rank() - 1; d >= 0; --d) {
    const int64_t place = index % output.dim(d);
    index /= output.dim(d);
    const int own = d - (output.rank() - input.rank());
    if (own < 0) continue;
    if (input.dim(own) != 1) result += place * stride;
    stride *= input.dim(own);
  }
  return result;
}

template <typename T>
void Check(const Shape& a, const Shape& b, int64_t begin_offset, int64_t step) {
  SCOPED_TRACE(a.DebugString() + " and " + b.DebugString());
  const auto plan = BroadcastPlan::Make({&a, &b});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<T> x(static_cast<size_t>(a.num_elements()));
  std::vector<T> y(static_cast<size_t>(b.num_elements()));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(3 * i + 1);
  int64_t seen = 0;
  for (int64_t begin = 0; begin < plan->num_elements(); begin += step + begin_offset) {
    const int64_t end = std::min(plan->num_elements(), begin + step + begin_offset);
    plan->ForEachBlock({x.data(), y.data()}, {sizeof(T), sizeof(T)}, begin, end,
                       [&](const void* const* in, int64_t first, int64_t n) {
                         ASSERT_EQ(first, seen);
                         for (int64_t i = 0; i < n; ++i) {
                           const int64_t ia = IndexOf(a, plan->output_shape(), first + i);
                           const int64_t ib = IndexOf(b, plan->output_shape(), first + i);
                           ASSERT_EQ(static_cast<const T*>(in[0])[i], x[static_cast<size_t>(ia)]);
                           ASSERT_EQ(static_cast<const T*>(in[1])[i], y[static_cast<size_t>(ib)]);
                           ASSERT_EQ(plan->InputIndex(0, first + i), ia);
                           ASSERT_EQ(plan->InputIndex(1, first + i), ib);
                         }
                         seen += n;
                       });
  }
  EXPECT_EQ(seen, plan->num_elements());
}

TEST(BroadcastPlan, BlocksHoldWhatNumPysRuleSaysForAnyPieces) {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{3, 4}, {3, 4}},
      {{}, {}},
      {{3, 4}, {}},
      {{}, {700}},
      {{5, 300}, {300}},
      {{5, 300}, {5, 1}},
      {{300, 5}, {5}},
      {{300, 5}, {300, 1}},
      {{2, 1, 3, 1}, {4, 1, 5}},
      {{2, 2, 2, 1, 1, 1}, {1, 1, 1, 2, 2, 2}},
      {{1}, {2, 1, 2}},
      {{2, 3, 4}, {2, 1, 4}},
      {{1, 1, 600}, {2, 3, 1}},
      {{0, 3}, {3}},
      {{40, 1}, {1, 33}},
  };
  for (const auto& [a, b] : pairs) {
    for (const int64_t step : {1000000, 1, 97, 256, 300}) {
      Check<float>(a, b, 0, step);
      Check<float>(b, a, 3, step);
    }
    Check<uint8_t>(a, b, 0, 101);
    Check<uint16_t>(a, b, 0, 101);
    Check<double>(a, b, 0, 101);
  }
}

TEST(BroadcastPlan, KnowsWhichInputsAreFull) {
  const Shape a({2, 3});
  const Shape b({3});
  const auto plan = BroadcastPlan::Make({&a, &b});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->IsFull(0));
  EXPECT_FALSE(plan->IsFull(1));
  EXPECT_EQ(plan->output_shape(), a);
}

TEST(BroadcastPlan, RefusesShapesThatDoNotFitAndNamesThem) {
  const Shape a({2, 3});
  const Shape b({2, 4});
  const auto plan = BroadcastPlan::Make({&a, &b});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(plan.status().message().find("[2,3] and [2,4]"), absl::string_view::npos);
}

TEST(BroadcastPlan, RefusesAnOutputThatIsTooLarge) {
  const Shape a({int64_t{1} << 40, 1});
  const Shape b({1, int64_t{1} << 40});
  EXPECT_EQ(BroadcastPlan::Make({&a, &b}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
