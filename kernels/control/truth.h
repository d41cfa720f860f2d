// What counts as true where a condition is no bool.
#ifndef TANDEM_KERNELS_CONTROL_TRUTH_H_
#define TANDEM_KERNELS_CONTROL_TRUTH_H_

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace tandem {

// A number that is not zero, a text that is not empty, or, if the value is no scalar, a tensor that
// has elements. InvalidArgument: a type that knows no such thing.
absl::StatusOr<bool> Truth(const Tensor& value);

}  // namespace tandem

#endif  // TANDEM_KERNELS_CONTROL_TRUTH_H_
