// Elements moved between space, batch and depth, and rolled.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

std::vector<GradientCase> SpaceCases() {
  GradientCases cases;
  const Tensor paddings = Tensor::FromValues<int32_t>({2, 2}, {1, 0, 0, 2});
  cases.Op("SpaceToBatchND", "padded", {Spread({2, 3, 4, 1}), Ints({2, 2}), paddings});
  cases.Op("BatchToSpaceND", "cropped", {Spread({8, 2, 3, 1}), Ints({2, 2}), paddings});
  cases.Op("SpaceToBatch", "padded", {Spread({2, 3, 4, 1}), paddings}, {{"block_size", 2}});
  cases.Op("BatchToSpace", "cropped", {Spread({8, 2, 3, 1}), paddings}, {{"block_size", 2}});
  for (const char* format : {"NHWC", "NCHW"}) {
    const AttrMap attrs = {{"block_size", 2}, {"data_format", format}};
    cases.Op("SpaceToDepth", format, {Spread({1, 4, 2, 2})}, attrs);
    cases.Op("DepthToSpace", format, {Spread({1, 4, 2, 4})}, attrs);
  }
  cases.Op("Roll", "one_axis", {Spread({2, 3}), Int(2), Int(-1)});
  cases.Op("Roll", "two_axes", {Spread({2, 3}), Ints({1, -1}), Ints({0, 1})});
  return cases.Take();
}

}  // namespace tandem::testing
