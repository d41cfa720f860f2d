#include "strategies/runner.h"

#include <cstdint>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// The first element of replica r's part.
int64_t FirstOf(int replica, int num_replicas, int64_t size) {
  // Least i with floor(i·R/B) >= r.
  return (size * replica + num_replicas - 1) / num_replicas;
}

}  // namespace

StrategyRunner::Result StrategyRunner::Run(int program, StepInput input) {
  Event ended;
  Result result(std::vector<Tensor>{});
  Start(program, std::move(input), [&](Result values) {
    result = std::move(values);
    ended.Set();
  });
  // Every step ends (runner.h).
  ended.Wait();
  return result;
}

absl::StatusOr<std::vector<std::string>> StrategyRunner::RestoreDetails(
    const StrategyState& details) {
  std::vector<std::string> unknown;
  for (const auto& detail : details) unknown.push_back(detail.first);
  return unknown;
}

absl::StatusOr<std::vector<Tensor>> CutBatch(const std::vector<Tensor>& batch,
                                             const ReplicaRange& replicas, bool aligned) {
  if (replicas.first < 0 || replicas.count < 0 || replicas.first > replicas.all - replicas.count) {
    return errors::InvalidArgument("replicas ", replicas.first, " to ",
                                   replicas.first + replicas.count - 1, " of ", replicas.all,
                                   " are to take part in a step");
  }
  std::vector<Tensor> parts;
  for (const Tensor& whole : batch) {
    if (whole.shape().rank() < 1 || batch[0].shape().rank() < 1 ||
        whole.shape().dim(0) != batch[0].shape().dim(0)) {
      return errors::InvalidArgument(
          "a batch has tensors of the shapes ", batch[0].shape().DebugString(), " and ",
          whole.shape().DebugString(), "; the first size of all must be the same: the batch");
    }
    const int64_t size = whole.shape().dim(0);
    for (int r = replicas.first; r < replicas.first + replicas.count; ++r) {
      Tensor part = whole.Slice(FirstOf(r, replicas.all, size), FirstOf(r + 1, replicas.all, size));
      if (aligned && reinterpret_cast<uintptr_t>(part.data()) % kBufferAlignment != 0) {
        TANDEM_ASSIGN_OR_RETURN(part, part.Clone());
      }
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace tandem
