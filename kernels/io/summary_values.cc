#include "kernels/io/summary_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/histogram.h"
#include "core/io/wav.h"
#include "core/tensor/tensor_proto.h"

namespace tandem::io {

absl::Status AddHistogramValue(const std::string& tag, const Tensor& values,
                               tensorflow::Summary& summary) {
  Histogram histogram;
  const absl::Status added = histogram.AddTensor(values);
  if (!added.ok()) return WithContext(added, absl::StrCat("histogram '", tag, "'"));
  tensorflow::Summary::Value& value = *summary.add_value();
  value.set_tag(tag);
  histogram.ToProto(value.mutable_histo());
  return absl::OkStatus();
}

absl::Status AddAudioValues(const std::string& tag, const Tensor& sounds, int64_t max_outputs,
                            float rate, tensorflow::Summary& summary) {
  const Shape& shape = sounds.shape();
  if (shape.rank() != 2 && shape.rank() != 3) {
    return errors::InvalidArgument("sounds '", tag, "' have the shape ", shape.DebugString(),
                                   "; expected [count, frames, channels] or [count, frames]");
  }
  const int64_t frames = shape.dim(1);
  const int64_t channels = shape.rank() == 3 ? shape.dim(2) : 1;
  if (!(rate > 0 && rate < 4294967296.f)) {
    return errors::InvalidArgument("sounds '", tag, "' have ", rate,
                                   " frames a second; expected a number above 0 and below 2^32");
  }
  const int64_t file_rate = std::max<int64_t>(std::lrint(rate), 1);  // Files have whole numbers.
  const int64_t count = std::min(max_outputs, shape.dim(0));
  const auto size = static_cast<size_t>(frames * channels);
  for (int64_t i = 0; i < count; ++i) {
    tensorflow::Summary::Value& value = *summary.add_value();
    value.set_tag(max_outputs == 1 ? absl::StrCat(tag, "/audio") : absl::StrCat(tag, "/audio/", i));
    absl::StatusOr<std::string> wav = EncodeWav(
        sounds.Elements<float>().subspan(static_cast<size_t>(i) * size, size), channels, file_rate);
    if (!wav.ok()) return WithContext(wav.status(), absl::StrCat("sounds '", tag, "'"));
    tensorflow::Summary::Audio& audio = *value.mutable_audio();
    audio.set_sample_rate(rate);
    audio.set_num_channels(channels);
    audio.set_length_frames(frames);
    audio.set_content_type("audio/wav");
    audio.set_encoded_audio_string(*std::move(wav));
  }
  return absl::OkStatus();
}

absl::Status SetTensorValue(const Tensor& tensor, tensorflow::Summary::Value& value) {
  // Readers take strings from lists only.
  return TensorToProto(
      tensor, value.mutable_tensor(),
      tensor.dtype() == kString ? TensorProtoForm::kLists : TensorProtoForm::kContent);
}

absl::Status SetMetadata(const std::string& tag, const std::string& bytes,
                         tensorflow::Summary::Value& value) {
  if (value.mutable_metadata()->ParseFromString(bytes)) return absl::OkStatus();
  return errors::InvalidArgument("tensor summary '", tag, "': the metadata of ", bytes.size(),
                                 " bytes is no SummaryMetadata");
}

}  // namespace tandem::io
