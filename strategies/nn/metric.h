// Metrics: what is reported of a model besides its loss.
//
// A metric is a function of sums over examples. Each replica computes its part of the sums in each
// step; they are added over replicas and steps, so that a metric is the same under every strategy
// and however the data is cut into batches.
//
// Threads: a metric never changes once it is made.
#ifndef TANDEM_STRATEGIES_NN_METRIC_H_
#define TANDEM_STRATEGIES_NN_METRIC_H_

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

// How often the greatest output is the label. Labels int32 or int64 [batch]; outputs [batch,
// classes].
MetricPtr Accuracy();

}  // namespace metric
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_NN_METRIC_H_
