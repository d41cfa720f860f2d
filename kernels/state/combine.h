// Adds to and subtracts from numbers of any type.
#ifndef TANDEM_KERNELS_STATE_COMBINE_H_
#define TANDEM_KERNELS_STATE_COMBINE_H_

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tandem::state {

enum class Combination { kAdd, kSubtract };

// to[i] = a[i] ± b[i], or ± b[0] where `b_is_scalar`, for i in [0, n). `to` may be `a`; integers
// wrap around, small floats round once.
using CombineFunction = void (*)(void* to, const void* a, const void* b, bool b_is_scalar,
                                 int64_t n);
// Null: the type has no sum.
CombineFunction FindCombineFunction(DataType dtype, Combination combination);

}  // namespace tandem::state

#endif  // TANDEM_KERNELS_STATE_COMBINE_H_
