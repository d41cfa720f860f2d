// ReduceJoin: strings joined over some dimensions, of which the one that is named first runs
// fastest. Without any the strings stay as they are.
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"

namespace tandem::strings {
namespace {

// The dimensions, made positive. OutOfRange: there is no such one. InvalidArgument: one comes
// twice.
absl::StatusOr<std::vector<int>> Axes(const Tensor& tensor, int rank) {
  if (tensor.shape().rank() > 1) {
    return errors::InvalidArgument("reduction_indices must be a scalar or a vector; they have ",
                                   "shape ", tensor.shape().DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(const SmallInts given, IntsArgument(tensor, "reduction_indices"));
  std::vector<int> axes;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t value : given) {
    const absl::StatusOr<int> resolved = ShapeContext::ResolveAxis(value, rank);
    // A code of its own, for TensorFlow has it so.
    if (!resolved.ok())
      return errors::OutOfRange("reduction_indices: ", resolved.status().message());
    const int axis = *resolved;
    if (seen[static_cast<size_t>(axis)]) {
      return errors::InvalidArgument("reduction_indices name dimension ", axis, " twice");
    }
    seen[static_cast<size_t>(axis)] = true;
    axes.push_back(axis);
  }
  return axes;
}

absl::Status JoinShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const auto indices = c.InputValue(1);
  const bool keeps = c.Attr<bool>("keep_dims");
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  if (!indices.has_value()) {
    return c.SetOutput(0,
                       keeps ? PartialShape::UnknownOfRank(input.rank()) : PartialShape::Unknown());
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(*indices, input.rank()));
  std::vector<bool> joined(static_cast<size_t>(input.rank()), false);
  for (const int axis : axes) joined[static_cast<size_t>(axis)] = true;
  PartialShape output({});
  for (int i = 0; i < input.rank(); ++i) {
    if (!joined[static_cast<size_t>(i)]) {
      output.AddDim(input.dim(i));
    } else if (keeps) {
      output.AddDim(1);
    }
  }
  return c.SetOutput(0, std::move(output));
}

// The places, relative to the first, of all elements over some dimensions; the last one fastest.
std::vector<int64_t> Offsets(const Shape& shape, const std::vector<int>& axes) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = strides[static_cast<size_t>(i) + 1] * shape.dim(i + 1);
  }
  std::vector<int64_t> offsets = {0};
  for (const int axis : axes) {
    std::vector<int64_t> more;
    more.reserve(offsets.size() * static_cast<size_t>(shape.dim(axis)));
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < shape.dim(axis); ++i) {
        more.push_back(offset + i * strides[static_cast<size_t>(axis)]);
      }
    }
    offsets = std::move(more);
  }
  return offsets;
}

class ReduceJoinKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    keeps_ = init.Attr<bool>("keep_dims");
    separator_ = init.Attr<std::string>("separator");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape& shape = input.shape();
    TANDEM_ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(c.input(1), shape.rank()));
    std::vector<bool> joined(static_cast<size_t>(shape.rank()), false);
    for (const int axis : axes) joined[static_cast<size_t>(axis)] = true;
    std::vector<int> others;
    Shape::Dims dims;
    for (int i = 0; i < shape.rank(); ++i) {
      if (!joined[static_cast<size_t>(i)]) {
        others.push_back(i);
        dims.push_back(shape.dim(i));
      } else if (keeps_) {
        dims.push_back(1);
      }
    }
    // A product of some of the sizes: it may be too large when another one is 0.
    TANDEM_ASSIGN_OR_RETURN(Shape output_shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(output_shape)));
    // No strings at all join to empty ones, which a new tensor holds.
    if (input.num_elements() == 0) return absl::OkStatus();
    const auto strings = input.Elements<std::string>();
    const auto texts = output->MutableElements<std::string>();
    const std::vector<int64_t> starts = Offsets(shape, others);
    const std::vector<int64_t> steps = Offsets(shape, {axes.rbegin(), axes.rend()});
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t j = 0; j < steps.size(); ++j) {
        if (j > 0) texts[i].append(separator_);
        texts[i].append(strings[static_cast<size_t>(starts[i] + steps[j])]);
      }
    }
    return absl::OkStatus();
  }

 private:
  bool keeps_ = false;
  std::string separator_;
};

TANDEM_OP("ReduceJoin")
    .Inputs("inputs:string, reduction_indices:int32")
    .Outputs("output:string")
    .Attrs("keep_dims:bool=False; separator:string=\"\"")
    .Shape(JoinShape)
    .NotDifferentiable()
    .HostMemory({"inputs", "reduction_indices", "output"})
    .Cpu(Make<ReduceJoinKernel>());

}  // namespace
}  // namespace tandem::strings
