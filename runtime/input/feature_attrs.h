// Specifications of features (core/io/example_parser.h) as attributes of a stage, and back.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_INPUT_FEATURE_ATTRS_H_
#define TANDEM_RUNTIME_INPUT_FEATURE_ATTRS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/io/example_parser.h"
#include "runtime/input/stage.h"

namespace tandem::data {

// Adds attributes whose names begin with `prefix`.
void AddFeatureAttrs(absl::string_view prefix, absl::Span<const FeatureSpec> features,
                     Stage::Attrs* attrs);
// InvalidArgument: attributes are missing or make no sense. What the features ask for is checked by
// the parser.
absl::StatusOr<std::vector<FeatureSpec>> FeaturesFromAttrs(absl::string_view prefix,
                                                           const Stage& stage);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_FEATURE_ATTRS_H_
