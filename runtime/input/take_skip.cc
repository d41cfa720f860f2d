// Take: the first elements; Skip: all but the first. Attributes: count (-1: all).
#include <algorithm>
#include <limits>

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

class TakePass final : public Pass {
 public:
  TakePass(std::unique_ptr<Pass> input, int64_t count, const PassContext&)
      : input_(std::move(input)), left_(count) {}

  absl::StatusOr<MaybeElement> Next() override {
    if (left_ == 0) return MaybeElement();
    absl::StatusOr<MaybeElement> result = input_->Next();
    if (!result.ok() || result->has_value()) --left_;
    return result;
  }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    const size_t before = rows->size();
    TANDEM_RETURN_IF_ERROR(input_->NextRows(std::min(count, left_), rows));
    left_ -= static_cast<int64_t>(rows->size() - before);
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Take");
    state->add_numbers(left_);
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Take", 1, 1));
    if (state.numbers(0) < 0) return BadState("Take", "has a negative count");
    left_ = state.numbers(0);
    return input_->Restore(state.inputs(0));
  }

 private:
  const std::unique_ptr<Pass> input_;
  int64_t left_;
};

class SkipPass final : public Pass {
 public:
  SkipPass(std::unique_ptr<Pass> input, int64_t count, const PassContext& context)
      : input_(std::move(input)), left_(count), cancellation_(*context.cancellation) {}

  absl::StatusOr<MaybeElement> Next() override {
    while (left_ > 0) {
      if (cancellation_.IsCancelled()) return cancellation_.status();
      absl::StatusOr<MaybeElement> skipped = input_->Next();
      if (!skipped.ok() || skipped->has_value()) --left_;
      if (!skipped.ok() || !skipped->has_value()) return skipped;
    }
    return input_->Next();
  }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    std::vector<int64_t> skipped;
    while (left_ > 0) {
      if (cancellation_.IsCancelled()) return cancellation_.status();
      skipped.clear();
      TANDEM_RETURN_IF_ERROR(input_->NextRows(std::min<int64_t>(left_, 4096), &skipped));
      left_ -= static_cast<int64_t>(skipped.size());
      if (skipped.empty()) return absl::OkStatus();
    }
    return input_->NextRows(count, rows);
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Skip");
    state->add_numbers(left_);
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Skip", 1, 1));
    if (state.numbers(0) < 0) return BadState("Skip", "has a negative count");
    left_ = state.numbers(0);
    return input_->Restore(state.inputs(0));
  }

 private:
  const std::unique_ptr<Pass> input_;
  int64_t left_;
  const CancellationManager& cancellation_;
};

template <typename PassType>
class CountStage final : public OpenedStage {
 public:
  CountStage(OpenedStagePtr input, int64_t count) : input_(std::move(input)), count_(count) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    return std::make_unique<PassType>(std::move(input), count_, context);
  }

  int64_t cardinality() const override {
    const int64_t size = input_->cardinality();
    if (std::is_same_v<PassType, TakePass>) {
      if (size == kInfiniteCardinality) return count_ == kAll ? size : count_;
      return size < 0 ? size : std::min(size, count_);
    }
    if (count_ == kAll) return 0;
    return size < 0 ? size : std::max<int64_t>(size - count_, 0);
  }

  const RowSource* rows() const override { return input_->rows(); }

 private:
  const OpenedStagePtr input_;
  const int64_t count_;
};

template <typename PassType>
absl::StatusOr<OpenedStagePtr> OpenCount(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t count, stage.Int("count"));
  if (count < -1) {
    return errors::InvalidArgument(stage.kind(), ": count is ", count,
                                   ", expected -1 (all), 0 or more");
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const CountStage<PassType>>(std::move(input), count == -1 ? kAll : count);
}

const bool registered = RegisterStage("Take", /*inputs=*/1, OpenCount<TakePass>) &&
                        RegisterStage("Skip", /*inputs=*/1, OpenCount<SkipPass>);

}  // namespace
}  // namespace tandem::data
