// Dropping values at random, for layers that do.
#ifndef TANDEM_STRATEGIES_NN_DROPOUT_MASK_H_
#define TANDEM_STRATEGIES_NN_DROPOUT_MASK_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {

// `x`, while training with a part of `rate` of its values dropped. InvalidArgument: rate is not in
// [0, 1). FailedPrecondition: training in a step without a number.
absl::StatusOr<Output> Drop(const LayerCall& call, double rate, Output x);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_DROPOUT_MASK_H_
