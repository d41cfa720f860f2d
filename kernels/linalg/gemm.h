// Matrix products on the CPU, for every type that a kernel wants one of.
//
// float32 goes to oneDNN's sgemm. The other types, and products too small to be worth a call, go to
// a plain loop. float16 and bfloat16 are computed in float and rounded once.
//
// Results   They depend on the values and sizes alone, not on addresses. The plain loop adds in the
//           order of the inner index, whatever the number of threads; sgemm may cut a long inner
//           dimension by its number of threads, so with several threads its last bits may depend on
//           how many there are.
// Integers  Overflow wraps around.
// Threads   Any. The loops of one product are spread over those of `parallel`; sgemm takes those
//           that OpenMP grants the calling thread.
#ifndef TANDEM_KERNELS_LINALG_GEMM_H_
#define TANDEM_KERNELS_LINALG_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/kernel/parallel.h"

namespace tandem {

// c = op(a) op(b), or c += op(a) op(b), where op(a) is m x k, op(b) is k x n and c is m x n.
//
// All are row-major; a row of a matrix as it is stored begins `lda` (`ldb`, `ldc`) elements after
// the row before. A transposed matrix is stored as k x m (n x k). `conjugate` is for complex types.
// REQUIRES: c overlaps neither a nor b.
template <typename T>
struct Gemm {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  bool conjugate_a = false;
  const T* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  bool conjugate_b = false;
  T* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};

// ResourceExhausted when there is no memory for a temporary copy.
// For float, double, Float16, Bfloat16, int16_t, int32_t, int64_t and complex numbers of both
// sizes.
template <typename T>
absl::Status RunGemm(const Gemm<T>& gemm, ParallelRunner& parallel);

// The plain loop, also for float: what tests compare with.
template <typename T>
absl::Status RunPlainGemm(const Gemm<T>& gemm, ParallelRunner& parallel);

}  // namespace tandem

#endif  // TANDEM_KERNELS_LINALG_GEMM_H_
