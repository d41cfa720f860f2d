// The code of conformance_ops_gpu.cc.
#include "core/kernel/gpu_code.h"

TANDEM_GPU_THREADS(ConformanceAddOne, const int32_t* x, int32_t* y, int64_t n) {
  TANDEM_GPU_FOR(i, n) y[i] = static_cast<int32_t>(static_cast<uint32_t>(x[i]) + 1);
}

TANDEM_GPU_THREADS(ConformanceScale, const int32_t* x, int32_t factor, int32_t* y, int64_t n) {
  TANDEM_GPU_FOR(i, n) {
    y[i] = static_cast<int32_t>(static_cast<uint32_t>(x[i]) * static_cast<uint32_t>(factor));
  }
}

TANDEM_GPU_THREADS(ConformanceAppend, int32_t* value, int32_t added, int64_t n) {
  TANDEM_GPU_FOR(i, n) {
    value[i] =
        static_cast<int32_t>(2 * static_cast<uint32_t>(value[i]) + static_cast<uint32_t>(added));
  }
}
