// Losses: how far a model's outputs are from the labels.
//
// A loss gives one number an example; the trainer sums them and divides by the size of the global
// batch, so that a loss knows nothing of replicas.
#ifndef TANDEM_STRATEGIES_NN_LOSS_H_
#define TANDEM_STRATEGIES_NN_LOSS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "core/graph/scope.h"

namespace tandem {

// Adds the nodes of the loss of each example, [batch], from the labels and the model's outputs.
// InvalidArgument: they do not fit; the message has both shapes and types.
using LossFunction =
    std::function<absl::StatusOr<Output>(const Scope& scope, Output labels, Output outputs)>;

namespace loss {

// Labels int32 or int64 [batch]; outputs are logits [batch, classes].
LossFunction SparseSoftmaxCrossEntropy();
// Labels like outputs, [batch, …]; the mean of the squares over all but the batch.
LossFunction MeanSquaredError();

}  // namespace loss
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_NN_LOSS_H_
