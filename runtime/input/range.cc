// Range: int64 scalars. Attributes: start, stop, step.
#include "core/base/status.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

class RangeRows final : public RowSource {
 public:
  RangeRows(int64_t start, int64_t step, int64_t size) : start_(start), step_(step), size_(size) {}

  int64_t size() const override { return size_; }

  absl::StatusOr<Element> Row(int64_t row) const override {
    return Element{Tensor::Scalar<int64_t>(Value(row))};
  }

  absl::StatusOr<Element> Gather(absl::Span<const int64_t> rows) const override {
    TANDEM_ASSIGN_OR_RETURN(Tensor batch,
                            Tensor::Create(kInt64, {static_cast<int64_t>(rows.size())}));
    int64_t* const out = batch.MutableElements<int64_t>().data();
    for (size_t i = 0; i < rows.size(); ++i) out[i] = Value(rows[i]);
    return Element{std::move(batch)};
  }

 private:
  int64_t Value(int64_t row) const { return start_ + row * step_; }

  const int64_t start_;
  const int64_t step_;
  const int64_t size_;
};

absl::StatusOr<OpenedStagePtr> OpenRange(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t start, stage.Int("start"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t stop, stage.Int("stop"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t step, stage.Int("step"));
  if (step == 0) return errors::InvalidArgument("Range: step is 0, expected another number");
  // Unsigned, since the distance of two int64 need not fit into one.
  uint64_t size = 0;
  if (step > 0 && start < stop) {
    const uint64_t distance = static_cast<uint64_t>(stop) - static_cast<uint64_t>(start);
    size = (distance - 1) / static_cast<uint64_t>(step) + 1;
  } else if (step < 0 && start > stop) {
    const uint64_t distance = static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
    size = (distance - 1) / (uint64_t{0} - static_cast<uint64_t>(step)) + 1;
  }
  if (size > static_cast<uint64_t>(INT64_MAX)) {
    return errors::InvalidArgument("Range: ", start, " to ", stop, " in steps of ", step,
                                   " has more than 2^63 - 1 elements");
  }
  return MakeTableStage("Range",
                        std::make_unique<RangeRows>(start, step, static_cast<int64_t>(size)));
}

const bool registered = RegisterStage("Range", /*inputs=*/0, OpenRange);

}  // namespace
}  // namespace tandem::data
