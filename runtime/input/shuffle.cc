// Shuffle: a random order, through a buffer. Attributes: buffer, seed, reshuffle.
//
// The buffer is filled from the input. Each time a uniformly drawn element of it is given, and the
// input's next one takes its place; when the input has ended, the buffer's last one does. When the
// whole input fits into the buffer this is the shuffle of R. Durstenfeld (Algorithm 235, Comm. ACM
// 7, 1964), which gives each permutation the same chance.
//
// Over an input with rows the buffer holds row numbers; the algorithm and its order are the same.
#include <algorithm>

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/random.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

// The position of a pass apart from the buffer's contents and the input.
absl::Status RestoreShuffle(const InputState& state, int64_t held, int64_t capacity,
                            Random* random) {
  TANDEM_RETURN_IF_ERROR(CheckState(state, "Shuffle", 1, 1));
  if (held > capacity) {
    return BadState("Shuffle", absl::StrCat("holds ", held, " elements, the buffer is ", capacity));
  }
  random->set_state(static_cast<uint64_t>(state.numbers(0)));
  return absl::OkStatus();
}

class RowShufflePass final : public Pass {
 public:
  RowShufflePass(std::unique_ptr<Pass> input, const RowSource& rows, int64_t capacity,
                 Random random)
      : input_(std::move(input)), rows_(rows), capacity_(capacity), random_(random) {}

  absl::StatusOr<MaybeElement> Next() override { return NextFromRows(*this, rows_); }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    const int64_t missing = capacity_ - static_cast<int64_t>(buffer_.size());
    if (missing > 0) TANDEM_RETURN_IF_ERROR(input_->NextRows(missing, &buffer_));
    incoming_.clear();
    count = std::min(count, capacity_ == static_cast<int64_t>(buffer_.size())
                                ? count
                                : static_cast<int64_t>(buffer_.size()));
    TANDEM_RETURN_IF_ERROR(input_->NextRows(count, &incoming_));
    for (size_t i = 0; i < static_cast<size_t>(count) && !buffer_.empty(); ++i) {
      int64_t& chosen = buffer_[random_.Below(buffer_.size())];
      rows->push_back(chosen);
      if (i < incoming_.size()) {
        chosen = incoming_[i];
      } else {
        chosen = buffer_.back();
        buffer_.pop_back();
      }
    }
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Shuffle");
    state->add_numbers(static_cast<int64_t>(random_.state()));
    state->mutable_rows()->Add(buffer_.begin(), buffer_.end());
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(RestoreShuffle(state, state.rows_size(), capacity_, &random_));
    for (const int64_t row : state.rows()) {
      if (row < 0 || row >= rows_.size()) {
        return BadState("Shuffle", absl::StrCat("holds row ", row, " of ", rows_.size()));
      }
    }
    buffer_.assign(state.rows().begin(), state.rows().end());
    return input_->Restore(state.inputs(0));
  }

 private:
  const std::unique_ptr<Pass> input_;
  const RowSource& rows_;
  const int64_t capacity_;
  Random random_;
  std::vector<int64_t> buffer_;
  std::vector<int64_t> incoming_;  // Scratch.
};

class ElementShufflePass final : public Pass {
 public:
  ElementShufflePass(std::unique_ptr<Pass> input, int64_t capacity, Random random)
      : input_(std::move(input)), capacity_(capacity), random_(random) {}

  // Elements are read before one is given, so that an error of the input leaves the buffer whole.
  absl::StatusOr<MaybeElement> Next() override {
    while (!ended_ && static_cast<int64_t>(buffer_.size()) < capacity_) {
      TANDEM_RETURN_IF_ERROR(Read(nullptr));
    }
    if (buffer_.empty()) return MaybeElement();
    Element incoming;
    if (!ended_) TANDEM_RETURN_IF_ERROR(Read(&incoming));
    Element& chosen = buffer_[random_.Below(buffer_.size())];
    MaybeElement result = std::move(chosen);
    if (!ended_) {
      chosen = std::move(incoming);
    } else {
      if (&chosen != &buffer_.back()) chosen = std::move(buffer_.back());
      buffer_.pop_back();
    }
    return result;
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Shuffle");
    state->add_numbers(static_cast<int64_t>(random_.state()));
    for (const Element& element : buffer_) {
      TANDEM_RETURN_IF_ERROR(SaveElement(element, state->add_elements()));
    }
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(RestoreShuffle(state, state.elements_size(), capacity_, &random_));
    for (const InputElement& proto : state.elements()) {
      absl::StatusOr<Element> element;
      TANDEM_RETURN_IF_ERROR(LoadElement(proto, &element));
      if (!element.ok()) return BadState("Shuffle", "holds an error");
      buffer_.push_back(*std::move(element));
    }
    return input_->Restore(state.inputs(0));
  }

 private:
  // The input's next element into the buffer, or to `out`.
  absl::Status Read(Element* out) {
    TANDEM_ASSIGN_OR_RETURN(MaybeElement element, input_->Next());
    if (!element) {
      ended_ = true;
    } else if (out != nullptr) {
      *out = *std::move(element);
    } else {
      buffer_.push_back(*std::move(element));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<Pass> input_;
  const int64_t capacity_;
  Random random_;
  std::vector<Element> buffer_;
  bool ended_ = false;
};

class ShuffleStage final : public OpenedStage {
 public:
  ShuffleStage(OpenedStagePtr input, int64_t buffer, uint64_t seed, bool reshuffle)
      : input_(std::move(input)), buffer_(buffer), seed_(seed), reshuffle_(reshuffle) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    const Random random(seed_, reshuffle_ ? context.iteration : 0);
    if (rows() != nullptr) {
      return std::make_unique<RowShufflePass>(std::move(input), *rows(), buffer_, random);
    }
    return std::make_unique<ElementShufflePass>(std::move(input), buffer_, random);
  }
  int64_t cardinality() const override { return input_->cardinality(); }
  const RowSource* rows() const override { return input_->rows(); }

 private:
  const OpenedStagePtr input_;
  const int64_t buffer_;
  const uint64_t seed_;
  const bool reshuffle_;
};

absl::StatusOr<OpenedStagePtr> OpenShuffle(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t buffer, stage.Int("buffer"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t seed, stage.Int("seed"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t reshuffle, stage.Int("reshuffle"));
  if (buffer < 1) {
    return errors::InvalidArgument("Shuffle: the buffer is ", buffer,
                                   " elements, expected at least 1");
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const ShuffleStage>(std::move(input), buffer, static_cast<uint64_t>(seed),
                                              reshuffle != 0);
}

const bool registered = RegisterStage("Shuffle", /*inputs=*/1, OpenShuffle);

}  // namespace
}  // namespace tandem::data
