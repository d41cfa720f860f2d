// Cache: keeps what a complete pass gave. No attributes.
//
// All passes read iteration 0 of the input, so it makes no difference to the sequence whether a
// pass reads the input or the memory: a state is valid in a process where nothing is kept yet.
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

using Elements = std::vector<Element>;

class CacheStage final : public OpenedStage {
 public:
  explicit CacheStage(OpenedStagePtr input) : input_(std::move(input)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override;
  int64_t cardinality() const override { return input_->cardinality(); }
  // A table lies in memory anyway, but its order is now that of iteration 0: elements, not rows.

  const OpenedStage& input() const { return *input_; }

  // Null until a pass was complete.
  std::shared_ptr<const Elements> kept() const {
    MutexLock lock(mu_);
    return kept_;
  }
  void Keep(Elements elements) const {
    MutexLock lock(mu_);
    if (!kept_) kept_ = std::make_shared<const Elements>(std::move(elements));
  }

 private:
  const OpenedStagePtr input_;
  mutable Mutex mu_;
  mutable std::shared_ptr<const Elements> kept_ ABSL_GUARDED_BY(mu_);
};

class CachePass final : public Pass {
 public:
  CachePass(const CacheStage& stage, const PassContext& context)
      : stage_(stage), context_{context.cancellation, 0, context.damage}, kept_(stage.kept()) {}

  absl::StatusOr<MaybeElement> Next() override {
    if (kept_ != nullptr) {
      if (position_ == static_cast<int64_t>(kept_->size())) return MaybeElement();
      return MaybeElement((*kept_)[static_cast<size_t>(position_++)]);
    }
    TANDEM_RETURN_IF_ERROR(BeginInput());
    // After a state of a pass that read from memory: catch up.
    while (input_position_ < position_) {
      TANDEM_ASSIGN_OR_RETURN(const MaybeElement skipped, ReadInput());
      if (!skipped) return MaybeElement();
    }
    absl::StatusOr<MaybeElement> element = ReadInput();
    position_ = input_position_;
    if (element.ok() && !element->has_value() && complete_) {
      stage_.Keep(std::move(read_));
      read_.clear();
      complete_ = false;
    }
    return element;
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Cache");
    state->add_numbers(position_);
    state->add_numbers(input_position_);
    return input_ ? input_->Save(state->add_inputs()) : absl::OkStatus();
  }

  absl::Status Restore(const InputState& state) override {
    const int inputs = state.inputs_size() == 0 ? 0 : 1;
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Cache", 2, inputs));
    position_ = state.numbers(0);
    if (position_ < 0 || (kept_ != nullptr && position_ > static_cast<int64_t>(kept_->size()))) {
      return BadState("Cache", absl::StrCat("stands at element ", position_));
    }
    if (inputs == 0 || kept_ != nullptr) return absl::OkStatus();
    input_position_ = state.numbers(1);
    complete_ = input_position_ == 0;
    TANDEM_RETURN_IF_ERROR(BeginInput());
    return input_->Restore(state.inputs(0));
  }

 private:
  absl::Status BeginInput() {
    if (input_) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(input_, stage_.input().Begin(context_));
    return absl::OkStatus();
  }

  absl::StatusOr<MaybeElement> ReadInput() {
    absl::StatusOr<MaybeElement> element = input_->Next();
    if (!element.ok()) {
      complete_ = false;
      read_.clear();
    } else if (element->has_value()) {
      ++input_position_;
      if (complete_) read_.push_back(**element);
    }
    return element;
  }

  const CacheStage& stage_;
  const PassContext context_;
  const std::shared_ptr<const Elements> kept_;  // Null: this pass reads the input.
  int64_t position_ = 0;

  std::unique_ptr<Pass> input_;
  int64_t input_position_ = 0;
  Elements read_;         // All elements so far, while complete_.
  bool complete_ = true;  // This pass saw, or will see, all elements.
};

absl::StatusOr<std::unique_ptr<Pass>> CacheStage::Begin(const PassContext& context) const {
  return std::make_unique<CachePass>(*this, context);
}

absl::StatusOr<OpenedStagePtr> OpenCache(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const CacheStage>(std::move(input));
}

const bool registered = RegisterStage("Cache", /*inputs=*/1, OpenCache);

}  // namespace
}  // namespace tandem::data
