// UnrulyStrategy: what a strategy of many machines may do to a trainer, in one process. Its steps
// end out of order, a member is lost in the middle of the training and comes back, and the step
// that ran there is aborted. The trainer must get through without knowing of it.
#ifndef TANDEM_STRATEGIES_TESTING_UNRULY_STRATEGY_H_
#define TANDEM_STRATEGIES_TESTING_UNRULY_STRATEGY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "strategies/strategy.h"

namespace tandem::testing {

struct UnrulyOptions {
  // Steps in flight. Those of one group (steps 0 … n-1, n … 2n-1, and so on) end in reverse order,
  // once all of them are done or cancelled: the number of steps of a training must be a multiple of
  // it.
  int steps_in_flight = 4;
  // The first start of this step loses a member; -1: none is lost.
  int64_t lost_step = -1;
  // So many starts of that step fail.
  int failures = 1;
};

class UnrulyStrategy final : public Strategy {
 public:
  explicit UnrulyStrategy(UnrulyOptions options) : options_(options) {}

  std::string name() const override { return "unruly"; }
  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override;
  absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const override;

  // Steps that really ran, by all runners.
  int64_t steps_run() const { return steps_run_; }
  // How often a step ended after one that has a larger number.
  int64_t steps_out_of_order() const { return steps_out_of_order_; }

 private:
  class Runner;

  const UnrulyOptions options_;
  mutable std::atomic<int64_t> steps_run_{0};
  mutable std::atomic<int64_t> steps_out_of_order_{0};
};

}  // namespace tandem::testing

#endif  // TANDEM_STRATEGIES_TESTING_UNRULY_STRATEGY_H_
