// From random bits to numbers of a distribution, with TensorFlow's results, bit for bit where no
// function of the C library is involved.
//
// Most distributions make a fixed number of outputs from each block of four words, so output i
// depends on block i / outputs_per_block alone. The truncated normal one draws until it has enough:
// each group of outputs has a stretch of the stream of its own.
#ifndef TANDEM_KERNELS_RANDOM_DISTRIBUTIONS_H_
#define TANDEM_KERNELS_RANDOM_DISTRIBUTIONS_H_

#include <cstdint>

#include "core/kernel/parallel.h"
#include "core/tensor/dtype.h"
#include "kernels/random/philox.h"

namespace tandem::random {

// `count` numbers of a type into `to`, on as many threads as are worth it; the same numbers for any
// number of threads.

// Uniform on [0, 1). REQUIRES: float16, bfloat16, float32 or float64.
void FillUniform(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                 int64_t count);
// Normal with mean 0 and deviation 1 (Box and Muller's transform). REQUIRES: as above.
void FillNormal(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                int64_t count);
// The same, without values at or beyond 2 in magnitude. REQUIRES: as above.
void FillTruncatedNormal(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                         int64_t count);
// Integers on [low, high), as near to uniform as a remainder of 32 or 64 bits is. REQUIRES: int32
// or int64, low < high, both within the type.
void FillUniformInt(ParallelRunner& parallel, const Philox& from, DataType dtype, int64_t low,
                    int64_t high, void* to, int64_t count);

// On [0, 1), from two words.
double UniformDouble(uint32_t high, uint32_t low);

// How many blocks a stateful op moves on for `outputs` outputs, whatever the distribution: enough
// for those that draw more than they use.
uint64_t ReservedBlocks(int64_t outputs);

}  // namespace tandem::random

#endif  // TANDEM_KERNELS_RANDOM_DISTRIBUTIONS_H_
