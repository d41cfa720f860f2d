// The kernel behind all reductions to the same type (Sum, Mean, Prod, Max, Min, All, Any, L2Loss).
//
// An op brings, for each type, the three loops of a Reducer (math/reduce_loops.h makes them from a
// formula). The kernel knows the geometry: it walks the input in the order of memory, adds whole
// rows to an array of accumulators when the innermost dimension is kept, and folds a row with
// vector lanes when it goes.
//
// The result is the same for any number of threads: how the input is cut into pieces depends on
// shapes alone, each piece leaves its partial result in a place of its own, and these are folded
// along a fixed tree. Since a piece is short, float sums are also exact to a few units in the last
// place, where one long chain of additions would not be.
#ifndef TANDEM_KERNELS_MATH_REDUCE_H_
#define TANDEM_KERNELS_MATH_REDUCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/kernel/kernel.h"
#include "core/op/op_def.h"
#include "core/op/shape_context.h"
#include "kernels/common/reduction.h"

namespace tandem::math {

struct Reducer {
  DataType type;         // Of input and output.
  DataType accumulator;  // float32 for the half types, else `type`.

  // acc[i] = neutral element, for i < n.
  void (*clear)(void* acc, int64_t n);
  // acc[i] = acc[i] op x[i].
  void (*accumulate)(void* acc, const void* x, int64_t n);
  // *acc = *acc op x[0] op … op x[n - 1].
  void (*run)(void* acc, const void* x, int64_t n);
  // acc[i] = acc[i] op other[i], both accumulators.
  void (*combine)(void* acc, const void* other, int64_t n);
  // y[i] = the result of acc[i], to which `count` elements went. y may be acc.
  void (*finish)(const void* acc, void* y, int64_t n, int64_t count);
};

// Reduces x into y, whose memory holds the geometry's output.
absl::Status Reduce(KernelContext& c, const Reducer& reducer, const ReductionGeometry& geometry,
                    const void* x, void* y);

// A kernel with inputs (input, reduction_indices) and the attribute keep_dims.
KernelDef ReductionKernel(std::vector<Reducer> reducers, const char* type_attr = "T");

// An op (input, reduction_indices) → output with this kernel.
OpDefBuilder ReductionOp(const char* name, const char* attrs, GradientFunction gradient,
                         std::vector<Reducer> reducers);

// What the output's shape is, as far as axes and input are known.
absl::Status ReductionShape(ShapeContext& c);

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_REDUCE_H_
