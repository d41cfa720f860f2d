// The softmax of rows, block by block: what Softmax, LogSoftmax and the cross entropies share.
#ifndef TANDEM_KERNELS_NN_SOFTMAX_ROWS_H_
#define TANDEM_KERNELS_NN_SOFTMAX_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/kernel/parallel.h"
#include "kernels/nn/vector_math.h"

namespace tandem {

// A few rows: their logits minus the row's largest (so that exp cannot overflow), the exp of that,
// and the sum of the latter for each row.
template <typename C>
struct SoftmaxBlock {
  int64_t first_row = 0;
  int64_t rows = 0;
  C* shifted = nullptr;  // [rows, columns]
  C* exps = nullptr;     // [rows, columns]
  C* sums = nullptr;     // [rows]
};

// Calls use(block) for blocks that together are all `rows`, from several threads at once. Within a
// block `use` may overwrite what it is given. `logits` starts row r at logits + r * row_stride, so
// a stride of 0 repeats one row.
template <typename T, typename Use>
void ForSoftmaxBlocks(const T* logits, int64_t rows, int64_t columns, int64_t row_stride,
                      ParallelRunner& parallel, Use use) {
  using C = ComputeType<T>;
  // Short rows go through the exponential together: a call costs more than they do.
  const int64_t at_once = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, columns));
  const int64_t blocks = (rows + at_once - 1) / at_once;
  parallel.For(blocks, 3.0 * static_cast<double>(at_once * columns),
               [&](int64_t begin, int64_t end) {
                 std::vector<C> buffer(static_cast<size_t>(at_once * (2 * columns + 1)));
                 for (int64_t b = begin; b < end; ++b) {
                   SoftmaxBlock<C> block;
                   block.first_row = b * at_once;
                   block.rows = std::min(at_once, rows - block.first_row);
                   block.shifted = buffer.data();
                   block.exps = block.shifted + block.rows * columns;
                   block.sums = block.exps + block.rows * columns;
                   for (int64_t r = 0; r < block.rows; ++r) {
                     C* const x = block.shifted + r * columns;
                     ToCompute(logits + (block.first_row + r) * row_stride, x, columns);
                     const C max = Max(x, columns);
                     for (int64_t j = 0; j < columns; ++j) x[j] -= max;
                   }
                   Exp(block.shifted, block.exps, block.rows * columns);
                   for (int64_t r = 0; r < block.rows; ++r) {
                     block.sums[r] = Sum(block.exps + r * columns, columns);
                   }
                   use(block);
                 }
               });
}

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_SOFTMAX_ROWS_H_
