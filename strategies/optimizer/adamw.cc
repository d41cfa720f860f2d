#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class AdamWOptimizer final : public SlotOptimizer {
 public:
  explicit AdamWOptimizer(const AdamWOptions& options)
      : SlotOptimizer("adamw", options.learning_rate, options.schedule,
                      {{"momentum"}, {"velocity"}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    OptionList list = ListOptions({{"weight_decay", options_.weight_decay},
                                   {"beta1", options_.beta1},
                                   {"beta2", options_.beta2},
                                   {"epsilon", options_.epsilon}});
    list.emplace_back("exclude", absl::StrJoin(options_.exclude, ","));
    return list;
  }

 private:
  absl::Status CheckOptions() const override {
    TANDEM_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options_.weight_decay));
    TANDEM_RETURN_IF_ERROR(CheckRange("beta1", options_.beta1, 0, 1, /*below=*/true));
    TANDEM_RETURN_IF_ERROR(CheckRange("beta2", options_.beta2, 0, 1, /*below=*/true));
    return CheckNotNegative("epsilon", options_.epsilon);
  }

  bool Decays(const std::string& variable) const {
    return options_.weight_decay != 0 &&
           std::none_of(options_.exclude.begin(), options_.exclude.end(),
                        [&](const std::string& end) { return absl::EndsWith(variable, end); });
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "beta1", options_.beta1));
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "beta2", options_.beta2));
    const bool decays = Decays(t.variable().name());
    InputList inputs = {t.handle(),
                        t.slot(0),
                        t.slot(1),
                        t.scalars().Power(t.dtype(), options_.beta1),
                        t.scalars().Power(t.dtype(), options_.beta2),
                        t.learning_rate(),
                        t.Number(options_.beta1),
                        t.Number(options_.beta2),
                        t.Number(options_.epsilon)};
    // Decay and step in one pass over memory.
    if (decays) inputs.emplace_back(t.scalars().ScaledRate(t.dtype(), options_.weight_decay));
    inputs.emplace_back(t.DenseGradient());
    return t.scope().AddNode(decays ? "_TandemApplyAdamW" : "ResourceApplyAdam", inputs);
  }

  const AdamWOptions options_;
};

}  // namespace

OptimizerPtr AdamW(AdamWOptions options) {
  return std::make_shared<AdamWOptimizer>(std::move(options));
}

}  // namespace tandem::optimizer
