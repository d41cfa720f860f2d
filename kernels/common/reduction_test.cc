#include "kernels/common/reduction.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

ReductionGeometry Make(const Shape& shape, std::initializer_list<int64_t> axes,
                       bool keep_dims = false) {
  const auto made =
      ReductionGeometry::Make(shape, absl::MakeConstSpan(axes.begin(), axes.size()), keep_dims);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

TEST(ReductionGeometry, JoinsNeighboursThatShareTheirFate) {
  const ReductionGeometry g = Make({2, 3, 4, 5}, {2, -1});
  EXPECT_EQ(g.output_shape, Shape({2, 3}));
  ASSERT_EQ(g.kept.size(), 1u);
  EXPECT_EQ(g.kept[0].size, 6);
  EXPECT_EQ(g.kept[0].stride, 20);
  ASSERT_EQ(g.reduced.size(), 1u);
  EXPECT_EQ(g.reduced[0].size, 20);
  EXPECT_FALSE(g.inner_is_kept);
  EXPECT_EQ(g.num_kept, 6);
  EXPECT_EQ(g.num_reduced, 20);
}

TEST(ReductionGeometry, AlternatingAxesStayApart) {
  const ReductionGeometry g = Make({2, 3, 4, 5}, {0, 2}, true);
  EXPECT_EQ(g.output_shape, Shape({1, 3, 1, 5}));
  ASSERT_EQ(g.kept.size(), 2u);
  ASSERT_EQ(g.reduced.size(), 2u);
  EXPECT_TRUE(g.inner_is_kept);
  EXPECT_EQ(GridOffset(g.reduced, 5), 1 * 60 + 1 * 5);
  EXPECT_EQ(GridOffset(g.kept, 7), 1 * 20 + 2);
}

TEST(ReductionGeometry, SizesOfOneDoNotSeparate) {
  const ReductionGeometry g = Make({3, 1, 4}, {1});
  EXPECT_EQ(g.output_shape, Shape({3, 4}));
  ASSERT_EQ(g.kept.size(), 1u);
  EXPECT_EQ(g.kept[0].size, 12);
  EXPECT_TRUE(g.reduced.empty());
}

TEST(ReductionGeometry, RefusesAxesThatAreNotThereAndThoseNamedTwice) {
  const int64_t too_large[] = {2};
  const int64_t too_small[] = {-3};
  const int64_t twice[] = {1, -1};
  for (const auto& axes : {absl::MakeConstSpan(too_large), absl::MakeConstSpan(too_small),
                           absl::MakeConstSpan(twice)}) {
    EXPECT_EQ(ReductionGeometry::Make(Shape({2, 3}), axes, false).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem
