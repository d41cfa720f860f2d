// Interleave: a data set of each element, several of them read in turn. Attributes: function,
// cycle, block.
//
// There are `cycle` slots. Each in its turn gives up to `block` elements of the data set that it
// holds; when that ends the turn is the next slot's, and the slot is filled anew when it is its
// turn again. So the order is TensorFlow's.
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/functions.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

constexpr int64_t kMaxCycle = 1 << 16;

struct Settings {
  std::string name;
  const DatasetFunction* function;
  int64_t cycle;
  int64_t block;
};

class InterleavePass final : public Pass {
 public:
  InterleavePass(const Settings& settings, std::unique_ptr<Pass> input, const PassContext& context)
      : settings_(settings),
        context_(context),
        input_(std::move(input)),
        slots_(static_cast<size_t>(settings.cycle)) {}

  absl::StatusOr<MaybeElement> Next() override {
    while (!ended_ || open_ > 0) {
      Slot& slot = slots_[turn_];
      if (!slot.pass) {
        if (ended_) {
          EndTurn();
          continue;
        }
        TANDEM_ASSIGN_OR_RETURN(MaybeElement element, input_->Next());
        if (!element) {
          ended_ = true;
          continue;
        }
        const int64_t index = read_++;
        const absl::Status opened = Fill(*std::move(element), &slot);
        if (!opened.ok()) {
          return WithContext(opened,
                             absl::StrCat("Interleave '", settings_.name, "': element ", index));
        }
        ++open_;
      }
      absl::StatusOr<MaybeElement> element = slot.pass->Next();
      if (!element.ok() || element->has_value()) {
        if (++given_ == settings_.block) EndTurn();
        return element;
      }
      slot = Slot();
      --open_;
      EndTurn();
    }
    return MaybeElement();
  }

  // Numbers: turn, given, ended, read, and for each slot whether it holds a data set. Elements and
  // further inputs: of the slots that do.
  absl::Status Save(InputState* state) override {
    state->set_kind("Interleave");
    state->add_numbers(static_cast<int64_t>(turn_));
    state->add_numbers(given_);
    state->add_numbers(ended_);
    state->add_numbers(read_);
    TANDEM_RETURN_IF_ERROR(input_->Save(state->add_inputs()));
    for (const Slot& slot : slots_) {
      state->add_numbers(slot.pass != nullptr);
      if (!slot.pass) continue;
      TANDEM_RETURN_IF_ERROR(SaveElement(slot.element, state->add_elements()));
      TANDEM_RETURN_IF_ERROR(slot.pass->Save(state->add_inputs()));
    }
    return absl::OkStatus();
  }

  absl::Status Restore(const InputState& state) override {
    const int held = state.elements_size();
    TANDEM_RETURN_IF_ERROR(
        CheckState(state, "Interleave", 4 + static_cast<int>(slots_.size()), 1 + held));
    if (state.numbers(0) < 0 || state.numbers(0) >= settings_.cycle || state.numbers(1) < 0 ||
        state.numbers(1) >= settings_.block) {
      return BadState("Interleave", "is of another cycle or block");
    }
    turn_ = static_cast<size_t>(state.numbers(0));
    given_ = state.numbers(1);
    ended_ = state.numbers(2) != 0;
    read_ = state.numbers(3);
    TANDEM_RETURN_IF_ERROR(input_->Restore(state.inputs(0)));
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (state.numbers(4 + static_cast<int>(i)) == 0) continue;
      const int at = static_cast<int>(open_);
      if (at >= held) return BadState("Interleave", "has fewer data sets than it says");
      absl::StatusOr<Element> element;
      TANDEM_RETURN_IF_ERROR(LoadElement(state.elements(at), &element));
      if (!element.ok()) return BadState("Interleave", "holds an error");
      TANDEM_RETURN_IF_ERROR(Fill(*std::move(element), &slots_[i]));
      TANDEM_RETURN_IF_ERROR(slots_[i].pass->Restore(state.inputs(1 + at)));
      ++open_;
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    Element element;  // What the data set was made of.
    OpenedStagePtr stage;
    std::unique_ptr<Pass> pass;  // Null: the slot is free. Does not outlive `stage`.
  };

  absl::Status Fill(Element element, Slot* slot) const {
    TANDEM_ASSIGN_OR_RETURN(const Dataset dataset, (*settings_.function)(element));
    TANDEM_ASSIGN_OR_RETURN(slot->stage, dataset.stage()->Open());
    TANDEM_ASSIGN_OR_RETURN(slot->pass, slot->stage->Begin(context_));
    slot->element = std::move(element);
    return absl::OkStatus();
  }

  void EndTurn() {
    turn_ = (turn_ + 1) % slots_.size();
    given_ = 0;
  }

  const Settings& settings_;
  const PassContext context_;
  const std::unique_ptr<Pass> input_;
  std::vector<Slot> slots_;
  size_t turn_ = 0;    // The slot whose turn it is.
  int64_t given_ = 0;  // Elements in this turn.
  int64_t open_ = 0;   // Slots that hold a data set.
  int64_t read_ = 0;   // Elements of the input, for messages.
  bool ended_ = false;
};

class InterleaveStage final : public OpenedStage {
 public:
  InterleaveStage(OpenedStagePtr input, Settings settings)
      : input_(std::move(input)), settings_(std::move(settings)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    return std::make_unique<InterleavePass>(settings_, std::move(input), context);
  }
  int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  const OpenedStagePtr input_;
  const Settings settings_;
};

absl::StatusOr<OpenedStagePtr> OpenInterleave(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, stage.String("function"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t cycle, stage.Int("cycle"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t block, stage.Int("block"));
  if (cycle < 1 || cycle > kMaxCycle || block < 1) {
    return errors::InvalidArgument("Interleave '", name, "': cycle is ", cycle, ", block is ",
                                   block, "; expected both at least 1, cycle at most ", kMaxCycle);
  }
  TANDEM_ASSIGN_OR_RETURN(const DatasetFunction* const function, FindDatasetFunction(name));
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const InterleaveStage>(std::move(input),
                                                 Settings{name, function, cycle, block});
}

const bool registered = RegisterStage("Interleave", /*inputs=*/1, OpenInterleave);

}  // namespace
}  // namespace tandem::data
