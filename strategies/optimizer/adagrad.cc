#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class AdagradOptimizer final : public SlotOptimizer {
 public:
  explicit AdagradOptimizer(const AdagradOptions& options)
      : SlotOptimizer("adagrad", options.learning_rate, options.schedule,
                      {{"accumulator", options.initial_accumulator}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions(
        {{"initial_accumulator", options_.initial_accumulator}, {"epsilon", options_.epsilon}});
  }

 private:
  absl::Status CheckOptions() const override {
    TANDEM_RETURN_IF_ERROR(CheckNotNegative("initial_accumulator", options_.initial_accumulator));
    TANDEM_RETURN_IF_ERROR(CheckNotNegative("epsilon", options_.epsilon));
    if (options_.initial_accumulator > 0 || options_.epsilon > 0) return absl::OkStatus();
    return errors::InvalidArgument(
        name(),
        ": initial_accumulator and epsilon are both 0; elements without a gradient would "
        "become not a number");
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    InputList inputs = {t.handle(), t.slot(0), t.learning_rate(), t.Number(options_.epsilon)};
    if (!t.is_sparse()) {
      inputs.emplace_back(t.DenseGradient());
      return t.scope().AddNode("ResourceApplyAdagradV2", inputs);
    }
    // Rows without a gradient do not change.
    const Gradient rows = t.DistinctRows();
    inputs.emplace_back(rows.values);
    inputs.emplace_back(rows.indices);
    return t.scope().AddNode("ResourceSparseApplyAdagradV2", inputs);
  }

  const AdagradOptions options_;
};

}  // namespace

OptimizerPtr Adagrad(AdagradOptions options) { return std::make_shared<AdagradOptimizer>(options); }

}  // namespace tandem::optimizer
