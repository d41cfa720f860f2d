#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class FtrlOptimizer final : public SlotOptimizer {
 public:
  explicit FtrlOptimizer(const FtrlOptions& options)
      : SlotOptimizer("ftrl", options.learning_rate, options.schedule,
                      {{"accumulator", options.initial_accumulator}, {"linear"}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions({{"learning_rate_power", options_.learning_rate_power},
                        {"initial_accumulator", options_.initial_accumulator},
                        {"l1", options_.l1},
                        {"l2", options_.l2}});
  }

 private:
  absl::Status CheckOptions() const override {
    if (!(schedule()(0) > 0)) {
      return errors::InvalidArgument(name(), ": the learning rate begins at ", schedule()(0),
                                     "; it must be above 0, since the rule divides by it");
    }
    if (!(options_.learning_rate_power <= 0)) {
      return errors::InvalidArgument(name(), ": learning_rate_power is ",
                                     options_.learning_rate_power, "; it must not be above 0");
    }
    TANDEM_RETURN_IF_ERROR(CheckNotNegative("initial_accumulator", options_.initial_accumulator));
    TANDEM_RETURN_IF_ERROR(CheckNotNegative("l1", options_.l1));
    return CheckNotNegative("l2", options_.l2);
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    return t.scope().AddNode(
        "ResourceApplyFtrl",
        {t.handle(), t.slot(0), t.slot(1), t.DenseGradient(), t.learning_rate(),
         t.Number(options_.l1), t.Number(options_.l2), t.Number(options_.learning_rate_power)});
  }

  const FtrlOptions options_;
};

}  // namespace

OptimizerPtr Ftrl(FtrlOptions options) { return std::make_shared<FtrlOptimizer>(options); }

}  // namespace tandem::optimizer
