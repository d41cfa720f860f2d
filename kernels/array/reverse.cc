// ReverseV2 and ReverseSequence.
#include <vector>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

// --- ReverseV2

absl::StatusOr<std::vector<bool>> ReversedDims(absl::Span<const int64_t> axes, int rank) {
  std::vector<bool> reversed(static_cast<size_t>(rank), false);
  for (const int64_t given : axes) {
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given, rank));
    if (reversed[static_cast<size_t>(axis)]) {
      return errors::InvalidArgument("axis ", given, " is given twice");
    }
    reversed[static_cast<size_t>(axis)] = true;
  }
  return reversed;
}

absl::Status ReverseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  const absl::optional<Ints> axes = KnownInts(c, 1);
  if (axes.has_value() && c.input(0).has_rank()) {
    TANDEM_RETURN_IF_ERROR(ReversedDims(*axes, c.input(0).rank()).status());
  }
  return UnchangedShape(c);
}

absl::Status Reverse(KernelContext& c) {
  const Tensor& input = c.input(0);
  const Shape& shape = input.shape();
  TANDEM_ASSIGN_OR_RETURN(const Ints axes, VectorArgument(c.input(1), "axis"));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<bool> reversed, ReversedDims(axes, shape.rank()));
  const auto strides = Strides(shape.dims());
  LoopDims dims;
  int64_t last = 0;
  bool moves = false;
  for (size_t i = 0; i < reversed.size(); ++i) {
    const int64_t size = shape.dim(static_cast<int>(i));
    if (reversed[i]) {
      last += (size - 1) * strides[i];
      moves = moves || size > 1;
    }
    dims.push_back({size, strides[i], reversed[i] ? -strides[i] : strides[i]});
  }
  if (!moves || input.num_elements() == 0) {
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  CopyStrided(c.parallel(), input.dtype(), output->mutable_data(),
              ElementAt(input.dtype(), input.data(), last), std::move(dims));
  return absl::OkStatus();
}

absl::Status ReverseGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ReverseV2", {g.OutputGradient(0), g.input(1)}));
  return absl::OkStatus();
}

// --- ReverseSequence: element b of dimension `batch_dim` is reversed along `seq_dim`, up to its
// length.

absl::Status CheckDims(int64_t seq_dim, int64_t batch_dim, int rank) {
  if (seq_dim < 0 || seq_dim >= rank || batch_dim < 0 || batch_dim >= rank ||
      seq_dim == batch_dim) {
    return errors::InvalidArgument("'seq_dim' is ", seq_dim, " and 'batch_dim' is ", batch_dim,
                                   "; two different dimensions of a tensor of rank ", rank,
                                   " are wanted");
  }
  return absl::OkStatus();
}

absl::Status ReverseSequenceShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return UnchangedShape(c);
  const int64_t batch_dim = c.Attr<int64_t>("batch_dim");
  TANDEM_RETURN_IF_ERROR(CheckDims(c.Attr<int64_t>("seq_dim"), batch_dim, input.rank()));
  PartialShape output = input;
  if (c.input(1).has_rank()) {
    const int d = static_cast<int>(batch_dim);
    absl::StatusOr<int64_t> merged = MergeSizes(input.dim(d), c.input(1).dim(0));
    if (!merged.ok()) {
      return errors::InvalidArgument("'seq_lengths' has ", c.input(1).dim(0),
                                     " elements; dimension ", d, " of the input has size ",
                                     input.dim(d));
    }
    output.SetDim(d, *merged);
  }
  return c.SetOutput(0, std::move(output));
}

class ReverseSequenceKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    seq_dim_ = init.Attr<int64_t>("seq_dim");
    batch_dim_ = init.Attr<int64_t>("batch_dim");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape& shape = input.shape();
    TANDEM_RETURN_IF_ERROR(CheckDims(seq_dim_, batch_dim_, shape.rank()));
    const int64_t batches = shape.dim(static_cast<int>(batch_dim_));
    const int64_t steps = shape.dim(static_cast<int>(seq_dim_));
    TANDEM_ASSIGN_OR_RETURN(const Ints lengths, VectorArgument(c.input(1), "seq_lengths"));
    if (static_cast<int64_t>(lengths.size()) != batches) {
      return errors::InvalidArgument("'seq_lengths' has ", lengths.size(), " elements; dimension ",
                                     batch_dim_, " of the input has size ", batches);
    }
    for (size_t b = 0; b < lengths.size(); ++b) {
      if (lengths[b] < 0 || lengths[b] > steps) {
        return errors::InvalidArgument("seq_lengths[", b, "] is ", lengths[b], ", outside [0, ",
                                       steps, "], the size of dimension ", seq_dim_);
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    const auto strides = Strides(shape.dims());
    const size_t seq = static_cast<size_t>(seq_dim_);
    const size_t batch = static_cast<size_t>(batch_dim_);
    LoopDims dims;
    for (int i = 0; i < shape.rank(); ++i) {
      dims.push_back(
          {shape.dim(i), strides[static_cast<size_t>(i)], strides[static_cast<size_t>(i)]});
    }
    dims[batch].size = 1;
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      const int64_t at = b * strides[batch];
      const auto copy = [&](int64_t to_step, int64_t from_step) {
        CopyStrided(c.parallel(), input.dtype(),
                    ElementAt(input.dtype(), output->mutable_data(), at + to_step * strides[seq]),
                    ElementAt(input.dtype(), input.data(), at + from_step * strides[seq]), dims);
      };
      dims[seq] = {length, strides[seq], -strides[seq]};
      if (length > 0) copy(0, length - 1);
      dims[seq] = {steps - length, strides[seq], strides[seq]};
      if (length < steps) copy(length, length);
    }
    return absl::OkStatus();
  }

 private:
  int64_t seq_dim_ = 0;
  int64_t batch_dim_ = 0;
};

absl::Status ReverseSequenceGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ReverseSequence", {g.OutputGradient(0), g.input(1)},
                               {{"seq_dim", g.Attr<int64_t>("seq_dim")},
                                {"batch_dim", g.Attr<int64_t>("batch_dim")}}));
  return absl::OkStatus();
}

TANDEM_OP("ReverseV2")
    .Inputs("tensor:T, axis:Tidx")
    .Outputs("output:T")
    .Attrs(
        "Tidx:type{int32,int64}=int32; T:type{uint8,int8,uint16,int16,int32,uint32,int64,"
        "uint64,bool,bfloat16,float16,float32,float64,complex64,complex128,string}")
    .Shape(ReverseShape)
    .Gradient(ReverseGradient)
    .HostMemory({"axis"})
    .Cpu(ForTypes("T", AllTypesBut({kResource, kVariant}), Function(Reverse)));

TANDEM_OP("ReverseSequence")
    .Inputs("input:T, seq_lengths:Tlen")
    .Outputs("output:T")
    .Attrs("seq_dim:int; batch_dim:int=0; T:type; Tlen:type{int32,int64}=int64")
    .Shape(ReverseSequenceShape)
    .Gradient(ReverseSequenceGradient)
    .HostMemory({"seq_lengths"})
    .Cpu(Make<ReverseSequenceKernel>("T", AllTypesBut({kResource, kVariant})));

}  // namespace
}  // namespace tandem::array
