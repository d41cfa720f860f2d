// Rows found by index: what gathers, partitions and stitches share.
#ifndef TANDEM_KERNELS_ARRAY_ROWS_H_
#define TANDEM_KERNELS_ARRAY_ROWS_H_

#include <cstdint>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tandem::array {

// Elements [begin, end) of an integer tensor (int16, int32 or int64), row-major.
void ReadIndices(const Tensor& indices, int64_t begin, int64_t end, int64_t* values);

// The position of the first element outside [0, limit), or -1 when there is none.
int64_t FindOutOfRange(const Tensor& indices, int64_t limit);

// Copies rows of `row` elements: row i of `to` is row rows[i] of `from`, and zero (false, "",
// nothing) where rows[i] is negative.
void GatherRows(DataType dtype, void* to, const void* from, int64_t row, const int64_t* rows,
                int64_t count);

// How many indices are read at a time: they stay in the first-level cache.
inline constexpr int64_t kIndexBlock = 512;

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_ROWS_H_
