// Schedules: how the learning rate changes with the number of the step.
//
//   optimizer::Sgd({.schedule = WarmUp(CosineDecay(0.1, 10000), 500)})
//
// A schedule is a function of the step alone, so that training which goes on from a saved step has
// the right rate. The formulas are those of keras.optimizers.schedules. Any function from int64_t
// to double is a schedule too.
//
// Errors: arguments that make no schedule (a negative rate, boundaries that do not rise, fewer than
// one step) are kept in status(), which an optimizer that uses the schedule returns.
//
// Threads: any, when the function allows it; those made here do.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_SCHEDULES_H_
#define TANDEM_STRATEGIES_OPTIMIZER_SCHEDULES_H_

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace tandem::optimizer {

class Schedule {
 public:
  Schedule() = default;  // None: false.
  template <typename F, typename = std::enable_if_t<std::is_invocable_r_v<double, F, int64_t> &&
                                                    !std::is_same_v<std::decay_t<F>, Schedule>>>
  Schedule(F rate) : rate_(std::move(rate)) {}                 // NOLINT: a function is a schedule.
  Schedule(absl::Status error) : status_(std::move(error)) {}  // NOLINT

  // Whether there is one, be it a wrong one.
  explicit operator bool() const { return rate_ != nullptr || !status_.ok(); }
  const absl::Status& status() const { return status_; }
  // The learning rate of a step, counted from 0. Not a number: there is none (see status).
  double operator()(int64_t step) const;

 private:
  std::function<double(int64_t)> rate_;
  absl::Status status_;
};

Schedule Constant(double learning_rate);

// values[0] for steps up to and with boundaries[0], then values[1] up to and with boundaries[1],
// and so on. There is one value more than boundaries, which rise.
Schedule StepDecay(std::vector<int64_t> boundaries, std::vector<double> values);

// learning_rate · rate^(step / decay_steps); with `staircase` the exponent is cut to a whole
// number.
Schedule ExponentialDecay(double learning_rate, int64_t decay_steps, double rate,
                          bool staircase = false);

// From learning_rate to alpha · learning_rate along half a cosine in decay_steps steps, then
// constant:  learning_rate · ((1 - alpha) · (1 + cos(π · step / decay_steps)) / 2 + alpha).
// Loshchilov and Hutter, 2017, without restarts. `alpha` lies in [0, 1].
Schedule CosineDecay(double learning_rate, int64_t decay_steps, double alpha = 0);

// Rises linearly from `start` to the schedule's first rate in `steps` steps, then follows the
// schedule from its beginning. As in Keras, step 0 has the rate `start` itself.
Schedule WarmUp(Schedule schedule, int64_t steps, double start = 0);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_SCHEDULES_H_
