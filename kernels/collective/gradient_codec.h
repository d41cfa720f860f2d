// GradientCodec: gradients in fewer bytes, for slow networks. What a form loses is not lost: it is
// kept by whoever sends, and added to the next gradient (error feedback: Seide and others 2014,
// Karimireddy and others 2019).
//
//   float16, bfloat16   half the bytes
//   2bit                a sixteenth: each element is -s, 0 or s, for one s a gradient, the mean
//                       magnitude of those that are not 0 (as in ternary weights: Li and Liu 2016).
//                       Those are 0 whose magnitude is at most 1.25 times the root of the mean
//                       square, or half the largest, whichever is less: of thresholds that were
//                       tried the one that keeps residuals smallest
//   topk:PART           8 bytes for each of the PART of the elements that are largest in magnitude;
//                       the others are 0 (Lin and others 2017)
//
// A gradient with an element that is not finite is one that is NaN everywhere, so that it is
// noticed; nothing of it is kept.
//
// Threads: any.
#ifndef TANDEM_KERNELS_COLLECTIVE_GRADIENT_CODEC_H_
#define TANDEM_KERNELS_COLLECTIVE_GRADIENT_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

class GradientCodec {
 public:
  // InvalidArgument: there is none of that name; lists them.
  static absl::StatusOr<GradientCodec> Parse(absl::string_view name);

  // Of a gradient of so many elements; below 2^32.
  int64_t PayloadBytes(int64_t elements) const;
  // Encodes gradient + residual. `residual`, of equal size, becomes what of that is not in the
  // payload. REQUIRES: `payload` has PayloadBytes.
  void Encode(absl::Span<const float> gradient, absl::Span<float> residual,
              absl::Span<char> payload) const;
  // Adds what was encoded to `sum`. InvalidArgument: the payload is not one of so many elements.
  absl::Status DecodeAdd(absl::Span<const char> payload, absl::Span<float> sum) const;

 private:
  enum class Form { kFloat16, kBfloat16, kTwoBit, kTopK };

  GradientCodec(Form form, double part) : form_(form), part_(part) {}

  int64_t Kept(int64_t elements) const;  // By kTopK.
  void EncodeTwoBit(absl::Span<float> values, absl::Span<char> payload) const;
  void EncodeTopK(absl::Span<float> values, absl::Span<char> payload) const;
  absl::Status DecodeTopK(absl::Span<const char> payload, absl::Span<float> sum) const;

  const Form form_;
  const double part_;
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_COLLECTIVE_GRADIENT_CODEC_H_
