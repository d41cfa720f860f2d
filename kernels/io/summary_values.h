// The values that summary ops make of tensors, in the forms of TensorFlow 1. Ops that give out a
// Summary and ops that write one share them.
//
// Errors: InvalidArgument, with the tag, for tensors that a form cannot hold. Threads: any.
#ifndef TANDEM_KERNELS_IO_SUMMARY_VALUES_H_
#define TANDEM_KERNELS_IO_SUMMARY_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"
#include "proto/summary.pb.h"

namespace tandem::io {

// How the values are spread over TensorFlow's buckets (core/io/histogram.h).
absl::Status AddHistogramValue(const std::string& tag, const Tensor& values,
                               tensorflow::Summary& summary);
// Of [count, height, width, channels] the first `max_images`. `bad_color` passed CheckBadColor.
absl::Status AddImageValues(const std::string& tag, const Tensor& images, int64_t max_images,
                            const Tensor& bad_color, tensorflow::Summary& summary);
// InvalidArgument: it is no vector of bytes.
absl::Status CheckBadColor(const Tensor& bad_color);
// Of [count, frames, channels] or [count, frames], float32, the first `max_outputs`, as WAV files
// of `rate` frames a second.
absl::Status AddAudioValues(const std::string& tag, const Tensor& sounds, int64_t max_outputs,
                            float rate, tensorflow::Summary& summary);
// A whole tensor.
absl::Status SetTensorValue(const Tensor& tensor, tensorflow::Summary::Value& value);
// The metadata of a plugin of TensorBoard, from bytes.
absl::Status SetMetadata(const std::string& tag, const std::string& bytes,
                         tensorflow::Summary::Value& value);

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_SUMMARY_VALUES_H_
