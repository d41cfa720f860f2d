// Interleave: a data set of each element, several of them read in turn. Attributes: function,
// cycle, block. InterleaveFiles: the same of paths and a pipeline that reads one file (the second
// input, whose source gets the path). Attributes: cycle, block.
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
  std::string kind;
  std::string label;  // Begins messages.
  DatasetFunction function;
  // Elements of a state must be rows of this table of paths, so that a state cannot make a process
  // read other files; null: they are not.
  const RowSource* paths = nullptr;
  int64_t cycle;
  int64_t block;
};

// Null: the element is no path.
const std::string* PathOf(const Element& element) {
  const bool is_path =
      element.size() == 1 && element[0].dtype() == kString && element[0].shape().IsScalar();
  return is_path ? &element[0].ScalarValue<std::string>() : nullptr;
}

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
          return WithContext(opened, absl::StrCat(settings_.label, ": element ", index));
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
    state->set_kind(settings_.kind);
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
        CheckState(state, settings_.kind, 4 + static_cast<int>(slots_.size()), 1 + held));
    if (state.numbers(0) < 0 || state.numbers(0) >= settings_.cycle || state.numbers(1) < 0 ||
        state.numbers(1) >= settings_.block) {
      return BadState(settings_.kind, "is of another cycle or block");
    }
    turn_ = static_cast<size_t>(state.numbers(0));
    given_ = state.numbers(1);
    ended_ = state.numbers(2) != 0;
    read_ = state.numbers(3);
    TANDEM_RETURN_IF_ERROR(input_->Restore(state.inputs(0)));
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (state.numbers(4 + static_cast<int>(i)) == 0) continue;
      const int at = static_cast<int>(open_);
      if (at >= held) return BadState(settings_.kind, "has fewer data sets than it says");
      absl::StatusOr<Element> element;
      TANDEM_RETURN_IF_ERROR(LoadElement(state.elements(at), &element));
      if (!element.ok()) return BadState(settings_.kind, "holds an error");
      TANDEM_RETURN_IF_ERROR(CheckPath(*element));
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
    TANDEM_ASSIGN_OR_RETURN(const Dataset dataset, settings_.function(element));
    TANDEM_ASSIGN_OR_RETURN(slot->stage, dataset.stage()->Open());
    TANDEM_ASSIGN_OR_RETURN(slot->pass, slot->stage->Begin(context_));
    slot->element = std::move(element);
    return absl::OkStatus();
  }

  absl::Status CheckPath(const Element& element) const {
    if (settings_.paths == nullptr) return absl::OkStatus();
    const std::string* const path = PathOf(element);
    if (path == nullptr) return BadState(settings_.kind, "holds no path");
    for (int64_t row = 0; row < settings_.paths->size(); ++row) {
      TANDEM_ASSIGN_OR_RETURN(const Element known, settings_.paths->Row(row));
      const std::string* const known_path = PathOf(known);
      if (known_path != nullptr && *known_path == *path) return absl::OkStatus();
    }
    return BadState(settings_.kind,
                    absl::StrCat("holds '", *path, "', which is no file of this data set"));
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

absl::StatusOr<OpenedStagePtr> Open(const Stage& stage, std::string label, DatasetFunction function,
                                    bool of_files) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t cycle, stage.Int("cycle"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t block, stage.Int("block"));
  if (cycle < 1 || cycle > kMaxCycle || block < 1) {
    return errors::InvalidArgument(label, ": cycle is ", cycle, ", block is ", block,
                                   "; expected both at least 1, cycle at most ", kMaxCycle);
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  Settings settings{stage.kind(), std::move(label), std::move(function), nullptr, cycle, block};
  if (of_files) settings.paths = input->rows();
  return std::make_shared<const InterleaveStage>(std::move(input), std::move(settings));
}

absl::StatusOr<OpenedStagePtr> OpenInterleave(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, stage.String("function"));
  TANDEM_ASSIGN_OR_RETURN(const DatasetFunction* const function, FindDatasetFunction(name));
  return Open(stage, absl::StrCat("Interleave '", name, "'"), *function, /*of_files=*/false);
}

constexpr char kPaths[] = "paths";

// `stage` with `path` in place of the paths of its source.
StagePtr OfFile(const StagePtr& stage, const std::string& path) {
  Stage::Attrs attrs = stage->attrs();
  if (stage->inputs().empty()) {
    attrs[kPaths] = Attr::String(path);
    return std::make_shared<const Stage>(stage->kind(), std::move(attrs), stage->inputs());
  }
  return std::make_shared<const Stage>(stage->kind(), std::move(attrs),
                                       std::vector<StagePtr>{OfFile(stage->inputs()[0], path)});
}

absl::StatusOr<OpenedStagePtr> OpenInterleaveFiles(const Stage& stage) {
  const StagePtr& each = stage.inputs()[1];
  const Stage* source = each.get();
  while (source->inputs().size() == 1) source = source->inputs()[0].get();
  if (!source->inputs().empty() || source->attrs().count(kPaths) == 0) {
    return errors::InvalidArgument(
        "InterleaveFiles: the pipeline for each file begins with ", source->kind(),
        "; expected a source of files, such as Records, TextLines or Csv");
  }
  const auto of_file = [each](const Element& element) -> absl::StatusOr<Dataset> {
    const std::string* const path = PathOf(element);
    if (path == nullptr) {
      return errors::InvalidArgument("is no path; expected one string, as Files gives it");
    }
    return Dataset(OfFile(each, *path));
  };
  return Open(stage, "InterleaveFiles", of_file, /*of_files=*/true);
}

const bool registered = RegisterStage("Interleave", /*inputs=*/1, OpenInterleave) &&
                        RegisterStage("InterleaveFiles", /*inputs=*/2, OpenInterleaveFiles);

}  // namespace
}  // namespace tandem::data
