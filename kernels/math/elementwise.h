// The kernels behind all elementwise ops of one and two inputs.
//
// An op brings, for each type, one loop over contiguous memory (math/loops.h makes them from a
// formula). The kernels here do the rest once for all: broadcasting, reuse of an input's memory,
// threads. float16 and bfloat16 need no loop of their own: blocks are converted to float, computed
// there and rounded once (HalfUnary, HalfBinary in math/loops.h).
#ifndef TANDEM_KERNELS_MATH_ELEMENTWISE_H_
#define TANDEM_KERNELS_MATH_ELEMENTWISE_H_

#include <cstdint>
#include <vector>

#include "core/op/op_def.h"
#include "core/op/shape_context.h"
#include "core/tensor/dtype.h"

namespace tandem::math {

// y[i] = f(x[i]) for i < n. y may be x's memory.
using UnaryLoop = void (*)(const void* x, void* y, int64_t n);
// z[i] = f(x[i], y[i]) for i < n. z may be x's or y's memory. False: an element has no answer (an
// integer was divided by zero, say); z then holds anything there.
using BinaryLoop = bool (*)(const void* x, const void* y, void* z, int64_t n);

struct TypedUnaryLoop {
  DataType type;
  UnaryLoop loop;
};
struct TypedBinaryLoop {
  DataType type;
  BinaryLoop loop;
};

// What an element costs on one core in nanoseconds, for the split over threads.
inline constexpr double kCheap = 0.4;  // An instruction or a few; bound by memory.
inline constexpr double kDivision = 1.0;
inline constexpr double kFunction = 2.0;  // exp and its kin, in vector instructions.
inline constexpr double kScalarFunction = 15.0;

// A kernel of one input. `type_attr` is the attribute that picks the loop.
KernelDef UnaryKernel(std::vector<TypedUnaryLoop> loops, double cost, const char* type_attr = "T");

// The same for an op without a type attribute.
KernelDef UnaryFunctionKernel(DataType type, UnaryLoop loop, double cost);
KernelDef BinaryFunctionKernel(DataType type, BinaryLoop loop, double cost);

// A kernel of two inputs that broadcast. `what_failed` is the message when a loop returns false.
KernelDef BinaryKernel(std::vector<TypedBinaryLoop> loops, double cost,
                       const char* what_failed = "");
// The same for two inputs that must have the same shape, as gradients from (y, dy) have.
KernelDef SameShapeKernel(std::vector<TypedBinaryLoop> loops, double cost);
// Equal and NotEqual: with incompatible_shape_error=false, shapes that do not broadcast give one
// answer, `when_incompatible`.
KernelDef EqualityKernel(std::vector<TypedBinaryLoop> loops, bool when_incompatible);

// The lists of several types, one after the other.
template <typename T>
std::vector<T> Join(std::vector<std::vector<T>> lists) {
  std::vector<T> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_ELEMENTWISE_H_
