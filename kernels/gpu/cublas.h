// cuBLAS, opened when the first product on a GPU is computed, and products by it.
#ifndef TANDEM_KERNELS_GPU_CUBLAS_H_
#define TANDEM_KERNELS_GPU_CUBLAS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernel/gpu.h"
#include "core/tensor/dtype.h"

namespace tandem {

namespace cublas {

// The library's binary interface, as far as it is used.
using Handle = struct cublasContext*;
using Status = int;

inline constexpr Status kSuccess = 0;
inline constexpr int kPlain = 0;  // CUBLAS_OP_N
inline constexpr int kTransposed = 1;
inline constexpr int kFloat32 = 0;  // CUDA_R_32F
inline constexpr int kFloat64 = 1;
inline constexpr int kFloat16 = 2;
inline constexpr int kBfloat16 = 14;
inline constexpr int kComputeFloat32 = 68;  // CUBLAS_COMPUTE_32F
inline constexpr int kComputeFloat64 = 70;
inline constexpr int kDefaultAlgorithm = -1;

struct Calls {
  Status (*cublasCreate_v2)(Handle* handle) = nullptr;
  Status (*cublasDestroy_v2)(Handle handle) = nullptr;
  Status (*cublasSetStream_v2)(Handle handle, void* stream) = nullptr;
  // Column-major: c = alpha op(a) op(b) + beta c, for `batch` products at these distances.
  Status (*cublasGemmStridedBatchedEx)(Handle handle, int op_a, int op_b, int m, int n, int k,
                                       const void* alpha, const void* a, int type_a, int lda,
                                       long long stride_a,  // NOLINT: the library's own type.
                                       const void* b, int type_b, int ldb,
                                       long long stride_b,  // NOLINT
                                       const void* beta, void* c, int type_c, int ldc,
                                       long long stride_c,  // NOLINT
                                       int batch, int compute_type, int algorithm) = nullptr;
};

}  // namespace cublas

// Other calls than the library's own. For tests; REQUIRES: no product was computed yet.
void SetCublas(const cublas::Calls* calls);

// Row-major matrices, one after the other: `batch` products op(a) op(b), m x k by k x n. `a` is
// m x k in memory, or k x m if it is transposed; `b` alike. A stride of 0 uses one matrix for all.
struct GpuGemm {
  DataType dtype = kFloat32;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  const void* a = nullptr;
  const void* b = nullptr;
  void* product = nullptr;
  bool transpose_a = false, transpose_b = false;
  int64_t stride_a = 0, stride_b = 0;  // Elements, from one matrix to the next.
};

// Which dtypes there are products for: float32, float64, float16, bfloat16. Halves are summed in
// float.
bool HasGpuGemm(DataType dtype);

// Puts the products on the queue. Unavailable: cuBLAS cannot be opened. Unimplemented: a size
// beyond the library's 32 bits.
absl::Status RunGpuGemm(GpuQueue& queue, const GpuGemm& gemm);

}  // namespace tandem

#endif  // TANDEM_KERNELS_GPU_CUBLAS_H_
