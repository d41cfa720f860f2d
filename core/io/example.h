// tf.Example and tf.SequenceExample: what datasets in record files are made of. Here they are
// built; example_parser.h reads many at once into tensors.
//
//   tensorflow::Example example;
//   SetFeature("label", Int64Feature({3}), &example);
//   SetFeature("image", BytesFeature({png}), &example);
//   TANDEM_ASSIGN_OR_RETURN(std::string record, SerializeExample(example));
//
// A feature holds a list of float32, of int64 or of strings; it has no shape.
//
// Threads: all functions may be called from any thread.
#ifndef TANDEM_CORE_IO_EXAMPLE_H_
#define TANDEM_CORE_IO_EXAMPLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"
#include "proto/example.pb.h"

namespace tandem {

tensorflow::Feature FloatFeature(absl::Span<const float> values);
tensorflow::Feature Int64Feature(absl::Span<const int64_t> values);
tensorflow::Feature BytesFeature(absl::Span<const std::string> values);

// The elements of a tensor, row-major: float32, float16 and bfloat16 as float32; bools and integers
// as int64; strings. InvalidArgument: another type, since its values would not all survive, and a
// uint64 above the largest int64.
absl::StatusOr<tensorflow::Feature> FeatureFromTensor(const Tensor& tensor);

// The values as a vector. NotFound: the feature has no kind, its values are missing.
absl::StatusOr<Tensor> TensorFromFeature(const tensorflow::Feature& feature);

// Replace what is there under `key`.
void SetFeature(absl::string_view key, tensorflow::Feature feature, tensorflow::Example* example);
void SetContextFeature(absl::string_view key, tensorflow::Feature feature,
                       tensorflow::SequenceExample* example);
// Adds a step to the feature list `key`, which is made by its first step.
void AddStep(absl::string_view key, tensorflow::Feature feature,
             tensorflow::SequenceExample* example);

// Equal examples give equal bytes: keys are written in order. InvalidArgument: larger than a
// message can be (2 GiB).
absl::StatusOr<std::string> SerializeExample(const tensorflow::Example& example);
absl::StatusOr<std::string> SerializeExample(const tensorflow::SequenceExample& example);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_EXAMPLE_H_
