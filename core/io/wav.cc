#include "core/io/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/status.h"
#include "core/io/coding.h"

namespace tandem {
namespace {

constexpr size_t kSampleBytes = sizeof(int16_t);
// Of the file before the samples, less the first eight bytes, which the file's own size leaves out.
constexpr uint32_t kHeaderBytes = 36;

void AppendFixed16(uint16_t value, std::string* to) {
  to->push_back(static_cast<char>(value & 0xff));
  to->push_back(static_cast<char>(value >> 8));
}

int16_t ToInt16(float sample) {
  if (std::isnan(sample)) return 0;
  constexpr float kScale = 1 << 15;
  constexpr float kLeast = std::numeric_limits<int16_t>::min();
  constexpr float kMost = std::numeric_limits<int16_t>::max();
  return static_cast<int16_t>(std::clamp(std::round(sample * kScale), kLeast, kMost));
}

}  // namespace

absl::StatusOr<std::string> EncodeWav(absl::Span<const float> samples, int64_t channels,
                                      int64_t rate) {
  if (rate < 1 || rate > std::numeric_limits<uint32_t>::max()) {
    return errors::InvalidArgument("a WAV file of ", rate,
                                   " frames a second; expected 1 to 2^32-1");
  }
  if (channels < 1 || channels > std::numeric_limits<uint16_t>::max()) {
    return errors::InvalidArgument("a WAV file of ", channels, " channels; expected 1 to 65535");
  }
  if (samples.size() % static_cast<size_t>(channels) != 0) {
    return errors::InvalidArgument("a WAV file of ", samples.size(), " samples for ", channels,
                                   " channels; expected whole frames");
  }
  const size_t bytes = samples.size() * kSampleBytes;
  if (bytes > std::numeric_limits<uint32_t>::max() - kHeaderBytes) {
    return errors::InvalidArgument("a WAV file of ", samples.size(),
                                   " samples; it can have 4 GiB at most");
  }
  const auto frame_bytes = static_cast<uint16_t>(channels * static_cast<int64_t>(kSampleBytes));
  std::string file;
  file.reserve(kHeaderBytes + 8 + bytes);
  file += "RIFF";
  AppendFixed32(kHeaderBytes + static_cast<uint32_t>(bytes), &file);
  file += "WAVEfmt ";
  AppendFixed32(16, &file);  // Bytes of the format.
  AppendFixed16(1, &file);   // Plain numbers.
  AppendFixed16(static_cast<uint16_t>(channels), &file);
  AppendFixed32(static_cast<uint32_t>(rate), &file);
  AppendFixed32(static_cast<uint32_t>(rate) * frame_bytes, &file);
  AppendFixed16(frame_bytes, &file);
  AppendFixed16(16, &file);  // Bits of a sample.
  file += "data";
  AppendFixed32(static_cast<uint32_t>(bytes), &file);
  for (const float sample : samples) {
    AppendFixed16(static_cast<uint16_t>(ToInt16(sample)), &file);
  }
  return file;
}

}  // namespace tandem
