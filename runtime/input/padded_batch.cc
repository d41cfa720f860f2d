// PaddedBatch: elements of different sizes padded and stacked. Attributes: size, drop_remainder,
// shapes (for each component its rank and then its sizes, -1: the largest in the batch), values
// (for each component a scalar).
#include <algorithm>
#include <cstring>
#include <string>

#include "absl/types/optional.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/batch.h"

namespace tandem::data {
namespace {

using Sizes = std::vector<int64_t>;

// Sets all elements of `out` to `value`, or to zeros and empty strings.
void Fill(const Tensor* value, Tensor* out) {
  if (out->dtype() == kString) {
    const absl::Span<std::string> strings = out->MutableElements<std::string>();
    std::fill(strings.begin(), strings.end(),
              value != nullptr ? value->ScalarValue<std::string>() : std::string());
    return;
  }
  if (out->num_bytes() == 0) return;
  if (value == nullptr) {
    std::memset(out->mutable_data(), 0, out->num_bytes());
    return;
  }
  const size_t size = DataTypeSize(out->dtype());
  char* const bytes = static_cast<char*>(out->mutable_data());
  for (size_t i = 0; i < out->num_bytes(); i += size) std::memcpy(bytes + i, value->data(), size);
}

// Copies `in` to the corner of the element `index` of the batch `out`, whose dimensions after the
// first are at least as large.
void CopyToCorner(const Tensor& in, int64_t index, Tensor* out) {
  if (in.num_elements() == 0) return;
  const Shape& shape = in.shape();
  const int rank = shape.rank();
  const int64_t run = rank == 0 ? 1 : shape.dim(rank - 1);
  Sizes position(static_cast<size_t>(rank), 0);
  for (int64_t from = 0; from < in.num_elements(); from += run) {
    int64_t to = index;
    for (int d = 0; d < rank; ++d) {
      to = to * out->shape().dim(d + 1) + position[static_cast<size_t>(d)];
    }
    if (in.dtype() == kString) {
      std::copy_n(in.Elements<std::string>().data() + from, run,
                  out->MutableElements<std::string>().data() + to);
    } else {
      const size_t size = DataTypeSize(in.dtype());
      std::memcpy(static_cast<char*>(out->mutable_data()) + static_cast<size_t>(to) * size,
                  static_cast<const char*>(in.data()) + static_cast<size_t>(from) * size,
                  static_cast<size_t>(run) * size);
    }
    for (int d = rank - 2; d >= 0; --d) {
      if (++position[static_cast<size_t>(d)] < shape.dim(d)) break;
      position[static_cast<size_t>(d)] = 0;
    }
  }
}

struct Padding {
  std::vector<Sizes> shapes;   // Empty: the largest in the batch, for all.
  std::vector<Tensor> values;  // Empty: zeros.
};

// The shape that component `c` is padded to.
absl::StatusOr<Shape> PaddedShape(const std::vector<Element>& elements, int64_t begin, size_t c,
                                  const Padding& padding) {
  const int rank = elements[0][c].shape().rank();
  Sizes sizes(static_cast<size_t>(rank), -1);
  if (!padding.shapes.empty()) {
    if (padding.shapes[c].size() != sizes.size()) {
      return errors::InvalidArgument("PaddedBatch: component ", c, " has rank ", rank,
                                     ", the shape to pad to has rank ", padding.shapes[c].size());
    }
    sizes = padding.shapes[c];
  }
  Sizes dims{static_cast<int64_t>(elements.size())};
  for (int d = 0; d < rank; ++d) {
    int64_t size = sizes[static_cast<size_t>(d)];
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t found = elements[i][c].shape().dim(d);
      if (sizes[static_cast<size_t>(d)] < 0) {
        size = std::max(size, found);
      } else if (found > size) {
        return errors::InvalidArgument("PaddedBatch: component ", c, " of element ",
                                       begin + static_cast<int64_t>(i), " has the shape ",
                                       elements[i][c].shape().DebugString(), ", dimension ", d,
                                       " is to be padded to ", size, "; expected at most that");
      }
    }
    dims.push_back(size);
  }
  return Shape::FromDims(dims);
}

class PaddedBatchPass final : public Pass {
 public:
  PaddedBatchPass(std::unique_ptr<Pass> input, const BatchSize& batch, const Padding& padding)
      : input_(std::move(input)), batch_(batch), padding_(padding) {}

  absl::StatusOr<MaybeElement> Next() override {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Element> elements, ReadBatch(*input_, batch_));
    if (elements.empty()) return MaybeElement();
    const int64_t begin = read_;
    read_ += static_cast<int64_t>(elements.size());
    TANDEM_RETURN_IF_ERROR(CheckAlike("PaddedBatch", elements, begin, Same::kRank,
                                      "padding needs equal types and ranks"));
    const size_t components = elements[0].size();
    for (const size_t given : {padding_.shapes.size(), padding_.values.size()}) {
      if (given != 0 && given != components) {
        return errors::InvalidArgument("PaddedBatch: element ", begin, " has ", components,
                                       " components, there are shapes or values for ", given);
      }
    }
    Element result;
    for (size_t c = 0; c < components; ++c) {
      const DataType type = elements[0][c].dtype();
      const Tensor* const value = padding_.values.empty() ? nullptr : &padding_.values[c];
      if (value != nullptr && (value->dtype() != type || value->num_elements() != 1)) {
        return errors::InvalidArgument("PaddedBatch: the value for component ", c, " is ",
                                       value->DebugString(), "; expected a scalar of type ",
                                       DataTypeName(type));
      }
      TANDEM_ASSIGN_OR_RETURN(Shape shape, PaddedShape(elements, begin, c, padding_));
      TANDEM_ASSIGN_OR_RETURN(Tensor padded, Tensor::Create(type, std::move(shape)));
      Fill(value, &padded);
      for (size_t i = 0; i < elements.size(); ++i) {
        CopyToCorner(elements[i][c], static_cast<int64_t>(i), &padded);
      }
      result.push_back(std::move(padded));
    }
    return MaybeElement(std::move(result));
  }

  absl::Status Save(InputState* state) override {
    state->set_kind("PaddedBatch");
    state->add_numbers(read_);
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "PaddedBatch", 1, 1));
    read_ = state.numbers(0);
    return input_->Restore(state.inputs(0));
  }

 private:
  const std::unique_ptr<Pass> input_;
  const BatchSize batch_;
  const Padding& padding_;
  int64_t read_ = 0;  // Elements in batches so far, for messages.
};

class PaddedBatchStage final : public OpenedStage {
 public:
  PaddedBatchStage(OpenedStagePtr input, const BatchSize& batch, Padding padding)
      : input_(std::move(input)), batch_(batch), padding_(std::move(padding)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    return std::make_unique<PaddedBatchPass>(std::move(input), batch_, padding_);
  }
  int64_t cardinality() const override { return batch_.Cardinality(input_->cardinality()); }

 private:
  const OpenedStagePtr input_;
  const BatchSize batch_;
  const Padding padding_;
};

absl::StatusOr<OpenedStagePtr> OpenPaddedBatch(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const BatchSize batch, BatchSize::From(stage));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const shapes, stage.List("shapes"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const values, stage.List("values"));
  Padding padding;
  padding.values = values->tensors;
  const int64_t length = static_cast<int64_t>(shapes->ints.size());
  for (int64_t at = 0; at < length;) {
    const int64_t rank = shapes->ints[static_cast<size_t>(at)];
    if (rank < 0 || rank > kMaxRank || rank > length - at - 1) {
      return errors::InvalidArgument("PaddedBatch: attribute 'shapes' is malformed: a rank of ",
                                     rank, " with ", length - at - 1, " numbers left");
    }
    const auto begin = shapes->ints.begin() + at + 1;
    padding.shapes.emplace_back(begin, begin + rank);
    for (const int64_t size : padding.shapes.back()) {
      if (size < -1) {
        return errors::InvalidArgument("PaddedBatch: a size to pad to is ", size,
                                       ", expected -1 (the largest in the batch), 0 or more");
      }
    }
    at += rank + 1;
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const PaddedBatchStage>(std::move(input), batch, std::move(padding));
}

const bool registered = RegisterStage("PaddedBatch", /*inputs=*/1, OpenPaddedBatch);

}  // namespace
}  // namespace tandem::data
