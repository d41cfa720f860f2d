// UnsortedSegmentJoin: strings with one segment id joined, in their order.
//
// segment_ids is shaped like the first dimensions of inputs; what follows them stays.
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"

namespace tandem::strings {
namespace {

absl::Status JoinShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(1, 1));
  const PartialShape& inputs = c.input(0);
  const PartialShape& ids = c.input(1);
  if (!inputs.has_rank() || !ids.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  const int leading = ids.rank();
  if (inputs.rank() < leading ||
      !PartialShape(inputs.dims().subspan(0, static_cast<size_t>(leading))).IsCompatibleWith(ids)) {
    return errors::InvalidArgument("segment_ids have shape ", ids.DebugString(),
                                   "; inputs, of shape ", inputs.DebugString(),
                                   ", must begin with it");
  }
  const auto count = c.InputAsInt(2);
  PartialShape output({count.has_value() ? *count : PartialShape::kUnknownDim});
  if (output.dim(0) < PartialShape::kUnknownDim) {
    return errors::InvalidArgument("num_segments is ", output.dim(0), "; it may not be negative");
  }
  for (int i = leading; i < inputs.rank(); ++i) output.AddDim(inputs.dim(i));
  return c.SetOutput(0, std::move(output));
}

class SegmentJoinKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    separator_ = init.Attr<std::string>("separator");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& inputs = c.input(0);
    const Shape& ids_shape = c.input(1).shape();
    const auto leading = static_cast<size_t>(ids_shape.rank());
    if (leading == 0 || inputs.shape().dims().size() < leading ||
        inputs.shape().dims().subspan(0, leading) != ids_shape.dims()) {
      return errors::InvalidArgument("segment_ids have shape ", ids_shape.DebugString(),
                                     "; inputs, of shape ", inputs.shape().DebugString(),
                                     ", must begin with it, and it may not be a scalar");
    }
    TANDEM_ASSIGN_OR_RETURN(const int64_t segments, ScalarArgument(c.input(2), "num_segments"));
    Shape::Dims dims = {segments};
    for (size_t i = leading; i < inputs.shape().dims().size(); ++i) {
      dims.push_back(inputs.shape().dims()[i]);
    }
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(const SmallInts ids, IntsArgument(c.input(1), "segment_ids"));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < segments) continue;
      return errors::InvalidArgument("segment id ", ids[i], ", element ", i, ", lies outside [0, ",
                                     segments, "), which num_segments asks for");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    const auto joined = output->MutableElements<std::string>();
    const auto pieces = inputs.Elements<std::string>();
    const size_t width = ids.empty() ? 0 : pieces.size() / ids.size();
    std::vector<bool> begun(static_cast<size_t>(segments), false);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto segment = static_cast<size_t>(ids[i]);
      for (size_t j = 0; j < width; ++j) {
        std::string& text = joined[segment * width + j];
        if (begun[segment]) text.append(separator_);
        text.append(pieces[i * width + j]);
      }
      begun[segment] = true;
    }
    return absl::OkStatus();
  }

 private:
  std::string separator_;
};

TANDEM_OP("UnsortedSegmentJoin")
    .Inputs("inputs:string, segment_ids:Tindices, num_segments:Tnumsegments")
    .Outputs("output:string")
    .Attrs(
        "separator:string=\"\"; Tindices:type{int32,int64}; "
        "Tnumsegments:type{int32,int64}=int32")
    .Shape(JoinShape)
    .NotDifferentiable()
    .HostMemory({"inputs", "segment_ids", "num_segments", "output"})
    .Cpu(Make<SegmentJoinKernel>());

}  // namespace
}  // namespace tandem::strings
