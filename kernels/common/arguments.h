// Reading arguments that steer a kernel: axes, sizes, shapes. They are integers of any width, in
// host memory, and come from outside: all is checked.
#ifndef TANDEM_KERNELS_COMMON_ARGUMENTS_H_
#define TANDEM_KERNELS_COMMON_ARGUMENTS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace tandem {

using SmallInts = absl::InlinedVector<int64_t, 8>;

// The value of a scalar of an integer type. InvalidArgument names the argument: not a scalar, not
// an integer.
absl::StatusOr<int64_t> ScalarArgument(const Tensor& tensor, absl::string_view name);
// The values of a vector. InvalidArgument: not a vector (a scalar counts as one where
// `scalar_is_vector`), not an integer type.
absl::StatusOr<SmallInts> VectorArgument(const Tensor& tensor, absl::string_view name,
                                         bool scalar_is_vector = false);
// The values of a tensor of an integer type and any shape, row-major.
absl::StatusOr<SmallInts> IntsArgument(const Tensor& tensor, absl::string_view name);
// A vector of sizes. InvalidArgument as VectorArgument, or sizes that are no shape.
absl::StatusOr<Shape> ShapeArgument(const Tensor& tensor, absl::string_view name);
// An axis in [-rank, rank) made one in [0, rank). InvalidArgument when it is not.
absl::StatusOr<int> AxisArgument(const Tensor& tensor, absl::string_view name, int rank);

}  // namespace tandem

#endif  // TANDEM_KERNELS_COMMON_ARGUMENTS_H_
