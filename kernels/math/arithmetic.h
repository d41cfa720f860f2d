// Addition as a loop, for kernels that sum tensors.
#ifndef TANDEM_KERNELS_MATH_ARITHMETIC_H_
#define TANDEM_KERNELS_MATH_ARITHMETIC_H_

#include "core/tensor/dtype.h"
#include "kernels/math/elementwise.h"

namespace tandem::math {

// z[i] = x[i] + y[i] for a type; z may be x or y. Null for types that do not add.
BinaryLoop AdditionLoop(DataType type);

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_ARITHMETIC_H_
