// Adds elements of any type that has a sum.
#ifndef TANDEM_KERNELS_ARRAY_ADD_ELEMENTS_H_
#define TANDEM_KERNELS_ARRAY_ADD_ELEMENTS_H_

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tandem::array {

// to[i·to_stride] += from[i·from_stride] for i in [0, count), strides in elements. Booleans are
// or-ed, strings appended. REQUIRES: dtype is neither resource nor variant; no element of `to` is
// one of `from`.
void AddElements(DataType dtype, void* to, int64_t to_stride, const void* from, int64_t from_stride,
                 int64_t count);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_ADD_ELEMENTS_H_
