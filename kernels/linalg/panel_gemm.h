// Products of few rows by the same float32 matrix, again and again: it is packed once, where
// oneDNN's sgemm would pack it in each call. With 8 to 32 rows that is 1.1 to 1.5 times as quick.
//
//   const Panels panels(b, ldb, /*transposed=*/false, k, n);
//   MultiplyPanels(a, lda, m, panels, c, ldc, /*accumulate=*/false);
//
// Results   Each element is the sum over k in order, fused multiply-adds throughout, cut into
// pieces
//           of kDepth; whatever the number of threads and rows.
// Source    The scheme of packed panels and register tiles is that of Goto and van de Geijn,
// "Anatomy
//           of High-Performance Matrix Multiplication" (2008).
#ifndef TANDEM_KERNELS_LINALG_PANEL_GEMM_H_
#define TANDEM_KERNELS_LINALG_PANEL_GEMM_H_

#include <cstdint>
#include <memory>

namespace tandem {

// Columns of a panel, and rows of a tile of the result that is held in registers: 12 of the 16
// registers of AVX2.
inline constexpr int kPanelColumns = 16;
inline constexpr int kTileRows = 6;
// Of the inner dimension, how much is multiplied before the result is read and written again.
inline constexpr int64_t kDepth = 256;

// A matrix [k, n], cut into panels of kPanelColumns columns; the rows of a panel follow each other.
class Panels {
 public:
  // `transposed`: b is stored as [n, k].
  Panels(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n);

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  const float* panel(int64_t i) const { return data_.get() + i * k_ * kPanelColumns; }

 private:
  const int64_t k_;
  const int64_t n_;
  const std::unique_ptr<float[]> data_;
};

// c [m, n] = a [m, k] b, or c += a b, all row-major, on this thread. REQUIRES: b.k() > 0.
void MultiplyPanels(const float* a, int64_t lda, int64_t m, const Panels& b, float* c, int64_t ldc,
                    bool accumulate);

}  // namespace tandem

#endif  // TANDEM_KERNELS_LINALG_PANEL_GEMM_H_
