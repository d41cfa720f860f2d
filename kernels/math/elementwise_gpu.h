// The launches behind all elementwise kernels for GPUs; the twin of elementwise.h.
//
// An op brings, for each type, the name of a function of its GPU code, which loops over elements
// and, for two inputs, over strides. The kernels here do shapes, broadcasting and memory.
#ifndef TANDEM_KERNELS_MATH_ELEMENTWISE_GPU_H_
#define TANDEM_KERNELS_MATH_ELEMENTWISE_GPU_H_

#include <string>
#include <vector>

#include "core/kernel/gpu.h"
#include "core/op/op_def.h"
#include "core/tensor/dtype.h"

namespace tandem::math {

// (x, y, n): y[i] = f(x[i]).
using GpuUnaryFunction = GpuFunction<const void*, void*, int64_t>;

// (x, y, z, n, d1, d2, d3, x0 … x3, y0 … y3): element (i0, i1, i2, i3) of z, of the sizes
// (…, d1, d2, d3), is f of the elements of x and y at the sums of i times their strides.
using GpuBinaryFunction =
    GpuFunction<const void*, const void*, void*, int64_t, int64_t, int64_t, int64_t, int64_t,
                int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

// What kernels for GPUs compute with: as TANDEM_GPU_FLOATS and TANDEM_GPU_NUMBERS (loops_gpu.h).
inline const std::vector<DataType> kGpuFloats = {kFloat32, kFloat64, kFloat16, kBfloat16};
inline const std::vector<DataType> kGpuNumbers = {kFloat32,  kFloat64, kFloat16,
                                                  kBfloat16, kInt32,   kInt64};

// Names of functions follow from the op's and the type's: "Neg_float32".

// A kernel of one input.
KernelDef GpuUnaryKernel(const GpuCode& code, const std::string& name, std::vector<DataType> types);
// A kernel of two inputs that broadcast; or, with `same_shape`, that must have the same shape, as
// gradients from (y, dy) have.
KernelDef GpuBinaryKernel(const GpuCode& code, const std::string& name, std::vector<DataType> types,
                          bool same_shape = false);

// Equal and NotEqual: as EqualityKernel.
KernelDef GpuEqualityKernel(const GpuCode& code, const std::string& name,
                            std::vector<DataType> types, bool when_incompatible);

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_ELEMENTWISE_GPU_H_
