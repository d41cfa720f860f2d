#include "kernels/linalg/panel_gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tandem {
namespace {

constexpr int64_t kColumns = kPanelColumns;

// c [kRows, columns] (+)= a [kRows, k] panel.
template <int kRows>
void Tile(const float* a, int64_t lda, const float* panel, int64_t k, float* c, int64_t ldc,
          int64_t columns, bool accumulate) {
  // All loops over rows are unrolled, so that the sums live in registers.
  __m256 first[kRows];
  __m256 second[kRows];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) first[r] = second[r] = _mm256_setzero_ps();
  for (int64_t p = 0; p < k; ++p) {
    const __m256 x = _mm256_loadu_ps(panel);
    const __m256 y = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256 value = _mm256_broadcast_ss(a + r * lda);
      first[r] = _mm256_fmadd_ps(value, x, first[r]);
      second[r] = _mm256_fmadd_ps(value, y, second[r]);
    }
    panel += kColumns;
    ++a;
  }
  if (columns == kColumns) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      float* const to = c + r * ldc;
      if (accumulate) {
        first[r] = _mm256_add_ps(first[r], _mm256_loadu_ps(to));
        second[r] = _mm256_add_ps(second[r], _mm256_loadu_ps(to + 8));
      }
      _mm256_storeu_ps(to, first[r]);
      _mm256_storeu_ps(to + 8, second[r]);
    }
    return;
  }
  float row[kColumns];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(row, first[r]);
    _mm256_storeu_ps(row + 8, second[r]);
    float* const to = c + r * ldc;
    for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + row[j] : row[j];
  }
}

void TileOf(int64_t rows, const float* a, int64_t lda, const float* panel, int64_t k, float* c,
            int64_t ldc, int64_t columns, bool accumulate) {
  constexpr decltype(&Tile<1>) kTiles[kTileRows] = {Tile<1>, Tile<2>, Tile<3>,
                                                    Tile<4>, Tile<5>, Tile<6>};
  kTiles[rows - 1](a, lda, panel, k, c, ldc, columns, accumulate);
}

int64_t PanelsOf(int64_t n) { return (n + kColumns - 1) / kColumns; }

// Rows [0, k) of columns [0, n) of b into panels.
void Pack(const float* b, int64_t ldb, int64_t k, int64_t n, float* to) {
  for (int64_t i = 0; i < PanelsOf(n); ++i) {
    const float* const from = b + i * kColumns;
    const int64_t columns = std::min(kColumns, n - i * kColumns);
    for (int64_t p = 0; p < k; ++p, to += kColumns) {
      if (columns == kColumns) {
        _mm256_storeu_ps(to, _mm256_loadu_ps(from + p * ldb));
        _mm256_storeu_ps(to + 8, _mm256_loadu_ps(from + p * ldb + 8));
      } else {
        std::memcpy(to, from + p * ldb, static_cast<size_t>(columns) * sizeof(float));
        std::fill(to + columns, to + kColumns, 0.0f);
      }
    }
  }
}

}  // namespace

Panels::Panels(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n)
    : k_(k), n_(n), data_(new float[static_cast<size_t>(PanelsOf(n) * k * kColumns)]) {
  if (!transposed) {
    Pack(b, ldb, k, n, data_.get());
    return;
  }
  float* to = data_.get();
  for (int64_t i = 0; i < PanelsOf(n); ++i, to += k * kColumns) {
    const int64_t columns = std::min(kColumns, n - i * kColumns);
    for (int64_t j = 0; j < kColumns; ++j) {
      const float* const from = b + (i * kColumns + j) * ldb;
      for (int64_t p = 0; p < k; ++p) to[p * kColumns + j] = j < columns ? from[p] : 0.0f;
    }
  }
}

void MultiplyPanels(const float* a, int64_t lda, int64_t m, const Panels& b, float* c, int64_t ldc,
                    bool accumulate) {
  if (m == 0) return;
  // Tiles of about the same height: a low one at the end would wait for its own sums.
  const int64_t tiles = (m + kTileRows - 1) / kTileRows;
  const int64_t rows = (m + tiles - 1) / tiles;
  for (int64_t depth = 0; depth < b.k() || depth == 0; depth += kDepth) {
    const int64_t k = std::min(kDepth, b.k() - depth);
    for (int64_t i = 0; i < PanelsOf(b.n()); ++i) {
      const float* const panel = b.panel(i) + depth * kColumns;
      const int64_t columns = std::min(kColumns, b.n() - i * kColumns);
      for (int64_t row = 0; row < m; row += rows) {
        TileOf(std::min(rows, m - row), a + row * lda + depth, lda, panel, k,
               c + row * ldc + i * kColumns, ldc, columns, accumulate || depth > 0);
      }
    }
  }
}

}  // namespace tandem
