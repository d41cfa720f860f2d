#include "strategies/optimizer/schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::optimizer {
namespace {

// "not at least 0" instead of "below 0", so that what is not a number is refused too.
absl::Status CheckRate(absl::string_view schedule, absl::string_view what, double rate) {
  if (rate >= 0 && std::isfinite(rate)) return absl::OkStatus();
  return errors::InvalidArgument(schedule, ": ", what, " is ", rate,
                                 "; it must be a finite number and not negative");
}

absl::Status CheckSteps(absl::string_view schedule, absl::string_view what, int64_t steps) {
  if (steps >= 1) return absl::OkStatus();
  return errors::InvalidArgument(schedule, ": ", what, " is ", steps, "; it must be at least 1");
}

absl::Status CheckStepDecay(const std::vector<int64_t>& boundaries,
                            const std::vector<double>& values) {
  if (values.size() != boundaries.size() + 1) {
    return errors::InvalidArgument("StepDecay: ", boundaries.size(), " boundaries and ",
                                   values.size(), " values; there must be one value more");
  }
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (boundaries[i] >= 0 && (i == 0 || boundaries[i] > boundaries[i - 1])) continue;
    return errors::InvalidArgument("StepDecay: boundaries are [", absl::StrJoin(boundaries, ", "),
                                   "]; they must rise, and none may be negative");
  }
  for (const double value : values) {
    TANDEM_RETURN_IF_ERROR(CheckRate("StepDecay", "a value", value));
  }
  return absl::OkStatus();
}

absl::Status CheckExponentialDecay(double learning_rate, int64_t decay_steps, double rate) {
  TANDEM_RETURN_IF_ERROR(CheckRate("ExponentialDecay", "learning_rate", learning_rate));
  TANDEM_RETURN_IF_ERROR(CheckSteps("ExponentialDecay", "decay_steps", decay_steps));
  return CheckRate("ExponentialDecay", "rate", rate);
}

absl::Status CheckCosineDecay(double learning_rate, int64_t decay_steps, double alpha) {
  TANDEM_RETURN_IF_ERROR(CheckRate("CosineDecay", "learning_rate", learning_rate));
  TANDEM_RETURN_IF_ERROR(CheckSteps("CosineDecay", "decay_steps", decay_steps));
  if (alpha >= 0 && alpha <= 1) return absl::OkStatus();
  return errors::InvalidArgument("CosineDecay: alpha is ", alpha, "; it must lie in [0, 1]");
}

absl::Status CheckWarmUp(const Schedule& schedule, int64_t steps, double start) {
  TANDEM_RETURN_IF_ERROR(schedule.status());
  if (!schedule) return errors::InvalidArgument("WarmUp: there is no schedule to warm up to");
  TANDEM_RETURN_IF_ERROR(CheckSteps("WarmUp", "steps", steps));
  return CheckRate("WarmUp", "start", start);
}

}  // namespace

double Schedule::operator()(int64_t step) const {
  return rate_ ? rate_(step) : std::numeric_limits<double>::quiet_NaN();
}

Schedule Constant(double learning_rate) {
  const absl::Status status = CheckRate("Constant", "learning_rate", learning_rate);
  if (!status.ok()) return status;
  return [learning_rate](int64_t) { return learning_rate; };
}

Schedule StepDecay(std::vector<int64_t> boundaries, std::vector<double> values) {
  const absl::Status status = CheckStepDecay(boundaries, values);
  if (!status.ok()) return status;
  return [boundaries = std::move(boundaries), values = std::move(values)](int64_t step) {
    const auto next = std::lower_bound(boundaries.begin(), boundaries.end(), step);
    return values[static_cast<size_t>(next - boundaries.begin())];
  };
}

Schedule ExponentialDecay(double learning_rate, int64_t decay_steps, double rate, bool staircase) {
  const absl::Status status = CheckExponentialDecay(learning_rate, decay_steps, rate);
  if (!status.ok()) return status;
  return [=](int64_t step) {
    double exponent = static_cast<double>(step) / static_cast<double>(decay_steps);
    if (staircase) exponent = std::floor(exponent);
    return learning_rate * std::pow(rate, exponent);
  };
}

Schedule CosineDecay(double learning_rate, int64_t decay_steps, double alpha) {
  const absl::Status status = CheckCosineDecay(learning_rate, decay_steps, alpha);
  if (!status.ok()) return status;
  return [=](int64_t step) {
    constexpr double kPi = 3.14159265358979323846;
    const double done =
        static_cast<double>(std::min(step, decay_steps)) / static_cast<double>(decay_steps);
    const double cosine = 0.5 * (1 + std::cos(kPi * done));
    return learning_rate * ((1 - alpha) * cosine + alpha);
  };
}

Schedule WarmUp(Schedule schedule, int64_t steps, double start) {
  const absl::Status status = CheckWarmUp(schedule, steps, start);
  if (!status.ok()) return status;
  return [schedule = std::move(schedule), steps, start](int64_t step) {
    if (step >= steps) return schedule(step - steps);
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    return start + (schedule(0) - start) * done;
  };
}

}  // namespace tandem::optimizer
