// Metrics: what is reported of a model besides its loss.
//
// A metric is a function of sums over examples. Each replica computes its part of the sums in each
// step; they are added over replicas and steps, so that a metric is the same under every strategy
// and however the data is cut into batches.
//
// Outputs are float32. Where a metric takes labels like outputs, these may also be integers or
// bool, and the outputs [batch, …, 1] for labels [batch, …].
//
// Threads: a metric never changes once it is made.
#ifndef TANDEM_STRATEGIES_NN_METRIC_H_
#define TANDEM_STRATEGIES_NN_METRIC_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/scope.h"
#include "core/tensor/tensor.h"

namespace tandem {

class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;  // "accuracy"
  // Adds the nodes that compute this batch's part of the sums, each float32 of a fixed shape.
  // InvalidArgument: labels or outputs do not fit.
  virtual absl::StatusOr<std::vector<Output>> Sums(const Scope& scope, Output labels,
                                                   Output outputs) const = 0;
  // The value, from the sums over all examples (float64, in the order of Sums). 0 without examples.
  virtual double Result(const std::vector<Tensor>& sums) const = 0;
};

using MetricPtr = std::shared_ptr<const Metric>;

namespace metric {

// How often the greatest output is the label ("accuracy"). Labels are class numbers, int32 or int64
// [batch, …] for outputs [batch, …, classes], or like the outputs: then their greatest is the
// class. A single output [batch, …, 1] is a logit, whose label is 0 or 1.
MetricPtr Accuracy();

// How often an output that is to be 0 or 1 lies on its label's side of the threshold
// ("binary_accuracy"). For outputs that are logits the threshold is 0. Labels like outputs; above
// 0.5 is true.
MetricPtr BinaryAccuracy(double threshold = 0.5);

// How often the label is among the k greatest outputs ("top_5_accuracy"). Labels are class numbers,
// as above.
MetricPtr TopK(int64_t k);

// The mean of numbers that `function` makes of labels and outputs, in any shape; without it, of the
// outputs.
using MetricFunction =
    std::function<absl::StatusOr<Output>(const Scope& scope, Output labels, Output outputs)>;
MetricPtr Mean(std::string name, MetricFunction function = nullptr);
// Over all outputs; labels like outputs ("mean_squared_error", "mean_absolute_error").
MetricPtr MeanSquaredError();
MetricPtr MeanAbsoluteError();

struct AucOptions {
  bool from_logits = false;  // Outputs go through a sigmoid first; else they are in [0, 1].
  int num_thresholds = 200;
};
// The area under the curve of true against false positives (receiver operating characteristic,
// "auc"): how likely a true example has a greater output than a false one. Labels like outputs, 0
// or 1. As in Keras, by trapezoids between thresholds at equal distances; 0 where only one kind of
// label came.
MetricPtr Auc(AucOptions options = {});

}  // namespace metric
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_NN_METRIC_H_
