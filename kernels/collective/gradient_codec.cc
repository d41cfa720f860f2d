#include "kernels/collective/gradient_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/tensor/float16.h"

namespace tandem {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kZeroBelow = 1.25;  // Of the root of the mean square.

// The two bits of an element.
constexpr int kZero = 0;
constexpr int kPlus = 1;
constexpr int kMinus = 2;

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename T>
void Store(T value, char* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Elements as they are, in a shorter type. `values` become what that loses.
template <typename Short>
void EncodeShort(absl::Span<float> values, absl::Span<char> payload) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Short rounded(values[i]);
    Store(rounded, payload.data() + i * sizeof(Short));
    // A value beyond the type's range stays one, and is noticed.
    const float rest = values[i] - static_cast<float>(rounded);
    values[i] = std::isfinite(rest) ? rest : 0;
  }
}

template <typename Short>
void DecodeShort(absl::Span<const char> payload, absl::Span<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += static_cast<float>(Load<Short>(payload.data() + i * sizeof(Short)));
  }
}

bool AreFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Several sums, so that neither the processor waits for each addition nor the rounding grows with
// the number of elements.
double SumOfSquares(absl::Span<const float> values) {
  double sums[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i % 4] += static_cast<double>(values[i]) * values[i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

float LargestMagnitude(absl::Span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace

absl::StatusOr<GradientCodec> GradientCodec::Parse(absl::string_view name) {
  if (name == "float16") return GradientCodec(Form::kFloat16, 0);
  if (name == "bfloat16") return GradientCodec(Form::kBfloat16, 0);
  if (name == "2bit") return GradientCodec(Form::kTwoBit, 0);
  absl::string_view part = name;
  double value = 0;
  if (absl::ConsumePrefix(&part, "topk:") && absl::SimpleAtod(part, &value) && value > 0 &&
      value <= 1) {
    return GradientCodec(Form::kTopK, value);
  }
  return errors::InvalidArgument(
      "there is no form '", name,
      "' for gradients; there are float16, bfloat16, 2bit, and topk:PART "
      "with a PART above 0 and up to 1, as topk:0.01");
}

int64_t GradientCodec::Kept(int64_t elements) const {
  const auto kept = static_cast<int64_t>(std::ceil(part_ * static_cast<double>(elements)));
  return std::min(elements, kept);
}

int64_t GradientCodec::PayloadBytes(int64_t elements) const {
  switch (form_) {
    case Form::kFloat16:
    case Form::kBfloat16:
      return 2 * elements;
    case Form::kTwoBit:
      return static_cast<int64_t>(sizeof(float)) + (elements + 3) / 4;
    case Form::kTopK:
      break;
  }
  return Kept(elements) * static_cast<int64_t>(sizeof(uint32_t) + sizeof(float));
}

void GradientCodec::Encode(absl::Span<const float> gradient, absl::Span<float> residual,
                           absl::Span<char> payload) const {
  for (size_t i = 0; i < gradient.size(); ++i) residual[i] += gradient[i];
  if (!AreFinite(residual)) std::fill(residual.begin(), residual.end(), kNan);
  switch (form_) {
    case Form::kFloat16:
      return EncodeShort<Float16>(residual, payload);
    case Form::kBfloat16:
      return EncodeShort<Bfloat16>(residual, payload);
    case Form::kTwoBit:
      return EncodeTwoBit(residual, payload);
    case Form::kTopK:
      break;
  }
  EncodeTopK(residual, payload);
}

absl::Status GradientCodec::DecodeAdd(absl::Span<const char> payload, absl::Span<float> sum) const {
  const int64_t wanted = PayloadBytes(static_cast<int64_t>(sum.size()));
  if (static_cast<int64_t>(payload.size()) != wanted) {
    return errors::InvalidArgument("a gradient of ", sum.size(), " elements came in ",
                                   payload.size(), " bytes; it takes ", wanted);
  }
  switch (form_) {
    case Form::kFloat16:
      DecodeShort<Float16>(payload, sum);
      return absl::OkStatus();
    case Form::kBfloat16:
      DecodeShort<Bfloat16>(payload, sum);
      return absl::OkStatus();
    case Form::kTwoBit: {
      const float scale = Load<float>(payload.data());
      const float value_of[4] = {0 * scale, scale, -scale, 0 * scale};
      for (size_t i = 0; i < sum.size(); ++i) {
        const auto byte = static_cast<unsigned char>(payload[sizeof(float) + i / 4]);
        sum[i] += value_of[(byte >> (2 * (i % 4))) & 3];
      }
      return absl::OkStatus();
    }
    case Form::kTopK:
      break;
  }
  return DecodeTopK(payload, sum);
}

void GradientCodec::EncodeTwoBit(absl::Span<float> values, absl::Span<char> payload) const {
  const bool is_finite = values.empty() || !std::isnan(values[0]);
  const double mean_square =
      SumOfSquares(values) / static_cast<double>(std::max<size_t>(1, values.size()));
  const auto limit = static_cast<float>(
      std::min(kZeroBelow * std::sqrt(mean_square), 0.5 * LargestMagnitude(values)));
  double sum = 0;
  int64_t count = 0;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    if (magnitude > limit) {
      sum += magnitude;
      ++count;
    }
  }
  const float scale = !is_finite   ? kNan
                      : count == 0 ? 0
                                   : static_cast<float>(sum / static_cast<double>(count));
  Store(scale, payload.data());
  std::fill(payload.begin() + sizeof(float), payload.end(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const int bits = values[i] > limit ? kPlus : values[i] < -limit ? kMinus : kZero;
    char& byte = payload[sizeof(float) + i / 4];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (bits << (2 * (i % 4))));
    values[i] -= bits == kPlus ? scale : bits == kMinus ? -scale : 0;
  }
  if (!is_finite) std::fill(values.begin(), values.end(), 0);
}

void GradientCodec::EncodeTopK(absl::Span<float> values, absl::Span<char> payload) const {
  const auto kept = static_cast<size_t>(Kept(static_cast<int64_t>(values.size())));
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const bool is_finite = values.empty() || !std::isnan(values[0]);
  if (is_finite && kept < order.size()) {
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                     [&values](uint32_t a, uint32_t b) {
                       const float x = std::fabs(values[a]);
                       const float y = std::fabs(values[b]);
                       return x > y || (x == y && a < b);
                     });
  }
  order.resize(kept);
  std::sort(order.begin(), order.end());
  char* to = payload.data();
  for (const uint32_t index : order) {
    Store(index, to);
    Store(values[index], to + sizeof(uint32_t));
    to += sizeof(uint32_t) + sizeof(float);
    values[index] = 0;
  }
  if (!is_finite) std::fill(values.begin(), values.end(), 0);
}

absl::Status GradientCodec::DecodeTopK(absl::Span<const char> payload,
                                       absl::Span<float> sum) const {
  constexpr size_t kEntry = sizeof(uint32_t) + sizeof(float);
  for (size_t at = 0; at < payload.size(); at += kEntry) {
    const auto index = Load<uint32_t>(payload.data() + at);
    if (index >= sum.size()) {
      return errors::InvalidArgument("a gradient of ", sum.size(), " elements came with element ",
                                     index);
    }
  }
  for (size_t at = 0; at < payload.size(); at += kEntry) {
    const auto value = Load<float>(payload.data() + at + sizeof(uint32_t));
    // Only some of the elements travel, but all are.
    if (std::isnan(value)) std::fill(sum.begin(), sum.end(), kNan);
    sum[Load<uint32_t>(payload.data() + at)] += value;
  }
  return absl::OkStatus();
}

}  // namespace tandem
