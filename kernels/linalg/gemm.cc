#include "kernels/linalg/gemm.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "core/base/blocked_signals.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "dnnl.h"

namespace tandem {
namespace {

// What a type is computed in. Integers wrap around in unsigned arithmetic of at least 32 bits,
// since shorter ones would be promoted to int, which may not overflow. A complex number is a pair
// without the C++ standard's care for infinities, which costs a function call for each product.
template <typename F>
struct Pair {
  F re, im;
};
template <typename T>
struct Arithmetic {
  using Type = T;
};
template <>
struct Arithmetic<int16_t> {
  using Type = uint32_t;
};
template <>
struct Arithmetic<int32_t> {
  using Type = uint32_t;
};
template <>
struct Arithmetic<int64_t> {
  using Type = uint64_t;
};
template <typename F>
struct Arithmetic<std::complex<F>> {
  using Type = Pair<F>;
};

template <typename C>
inline C MultiplyAdd(C a, C b, C sum) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::fma(a, b, sum);
  } else {
    return a * b + sum;
  }
}
template <typename F>
inline Pair<F> MultiplyAdd(Pair<F> a, Pair<F> b, Pair<F> sum) {
  return {std::fma(a.re, b.re, std::fma(-a.im, b.im, sum.re)),
          std::fma(a.re, b.im, std::fma(a.im, b.re, sum.im))};
}

template <typename T>
inline typename Arithmetic<T>::Type Load(T x) {
  return static_cast<typename Arithmetic<T>::Type>(x);
}
template <typename F>
inline Pair<F> Load(std::complex<F> x) {
  return {x.real(), x.imag()};
}
template <typename T>
inline T Store(typename Arithmetic<T>::Type x) {
  if constexpr (std::is_class_v<T>) {
    return T(x.re, x.im);
  } else {
    return static_cast<T>(x);
  }
}

// A block of kRows x kColumns of c, all of whose sums fit into registers.
constexpr int kRows = 4;
constexpr int kColumns = 16;

// Sums for `rows` x `columns` elements of c, in the order of k. `columns` is kColumns or a
// variable.
template <typename T, typename Columns>
void Block(const Gemm<T>& g, const T* b, int64_t ldb, int64_t row, int64_t rows, int64_t column,
           Columns columns) {
  using C = typename Arithmetic<T>::Type;
  C sums[kRows][kColumns] = {};
  const T* a[kRows];
  const int64_t a_step = g.transpose_a ? g.lda : 1;
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = row + std::min<int64_t>(r, rows - 1);
    a[r] = g.a + (g.transpose_a ? i : i * g.lda);
  }
  for (int64_t k = 0; k < g.k; ++k) {
    const T* b_row = b + k * ldb + column;
    for (int r = 0; r < kRows; ++r) {
      C x = Load(a[r][k * a_step]);
      if constexpr (std::is_class_v<T>) x.im = g.conjugate_a ? -x.im : x.im;
      for (int j = 0; j < columns; ++j) sums[r][j] = MultiplyAdd(x, Load(b_row[j]), sums[r][j]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    T* c = g.c + (row + r) * g.ldc + column;
    for (int j = 0; j < columns; ++j) {
      if (!g.accumulate) {
        c[j] = Store<T>(sums[r][j]);
      } else if constexpr (std::is_class_v<T>) {
        c[j] = T(c[j].real() + sums[r][j].re, c[j].imag() + sums[r][j].im);
      } else {
        c[j] = Store<T>(Load(c[j]) + sums[r][j]);
      }
    }
  }
}

template <typename T>
absl::StatusOr<Tensor> Temporary(int64_t elements) {
  return Tensor::Create(DataTypeOf<T>(), Shape({elements}));
}

// A row-major, not transposed, not conjugated copy of b.
template <typename T>
absl::StatusOr<Tensor> CopyOfB(const Gemm<T>& g) {
  TANDEM_ASSIGN_OR_RETURN(Tensor copy, Temporary<T>(g.k * g.n));
  T* to = copy.MutableElements<T>().data();
  for (int64_t k = 0; k < g.k; ++k) {
    for (int64_t j = 0; j < g.n; ++j) {
      T x = g.transpose_b ? g.b[j * g.ldb + k] : g.b[k * g.ldb + j];
      if constexpr (std::is_class_v<T>) {
        if (g.conjugate_b) x = std::conj(x);
      }
      to[k * g.n + j] = x;
    }
  }
  return copy;
}

// A dense copy of a matrix of halves in float.
template <typename T>
absl::StatusOr<Tensor> InFloat(const T* from, int64_t rows, int64_t columns, int64_t stride) {
  TANDEM_ASSIGN_OR_RETURN(Tensor copy, Temporary<float>(rows * columns));
  float* to = copy.MutableElements<float>().data();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[i * columns + j] = static_cast<float>(from[i * stride + j]);
    }
  }
  return copy;
}

template <typename T>
absl::Status RunHalfGemm(const Gemm<T>& g, ParallelRunner& parallel) {
  const int64_t a_rows = g.transpose_a ? g.k : g.m;
  const int64_t a_columns = g.transpose_a ? g.m : g.k;
  const int64_t b_rows = g.transpose_b ? g.n : g.k;
  const int64_t b_columns = g.transpose_b ? g.k : g.n;
  TANDEM_ASSIGN_OR_RETURN(const Tensor a, InFloat(g.a, a_rows, a_columns, g.lda));
  TANDEM_ASSIGN_OR_RETURN(const Tensor b, InFloat(g.b, b_rows, b_columns, g.ldb));
  Tensor c;
  if (g.accumulate) {
    TANDEM_ASSIGN_OR_RETURN(c, InFloat(g.c, g.m, g.n, g.ldc));
  } else {
    TANDEM_ASSIGN_OR_RETURN(c, Temporary<float>(g.m * g.n));
  }
  Gemm<float> f;
  f.m = g.m, f.n = g.n, f.k = g.k;
  f.a = a.Elements<float>().data(), f.lda = a_columns, f.transpose_a = g.transpose_a;
  f.b = b.Elements<float>().data(), f.ldb = b_columns, f.transpose_b = g.transpose_b;
  f.c = c.MutableElements<float>().data(), f.ldc = g.n, f.accumulate = g.accumulate;
  TANDEM_RETURN_IF_ERROR(RunGemm(f, parallel));
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = T(f.c[i * g.n + j]);
  }
  return absl::OkStatus();
}

// Up to so many multiplications a call of sgemm (some 0.4 microseconds) costs more than the loop.
constexpr int64_t kSmall = 1024;

absl::Status RunFloatGemm(const Gemm<float>& g, ParallelRunner& parallel) {
  if (g.k == 0 || (g.m <= kSmall && g.n <= kSmall && g.k <= kSmall && g.m * g.n * g.k <= kSmall)) {
    return RunPlainGemm(g, parallel);
  }
  const BlockedSignals blocked;
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a,
                 g.lda, g.b, g.ldb, g.accumulate ? 1.0f : 0.0f, g.c, g.ldc);
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) {
    return errors::ResourceExhausted("no memory for a product of ", g.m, " x ", g.k, " by ", g.k,
                                     " x ", g.n);
  }
  return errors::Internal("oneDNN refused a product of ", g.m, " x ", g.k, " by ", g.k, " x ", g.n,
                          " (status ", static_cast<int>(status), ")");
}

}  // namespace

template <typename T>
absl::Status RunPlainGemm(const Gemm<T>& g, ParallelRunner& parallel) {
  if (g.m == 0 || g.n == 0) return absl::OkStatus();
  const T* b = g.b;
  int64_t ldb = g.ldb;
  Tensor copy;
  if (g.transpose_b || g.conjugate_b) {
    TANDEM_ASSIGN_OR_RETURN(copy, CopyOfB(g));
    b = copy.Elements<T>().data();
    ldb = g.n;
  }
  const int64_t row_blocks = (g.m + kRows - 1) / kRows;
  parallel.For(row_blocks, 0.3 * kRows * static_cast<double>(g.n) * static_cast<double>(g.k),
               [&](int64_t begin, int64_t end) {
                 // A panel of b, which stays in the cache, meets all rows of a.
                 for (int64_t column = 0; column < g.n; column += kColumns) {
                   const int64_t columns = std::min<int64_t>(kColumns, g.n - column);
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t row = block * kRows;
                     const int64_t rows = std::min<int64_t>(kRows, g.m - row);
                     if (columns == kColumns) {
                       Block(g, b, ldb, row, rows, column, std::integral_constant<int, kColumns>());
                     } else {
                       Block(g, b, ldb, row, rows, column, static_cast<int>(columns));
                     }
                   }
                 }
               });
  return absl::OkStatus();
}

template <typename T>
absl::Status RunGemm(const Gemm<T>& g, ParallelRunner& parallel) {
  if (g.m == 0 || g.n == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<T, float>) {
    return RunFloatGemm(g, parallel);
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return RunHalfGemm(g, parallel);
  } else {
    return RunPlainGemm(g, parallel);
  }
}

template absl::Status RunPlainGemm(const Gemm<float>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<float>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<double>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<Float16>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<Bfloat16>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<int16_t>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<int32_t>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<int64_t>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<std::complex<float>>&, ParallelRunner&);
template absl::Status RunGemm(const Gemm<std::complex<double>>&, ParallelRunner&);

}  // namespace tandem
