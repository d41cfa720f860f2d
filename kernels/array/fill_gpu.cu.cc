// The code of fill_gpu.cc: elements by their size alone.
#include "core/kernel/gpu_code.h"

#define TANDEM_GPU_FILL(size, Type)                                          \
  /* Every element what `value`, on the device, is. */                       \
  TANDEM_GPU_THREADS(Fill_##size, const void* value, void* y, int64_t n) {   \
    const Type element = *static_cast<const Type*>(value);                   \
    TANDEM_GPU_FOR(i, n) static_cast<Type*>(y)[i] = element;                 \
  }                                                                          \
  /* Every element the low bits of `bits`. */                                \
  TANDEM_GPU_THREADS(FillBits_##size, uint64_t bits, void* y, int64_t n) {   \
    TANDEM_GPU_FOR(i, n) static_cast<Type*>(y)[i] = static_cast<Type>(bits); \
  }

TANDEM_GPU_FILL(1, uint8_t)
TANDEM_GPU_FILL(2, uint16_t)
TANDEM_GPU_FILL(4, uint32_t)
TANDEM_GPU_FILL(8, uint64_t)
