#include "strategies/nn/reshape.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {
namespace {

// The product of all sizes but the first: the values of one example. InvalidArgument: some are not
// known.
absl::StatusOr<int64_t> ExampleSize(const LayerCall& call) {
  const PartialShape& shape = call.shape();
  bool known = shape.has_rank() && shape.rank() >= 1;
  int64_t size = 1;
  for (int i = 1; known && i < shape.rank(); ++i) {
    known = shape.dim(i) >= 0;
    size *= shape.dim(i);
  }
  if (!known) return call.ShapeError("of rank 1 or more, with all sizes but the first known");
  return size;
}

}  // namespace

LayerPtr Flatten() {
  return MakeLayer("flatten",
                   [](const LayerCall& call) -> absl::StatusOr<Output> {
                     TANDEM_ASSIGN_OR_RETURN(const int64_t size, ExampleSize(call));
                     return ReshapeLike(call.scope(), call.input(), call.input(), 1, {size});
                   },
                   {.floating_point = false});
}

LayerPtr Reshape(std::vector<int64_t> sizes) {
  return MakeLayer("reshape",
                   [sizes = std::move(sizes)](const LayerCall& call) -> absl::StatusOr<Output> {
                     TANDEM_ASSIGN_OR_RETURN(const int64_t size, ExampleSize(call));
                     std::vector<int64_t> target = sizes;
                     int64_t known = 1;
                     int unknown = 0;
                     bool valid = true;
                     for (const int64_t s : sizes) {
                       valid = valid && s >= -1;
                       if (s < 0) {
                         ++unknown;
                       } else {
                         valid = valid && !__builtin_mul_overflow(known, s, &known);
                       }
                     }
                     if (!valid || unknown > 1 ||
                         (unknown == 0 ? known != size : known == 0 || size % known != 0)) {
                       return call.Error(
                           "an example of the input ", call.shape().DebugString(), " has ", size,
                           " values, which the sizes [", absl::StrJoin(sizes, ","),
                           "] cannot take; their product must be equal (one may be -1)");
                     }
                     if (unknown == 1) *std::find(target.begin(), target.end(), -1) = size / known;
                     return ReshapeLike(call.scope(), call.input(), call.input(), 1, target);
                   },
                   {.floating_point = false});
}

}  // namespace tandem::nn
