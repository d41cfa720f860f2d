// WAV files: sound as 16-bit numbers without compression.
#ifndef TANDEM_CORE_IO_WAV_H_
#define TANDEM_CORE_IO_WAV_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

// The file of `samples`, whose full scale is [-1, 1] (what lies beyond is cut off, NaN is silence):
// frame after frame, each with a sample of every channel. `rate` in frames a second.
// InvalidArgument: numbers that no such file can have (more than 65,535 channels, than
// 2^32 - 1 frames a second, or than 4 GiB), or samples that are no whole frames. Threads: any.
absl::StatusOr<std::string> EncodeWav(absl::Span<const float> samples, int64_t channels,
                                      int64_t rate);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_WAV_H_
