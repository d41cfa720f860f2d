#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class AdamOptimizer final : public SlotOptimizer {
 public:
  explicit AdamOptimizer(const AdamOptions& options)
      : SlotOptimizer("adam", options.learning_rate, options.schedule,
                      options.amsgrad
                          ? std::vector<Slot>{{"momentum"}, {"velocity"}, {"velocity_hat"}}
                          : std::vector<Slot>{{"momentum"}, {"velocity"}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions({{"beta1", options_.beta1},
                        {"beta2", options_.beta2},
                        {"epsilon", options_.epsilon},
                        {"amsgrad", options_.amsgrad}});
  }

 private:
  absl::Status CheckOptions() const override {
    TANDEM_RETURN_IF_ERROR(CheckRange("beta1", options_.beta1, 0, 1, /*below=*/true));
    TANDEM_RETURN_IF_ERROR(CheckRange("beta2", options_.beta2, 0, 1, /*below=*/true));
    return CheckNotNegative("epsilon", options_.epsilon);
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "beta1", options_.beta1));
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "beta2", options_.beta2));
    InputList inputs = {t.handle(), t.slot(0), t.slot(1)};
    if (options_.amsgrad) inputs.emplace_back(t.slot(2));
    inputs.emplace_back(t.scalars().Power(t.dtype(), options_.beta1));
    inputs.emplace_back(t.scalars().Power(t.dtype(), options_.beta2));
    inputs.emplace_back(t.learning_rate());
    inputs.emplace_back(t.Number(options_.beta1));
    inputs.emplace_back(t.Number(options_.beta2));
    inputs.emplace_back(t.Number(options_.epsilon));
    inputs.emplace_back(t.DenseGradient());
    return t.scope().AddNode(
        options_.amsgrad ? "ResourceApplyAdamWithAmsgrad" : "ResourceApplyAdam", inputs);
  }

  const AdamOptions options_;
};

}  // namespace

OptimizerPtr Adam(AdamOptions options) {
  return std::make_shared<AdamOptimizer>(std::move(options));
}

}  // namespace tandem::optimizer
