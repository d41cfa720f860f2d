// Shard: the elements whose index has one remainder. Attributes: shards, index.
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

class ShardPass final : public Pass {
 public:
  ShardPass(std::unique_ptr<Pass> input, int64_t shards, int64_t index)
      : input_(std::move(input)), shards_(shards), index_(index) {}

  absl::StatusOr<MaybeElement> Next() override {
    for (;;) {
      absl::StatusOr<MaybeElement> element = input_->Next();
      if (element.ok() && !element->has_value()) return element;
      const bool mine = position_ == index_;
      position_ = (position_ + 1) % shards_;
      if (mine || !element.ok()) return element;
    }
  }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    for (int64_t given = 0; given < count;) {
      // Up to the next row of this shard.
      taken_.clear();
      const int64_t distance = (index_ - position_ + shards_) % shards_ + 1;
      TANDEM_RETURN_IF_ERROR(input_->NextRows(distance, &taken_));
      position_ = (position_ + static_cast<int64_t>(taken_.size())) % shards_;
      if (static_cast<int64_t>(taken_.size()) < distance) return absl::OkStatus();
      rows->push_back(taken_.back());
      ++given;
    }
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Shard");
    state->add_numbers(position_);
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Shard", 1, 1));
    if (state.numbers(0) < 0 || state.numbers(0) >= shards_) {
      return BadState("Shard", absl::StrCat("is of other than ", shards_, " shards"));
    }
    position_ = state.numbers(0);
    return input_->Restore(state.inputs(0));
  }

 private:
  const std::unique_ptr<Pass> input_;
  const int64_t shards_;
  const int64_t index_;
  int64_t position_ = 0;  // Of the input's next element, modulo shards_.
  std::vector<int64_t> taken_;
};

class ShardStage final : public OpenedStage {
 public:
  ShardStage(OpenedStagePtr input, int64_t shards, int64_t index)
      : input_(std::move(input)), shards_(shards), index_(index) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    return std::make_unique<ShardPass>(std::move(input), shards_, index_);
  }
  int64_t cardinality() const override {
    const int64_t size = input_->cardinality();
    return size < 0 ? size : size / shards_ + (index_ < size % shards_ ? 1 : 0);
  }
  const RowSource* rows() const override { return input_->rows(); }

 private:
  const OpenedStagePtr input_;
  const int64_t shards_;
  const int64_t index_;
};

absl::StatusOr<OpenedStagePtr> OpenShard(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t shards, stage.Int("shards"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t index, stage.Int("index"));
  if (shards < 1) {
    return errors::InvalidArgument("Shard: the number of shards is ", shards,
                                   ", expected at least 1");
  }
  if (index < 0 || index >= shards) {
    return errors::InvalidArgument("Shard: the index is ", index, ", expected 0 to ", shards - 1,
                                   " for ", shards, " shards");
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const ShardStage>(std::move(input), shards, index);
}

const bool registered = RegisterStage("Shard", /*inputs=*/1, OpenShard);

}  // namespace
}  // namespace tandem::data
