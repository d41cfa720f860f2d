// Losses: how far a model's outputs are from the labels.
//
// A loss gives one number an example, the mean over whatever else the example has (the steps of a
// sequence, several outputs); the trainer sums them and divides by the size of the global batch, so
// that a loss knows nothing of replicas.
//
// Outputs are float32. Where a loss takes labels like outputs, these may also be integers or bool,
// and the outputs [batch, …, 1] for labels [batch, …].
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

// Of one class out of several. Labels int32 or int64 [batch, …] in [0, classes); outputs are logits
// [batch, …, classes]. A label out of range is InvalidArgument when the step runs.
LossFunction SparseSoftmaxCrossEntropy();
// The same with labels that are probabilities of the classes, float32 like the outputs.
LossFunction SoftmaxCrossEntropy();
// Of classes that are true or false by themselves. Labels like outputs, in [0, 1]; outputs are
// logits.
LossFunction SigmoidCrossEntropy();

// (output - label)².
LossFunction MeanSquaredError();
// Half the square of an error e up to delta, and from there on delta · (|e| - delta / 2), so that
// outliers pull less (Huber 1964). InvalidArgument: delta is not positive.
LossFunction Huber(double delta = 1);

}  // namespace loss
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_NN_LOSS_H_
