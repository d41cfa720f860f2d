// What losses and metrics do with labels before they compare them with outputs.
#ifndef TANDEM_STRATEGIES_NN_LABELS_H_
#define TANDEM_STRATEGIES_NN_LABELS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/scope.h"

namespace tandem::nn {

// InvalidArgument: "<who> needs <wanted>; labels are …, outputs …".
absl::Status LabelError(absl::string_view who, absl::string_view wanted, Output labels,
                        Output outputs);

// Checks that labels are class numbers, int32 or int64 of the shape of float32 outputs without
// their last dimension, the classes.
absl::Status CheckClassNumbers(absl::string_view who, Output labels, Output outputs);

// `labels` as float32 of the shape of `outputs`, which must be float32. Labels [batch, …] take the
// shape of outputs [batch, …, 1].
absl::StatusOr<Output> LabelsLikeOutputs(const Scope& scope, absl::string_view who, Output labels,
                                         Output outputs);

// x [batch, …, n] as [batch · …, n]. REQUIRES: the last size is known.
Output AsRows(const Scope& scope, Output x);
// All values of x, as a vector.
Output AsVector(const Scope& scope, Output x);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LABELS_H_
