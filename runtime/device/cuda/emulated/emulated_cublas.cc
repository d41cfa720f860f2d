#include "runtime/device/cuda/emulated/emulated_cublas.h"

#include <algorithm>
#include <cstdint>

#include "core/tensor/float16.h"
#include "runtime/device/cuda/gpu_device.h"

namespace tandem {
namespace {

constexpr cublas::Status kInvalidValue = 7;
constexpr cublas::Status kNotSupported = 15;
constexpr cublas::Status kExecutionFailed = 13;

struct State {
  void* stream = nullptr;
};
State& StateOf(cublas::Handle handle) { return *reinterpret_cast<State*>(handle); }

cublas::Status Create(cublas::Handle* handle) {
  *handle = reinterpret_cast<cublas::Handle>(new State());
  return cublas::kSuccess;
}
cublas::Status Destroy(cublas::Handle handle) {
  delete &StateOf(handle);
  return cublas::kSuccess;
}
cublas::Status SetStream(cublas::Handle handle, void* stream) {
  StateOf(handle).stream = stream;
  return cublas::kSuccess;
}

// A column-major matrix of `rows` and columns, read through op.
template <typename T>
struct Matrix {
  const T* data;
  int ld;
  bool transposed;
  double At(int64_t row, int64_t column) const {
    const int64_t index = transposed ? column + row * ld : row + column * ld;
    if constexpr (sizeof(T) == 2) {
      return static_cast<float>(data[index]);
    } else {
      return data[index];
    }
  }
};

template <typename T>
void Multiply(const Matrix<T>& a, const Matrix<T>& b, T* c, int ldc, int m, int n, int k) {
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t row = 0; row < m; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += a.At(row, i) * b.At(i, column);
      c[row + column * ldc] = T(sum);
    }
  }
}

template <typename T>
cublas::Status Run(cublas::Handle handle, int op_a, int op_b, int m, int n, int k, const void* a,
                   int lda, int64_t stride_a, const void* b, int ldb, int64_t stride_b, void* c,
                   int ldc, int64_t stride_c, int batch) {
  const auto inside = [](const void* address) {
    return EmulatedAddress(const_cast<void*>(address));
  };
  const absl::Status status = RunOnEmulatedStream(StateOf(handle).stream, [=] {
    const auto* const from_a = static_cast<const T*>(inside(a));
    const auto* const from_b = static_cast<const T*>(inside(b));
    auto* const to = static_cast<T*>(inside(c));
    for (int64_t i = 0; i < batch; ++i) {
      Multiply<T>({from_a + i * stride_a, lda, op_a == cublas::kTransposed},
                  {from_b + i * stride_b, ldb, op_b == cublas::kTransposed}, to + i * stride_c, ldc,
                  m, n, k);
    }
  });
  return status.ok() ? cublas::kSuccess : kExecutionFailed;
}

// NOLINTBEGIN(google-runtime-int): the library's own types.
cublas::Status Gemm(cublas::Handle handle, int op_a, int op_b, int m, int n, int k,
                    const void* alpha, const void* a, int type_a, int lda, long long stride_a,
                    const void* b, int type_b, int ldb, long long stride_b, const void* beta,
                    void* c, int type_c, int ldc, long long stride_c, int batch, int compute_type,
                    int) {
  // NOLINTEND(google-runtime-int)
  const bool in_double = compute_type == cublas::kComputeFloat64;
  const double factor = in_double ? *static_cast<const double*>(alpha)
                                  : static_cast<double>(*static_cast<const float*>(alpha));
  const double kept = in_double ? *static_cast<const double*>(beta)
                                : static_cast<double>(*static_cast<const float*>(beta));
  if (type_a != type_b || type_a != type_c || in_double != (type_a == cublas::kFloat64) ||
      factor != 1 || kept != 0) {
    return kNotSupported;
  }
  const int rows_a = op_a == cublas::kTransposed ? k : m;
  const int rows_b = op_b == cublas::kTransposed ? n : k;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < std::max(1, rows_a) ||
      ldb < std::max(1, rows_b) || ldc < std::max(1, m)) {
    return kInvalidValue;
  }
  const auto run = [&](auto type) {
    return Run<decltype(type)>(handle, op_a, op_b, m, n, k, a, lda, stride_a, b, ldb, stride_b, c,
                               ldc, stride_c, batch);
  };
  switch (type_a) {
    case cublas::kFloat32:
      return run(float());
    case cublas::kFloat64:
      return run(double());
    case cublas::kFloat16:
      return run(Float16());
    case cublas::kBfloat16:
      return run(Bfloat16());
    default:
      return kNotSupported;
  }
}

}  // namespace

const cublas::Calls& EmulatedCublas() {
  static const cublas::Calls calls = {Create, Destroy, SetStream, Gemm};
  return calls;
}

EmulatedGpuPlatform& UseEmulatedGpus(int devices) {
  auto* const platform = new EmulatedGpuPlatform({.devices = devices});
  SetGpuPlatform(platform);
  SetCublas(&EmulatedCublas());
  return *platform;
}

}  // namespace tandem
