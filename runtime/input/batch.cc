// Batch: elements stacked. Attributes: size, drop_remainder.
#include "runtime/input/batch.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "proto/input.pb.h"

namespace tandem::data {
namespace {

absl::StatusOr<Element> Stack(const std::vector<Element>& elements) {
  Element result;
  result.reserve(elements[0].size());
  for (size_t c = 0; c < elements[0].size(); ++c) {
    const Tensor& first = elements[0][c];
    Shape::Dims dims{static_cast<int64_t>(elements.size())};
    dims.insert(dims.end(), first.shape().dims().begin(), first.shape().dims().end());
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor stacked, Tensor::Create(first.dtype(), std::move(shape)));
    const size_t bytes = first.num_bytes();
    const size_t count = static_cast<size_t>(first.num_elements());
    for (size_t i = 0; i < elements.size(); ++i) {
      const Tensor& tensor = elements[i][c];
      if (first.dtype() == kString) {
        std::copy_n(tensor.Elements<std::string>().data(), count,
                    stacked.MutableElements<std::string>().data() + i * count);
      } else if (bytes > 0) {
        std::memcpy(static_cast<char*>(stacked.mutable_data()) + i * bytes, tensor.data(), bytes);
      }
    }
    result.push_back(std::move(stacked));
  }
  return result;
}

class BatchPass final : public Pass {
 public:
  BatchPass(std::unique_ptr<Pass> input, const RowSource* rows, const BatchSize& batch)
      : input_(std::move(input)), rows_(rows), batch_(batch) {}

  absl::StatusOr<MaybeElement> Next() override {
    if (rows_ != nullptr) return Gather();
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Element> elements, ReadBatch(*input_, batch_));
    if (elements.empty()) return MaybeElement();
    const int64_t begin = read_;
    read_ += static_cast<int64_t>(elements.size());
    TANDEM_RETURN_IF_ERROR(CheckAlike("Batch", elements, begin, Same::kShape,
                                      "PaddedBatch pads elements of different sizes"));
    TANDEM_ASSIGN_OR_RETURN(Element stacked, Stack(elements));
    return MaybeElement(std::move(stacked));
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("Batch");
    state->add_numbers(read_);
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Batch", 1, 1));
    read_ = state.numbers(0);
    return input_->Restore(state.inputs(0));
  }

 private:
  absl::StatusOr<MaybeElement> Gather() {
    chosen_.clear();
    TANDEM_RETURN_IF_ERROR(input_->NextRows(batch_.size, &chosen_));
    const bool partial = static_cast<int64_t>(chosen_.size()) < batch_.size;
    if (chosen_.empty() || (partial && batch_.drop_remainder)) return MaybeElement();
    TANDEM_ASSIGN_OR_RETURN(Element gathered, rows_->Gather(chosen_));
    return MaybeElement(std::move(gathered));
  }

  const std::unique_ptr<Pass> input_;
  const RowSource* const rows_;  // Null: the input has none.
  const BatchSize batch_;
  int64_t read_ = 0;             // Elements in batches so far, for messages.
  std::vector<int64_t> chosen_;  // Scratch.
};

class BatchStage final : public OpenedStage {
 public:
  BatchStage(OpenedStagePtr input, const BatchSize& batch)
      : input_(std::move(input)), batch_(batch) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    return std::make_unique<BatchPass>(std::move(input), input_->rows(), batch_);
  }
  int64_t cardinality() const override { return batch_.Cardinality(input_->cardinality()); }

 private:
  const OpenedStagePtr input_;
  const BatchSize batch_;
};

absl::StatusOr<OpenedStagePtr> OpenBatch(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const BatchSize batch, BatchSize::From(stage));
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const BatchStage>(std::move(input), batch);
}

const bool registered = RegisterStage("Batch", /*inputs=*/1, OpenBatch);

}  // namespace

absl::StatusOr<BatchSize> BatchSize::From(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, stage.Int("size"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t drop_remainder, stage.Int("drop_remainder"));
  if (size < 1) {
    return errors::InvalidArgument(stage.kind(), ": the batch size is ", size,
                                   ", expected at least 1");
  }
  return BatchSize{size, drop_remainder != 0};
}

int64_t BatchSize::Cardinality(int64_t input) const {
  if (input < 0) return input;
  return input / size + (!drop_remainder && input % size != 0 ? 1 : 0);
}

absl::StatusOr<std::vector<Element>> ReadBatch(Pass& input, const BatchSize& batch) {
  std::vector<Element> elements;
  while (static_cast<int64_t>(elements.size()) < batch.size) {
    TANDEM_ASSIGN_OR_RETURN(MaybeElement element, input.Next());
    if (!element) {
      if (batch.drop_remainder) elements.clear();
      break;
    }
    elements.push_back(*std::move(element));
  }
  return elements;
}

absl::Status CheckAlike(absl::string_view kind, const std::vector<Element>& elements, int64_t begin,
                        Same same, absl::string_view advice) {
  const Element& first = elements[0];
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t index = begin + static_cast<int64_t>(i);
    if (elements[i].size() != first.size()) {
      return errors::InvalidArgument(kind, ": element ", index, " has ", elements[i].size(),
                                     " components, the first of its batch has ", first.size());
    }
    for (size_t c = 0; c < first.size(); ++c) {
      const Tensor& tensor = elements[i][c];
      const bool alike = tensor.dtype() == first[c].dtype() &&
                         (same == Same::kShape ? tensor.shape() == first[c].shape()
                                               : tensor.shape().rank() == first[c].shape().rank());
      if (!alike) {
        return errors::InvalidArgument(
            kind, ": component ", c, " of element ", index, " is ", DataTypeName(tensor.dtype()),
            tensor.shape().DebugString(), ", the first of its batch has ",
            DataTypeName(first[c].dtype()), first[c].shape().DebugString(), "; ", advice);
      }
      if (tensor.dtype() != kString &&
          !(tensor.is_valid() && IsTriviallyCopyable(tensor.dtype()))) {
        return errors::InvalidArgument(kind, ": component ", c, " of element ", index, " is ",
                                       DataTypeName(tensor.dtype()),
                                       "; expected numbers or strings");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::data
