#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class SgdOptimizer final : public SlotOptimizer {
 public:
  explicit SgdOptimizer(const SgdOptions& options)
      : SlotOptimizer(
            "sgd", options.learning_rate, options.schedule,
            options.momentum != 0 ? std::vector<Slot>{{"momentum"}} : std::vector<Slot>{}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions({{"momentum", options_.momentum}, {"nesterov", options_.nesterov}});
  }

 private:
  absl::Status CheckOptions() const override {
    return CheckRange("momentum", options_.momentum, 0, 1);
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    if (options_.momentum != 0) {
      return t.scope().AddNode("ResourceApplyKerasMomentum",
                               {t.handle(), t.slot(0), t.learning_rate(), t.DenseGradient(),
                                t.Number(options_.momentum)},
                               {{"use_nesterov", options_.nesterov}});
    }
    if (!t.is_sparse()) {
      return t.scope().AddNode("ResourceApplyGradientDescent",
                               {t.handle(), t.learning_rate(), t.DenseGradient()});
    }
    const Gradient rows = t.DistinctRows();
    return t.scope().AddNode(
        "ResourceScatterSub",
        {t.handle(), rows.indices, t.scope().Call("Mul", {rows.values, t.learning_rate()})});
  }

  const SgdOptions options_;
};

}  // namespace

OptimizerPtr Sgd(SgdOptions options) { return std::make_shared<SgdOptimizer>(options); }

}  // namespace tandem::optimizer
