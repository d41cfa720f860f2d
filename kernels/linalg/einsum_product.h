// Products and sums of tensors whose dimensions have labels, by matrix products: what Einsum's
// kernel does once its equation is read.
#ifndef TANDEM_KERNELS_LINALG_EINSUM_PRODUCT_H_
#define TANDEM_KERNELS_LINALG_EINSUM_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

namespace tandem::einsum {

// One dimension of a tensor in memory. Labels are numbers of the caller's.
struct Axis {
  int label;
  int64_t size;
  int64_t stride;  // In elements.
};
using Axes = std::vector<Axis>;

// Numbers in memory, whose axes have different labels and sizes other than 0 and 1. Strides are
// positive, and no two places are the same element.
struct Operand {
  Tensor tensor;
  Axes axes;
};

// output = x, summed over the labels that the output lacks. REQUIRES: every label of the output is
// one of x. Elements of the output's tensor that its axes do not reach are left as they are.
template <typename T>
absl::Status SumInto(KernelContext& c, const Operand& x, Operand& output);

// output = x y, summed over the labels that the output lacks. REQUIRES: every label of the output
// is one of x or of y.
template <typename T>
absl::Status MultiplyInto(KernelContext& c, const Operand& x, const Operand& y, Operand& output);

}  // namespace tandem::einsum

#endif  // TANDEM_KERNELS_LINALG_EINSUM_PRODUCT_H_
