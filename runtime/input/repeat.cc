// Repeat: iterations of the input in a row. Attributes: count (-1: without end).
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

class RepeatPass final : public Pass {
 public:
  RepeatPass(const OpenedStage& input, int64_t count, const PassContext& context)
      : input_stage_(input), count_(count), context_(context) {}

  absl::StatusOr<MaybeElement> Next() override {
    while (count_ < 0 || round_ < count_) {
      TANDEM_RETURN_IF_ERROR(BeginRound());
      absl::StatusOr<MaybeElement> element = input_->Next();
      if (!element.ok() || element->has_value()) {
        any_in_round_ = true;
        return element;
      }
      TANDEM_RETURN_IF_ERROR(EndRound());
    }
    return MaybeElement();
  }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    const size_t full = rows->size() + static_cast<size_t>(count);
    while (rows->size() < full && (count_ < 0 || round_ < count_)) {
      TANDEM_RETURN_IF_ERROR(BeginRound());
      const size_t before = rows->size();
      TANDEM_RETURN_IF_ERROR(input_->NextRows(static_cast<int64_t>(full - before), rows));
      if (rows->size() > before) any_in_round_ = true;
      if (rows->size() < full) TANDEM_RETURN_IF_ERROR(EndRound());
    }
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Repeat");
    state->add_numbers(round_);
    state->add_numbers(any_in_round_);
    return input_ ? input_->Save(state->add_inputs()) : absl::OkStatus();
  }

  absl::Status Restore(const InputState& state) override {
    const int inputs = state.inputs_size() == 0 ? 0 : 1;
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Repeat", 2, inputs));
    if (state.numbers(0) < 0) return BadState("Repeat", "has a negative count");
    round_ = state.numbers(0);
    any_in_round_ = state.numbers(1) != 0;
    if (inputs == 0) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(BeginRound());
    return input_->Restore(state.inputs(0));
  }

 private:
  absl::Status BeginRound() {
    if (input_) return absl::OkStatus();
    // So that Repeat(n) is the iterations 0 … n-1 of its input, and its own iteration 1 goes on
    // where 0 ended. Without an end there is no such number: rounds stay below 2^32.
    PassContext context = context_;
    context.iteration =
        context_.iteration * (count_ < 0 ? uint64_t{1} << 32 : static_cast<uint64_t>(count_)) +
        static_cast<uint64_t>(round_);
    TANDEM_ASSIGN_OR_RETURN(input_, input_stage_.Begin(context));
    return absl::OkStatus();
  }

  absl::Status EndRound() {
    input_.reset();
    ++round_;
    if (count_ < 0 && !any_in_round_) {
      return errors::InvalidArgument(
          "Repeat: the data set before it is empty, and to be repeated without end");
    }
    // Rounds may be empty for ever, and there may be 2^62 of them.
    if (context_.cancellation->IsCancelled()) return context_.cancellation->status();
    any_in_round_ = false;
    return absl::OkStatus();
  }

  const OpenedStage& input_stage_;
  const int64_t count_;
  const PassContext context_;
  std::unique_ptr<Pass> input_;  // Null between rounds.
  int64_t round_ = 0;
  bool any_in_round_ = false;
};

class RepeatStage final : public OpenedStage {
 public:
  RepeatStage(OpenedStagePtr input, int64_t count) : input_(std::move(input)), count_(count) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    // Nothing, however often, is nothing; without end it is an error, which the pass reports.
    const int64_t count = input_->cardinality() == 0 && count_ > 0 ? 0 : count_;
    return std::make_unique<RepeatPass>(*input_, count, context);
  }

  int64_t cardinality() const override {
    const int64_t size = input_->cardinality();
    if (count_ == 0 || size == 0) return 0;
    if (count_ < 0 || size == kInfiniteCardinality) return kInfiniteCardinality;
    int64_t product = 0;
    if (size < 0 || __builtin_mul_overflow(size, count_, &product)) return kUnknownCardinality;
    return product;
  }

  const RowSource* rows() const override { return input_->rows(); }

 private:
  const OpenedStagePtr input_;
  const int64_t count_;
};

absl::StatusOr<OpenedStagePtr> OpenRepeat(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t count, stage.Int("count"));
  if (count < -1) {
    return errors::InvalidArgument("Repeat: count is ", count,
                                   ", expected -1 (without end), 0 or more");
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const RepeatStage>(std::move(input), count);
}

const bool registered = RegisterStage("Repeat", /*inputs=*/1, OpenRepeat);

}  // namespace
}  // namespace tandem::data
