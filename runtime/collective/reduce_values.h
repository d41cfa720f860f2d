// Reductions of values that lie somewhere in memory, on one thread.
#ifndef TANDEM_RUNTIME_COLLECTIVE_REDUCE_VALUES_H_
#define TANDEM_RUNTIME_COLLECTIVE_REDUCE_VALUES_H_

#include <cstdint>

#include "core/kernel/collective.h"
#include "core/tensor/dtype.h"

namespace tandem::collective {

// float32, float64, float16, bfloat16, int32 and int64.
bool IsReducible(DataType dtype);

// to[i] = a[i] op b[i]; means add, see DivideValues. `to` may be `a` or `b`, and overlaps neither
// otherwise. REQUIRES: IsReducible(dtype), and all three aligned for it.
void ReduceValues(DataType dtype, Reduction reduction, const void* a, const void* b, void* to,
                  int64_t count);

// values[i] /= divisor. Integers are rounded towards zero.
void DivideValues(DataType dtype, void* values, int64_t divisor, int64_t count);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_REDUCE_VALUES_H_
