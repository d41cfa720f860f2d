// SpaceToDepth and DepthToSpace: square blocks of pixels become the channels of one pixel, and
// back.
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

absl::StatusOr<bool> ChannelsLast(const std::string& format) {
  if (format == "NHWC") return true;
  if (format == "NCHW") return false;
  return errors::Unimplemented("images in the layout ", format,
                               "; there are kernels for NHWC and NCHW");
}

absl::StatusOr<PartialShape> OutputShape(const PartialShape& input, bool channels_last,
                                         int64_t block, bool to_depth) {
  if (input.rank() != 4) {
    return errors::InvalidArgument("images must have rank 4, not shape ", input.DebugString());
  }
  constexpr int64_t kLimit = int64_t{1} << 31;  // Its square overflows nothing.
  if (block < 2 || block >= kLimit) {
    return errors::InvalidArgument("block_size is ", block, "; it must lie in [2, ", kLimit, ")");
  }
  PartialShape output = input;
  const int channel = channels_last ? 3 : 1;
  const int row = channels_last ? 1 : 2;
  for (const int dim : {row, row + 1, channel}) {
    const int64_t size = input.dim(dim);
    if (size < 0) continue;
    const int64_t by = dim == channel ? block * block : block;
    if ((dim == channel) == to_depth) {
      if (size > (int64_t{1} << 62) / by) {
        return errors::InvalidArgument("images of shape ", input.DebugString(),
                                       " become too large with blocks of ", block);
      }
      output.SetDim(dim, size * by);
    } else if (size % by == 0) {
      output.SetDim(dim, size / by);
    } else {
      return errors::InvalidArgument("images of shape ", input.DebugString(), " have ", size,
                                     " in dimension ", dim, ", which is no multiple of ", by);
    }
  }
  return output;
}

template <bool kToDepth>
absl::Status Shapes(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const bool last, ChannelsLast(c.Attr<std::string>("data_format")));
  if (!c.input(0).has_rank()) return c.SetOutput(0, PartialShape::UnknownOfRank(4));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output,
                          OutputShape(c.input(0), last, c.Attr<int64_t>("block_size"), kToDepth));
  return c.SetOutput(0, std::move(output));
}

template <bool kToDepth>
class BlockKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(channels_last_, ChannelsLast(init.Attr<std::string>("data_format")));
    block_ = init.Attr<int64_t>("block_size");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const PartialShape partial,
                            OutputShape(input.shape(), channels_last_, block_, kToDepth));
    TANDEM_ASSIGN_OR_RETURN(Shape shape, partial.ToShape());
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();

    const int channel = channels_last_ ? 3 : 1;
    const int row = channels_last_ ? 1 : 2;
    const Shape& space = kToDepth ? input.shape() : output->shape();
    const Shape& depth = kToDepth ? output->shape() : input.shape();
    const auto s = Strides(space.dims());
    const auto d = Strides(depth.dims());
    LoopDims dims;
    const auto add = [&](int64_t size, int64_t in_space, int64_t in_depth) {
      dims.push_back(kToDepth ? LoopDim{size, in_depth, in_space}
                              : LoopDim{size, in_space, in_depth});
    };
    // Channels of the depth are (row in the block, column in the block, channel of the space).
    const int64_t channels = space.dim(channel);
    const auto at = [](int dim) { return static_cast<size_t>(dim); };
    add(space.dim(0), s[0], d[0]);
    add(depth.dim(row), s[at(row)] * block_, d[at(row)]);
    add(depth.dim(row + 1), s[at(row + 1)] * block_, d[at(row + 1)]);
    add(block_, s[at(row)], d[at(channel)] * channels * block_);
    add(block_, s[at(row + 1)], d[at(channel)] * channels);
    add(channels, s[at(channel)], d[at(channel)]);
    CopyStrided(c.parallel(), input.dtype(), output->mutable_data(), input.data(), std::move(dims));
    return absl::OkStatus();
  }

 private:
  bool channels_last_ = true;
  int64_t block_ = 2;
};

// Each is the other's gradient.
absl::Status BlockGradient(GradientContext& g) {
  const bool to_depth = g.node().type() == "SpaceToDepth";
  g.SetInputGradient(0, g.Call(to_depth ? "DepthToSpace" : "SpaceToDepth", {g.OutputGradient(0)},
                               {{"block_size", g.Attr<int64_t>("block_size")},
                                {"data_format", g.Attr<std::string>("data_format")}}));
  return absl::OkStatus();
}

constexpr char kAttrs[] =
    "T:type; block_size:int>=2; data_format:string{NHWC,NCHW,NCHW_VECT_C}=NHWC";

TANDEM_OP("SpaceToDepth")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .Shape(Shapes<true>)
    .Gradient(BlockGradient)
    .Cpu(Make<BlockKernel<true>>("T", AllTypes()));

TANDEM_OP("DepthToSpace")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .Shape(Shapes<false>)
    .Gradient(BlockGradient)
    .Cpu(Make<BlockKernel<false>>("T", AllTypes()));

}  // namespace
}  // namespace tandem::array
