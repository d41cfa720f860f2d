// Sums over the rows of a matrix, one for each column: over a batch of pixels, for each channel.
#ifndef TANDEM_KERNELS_NN_COLUMN_SUMS_H_
#define TANDEM_KERNELS_NN_COLUMN_SUMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/kernel/parallel.h"

namespace tandem {

// Rows in one block. Depends on the sizes alone, so that the sums do not depend on threads. Short
// enough that little is lost by adding a block's rows to one sum, long enough to be worth a task.
inline int64_t RowsPerBlock(int64_t columns) {
  return std::clamp<int64_t>(32768 / std::max<int64_t>(1, columns), 16, 256);
}

// totals[s * columns + j] = the sum over all rows of what add(row, sums) adds to sums[s * columns +
// j], for s in [0, kSums). Rows are cut into blocks; a block's rows are added in order, and so are
// the blocks. `add` is called from several threads at once, for different rows.
template <int kSums, typename Sum, typename Add>
void ColumnSums(int64_t rows, int64_t columns, double nanoseconds_per_row, ParallelRunner& parallel,
                Sum* totals, Add add) {
  const int64_t width = kSums * columns;
  std::fill(totals, totals + width, Sum());
  const int64_t block = RowsPerBlock(columns);
  const int64_t blocks = (rows + block - 1) / block;
  if (blocks <= 1) {
    for (int64_t row = 0; row < rows; ++row) add(row, totals);
    return;
  }
  std::vector<Sum> partial(static_cast<size_t>(blocks * width));
  parallel.For(blocks, nanoseconds_per_row * static_cast<double>(block),
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b) {
                   Sum* const sums = partial.data() + b * width;
                   const int64_t last = std::min(rows, (b + 1) * block);
                   for (int64_t row = b * block; row < last; ++row) add(row, sums);
                 }
               });
  for (int64_t b = 0; b < blocks; ++b) {
    const Sum* const sums = partial.data() + b * width;
    for (int64_t j = 0; j < width; ++j) totals[j] += sums[j];
  }
}

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_COLUMN_SUMS_H_
