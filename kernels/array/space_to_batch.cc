// SpaceToBatchND and BatchToSpaceND, and their first versions for images.
//
// A space that is padded to a multiple of a block's size is cut into blocks; the elements at the
// same place in all blocks become a batch of their own. So a window over one of these batches is a
// dilated window over the space. The way back crops instead of padding.
#include <algorithm>
#include <utility>
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

// One dimension of the space: how long its blocks are, and what is beside it.
struct Side {
  int64_t block;
  int64_t before;  // Padding, or what is cropped.
  int64_t after;
};

absl::StatusOr<std::vector<Side>> MakeSides(absl::Span<const int64_t> block,
                                            absl::Span<const int64_t> paddings,
                                            absl::string_view name) {
  std::vector<Side> sides;
  for (size_t i = 0; i < block.size(); ++i) {
    const Side side = {block[i], paddings[2 * i], paddings[2 * i + 1]};
    constexpr int64_t kLimit = int64_t{1} << 40;  // Sums of them overflow nothing.
    if (side.block < 1 || side.block > kLimit) {
      return errors::InvalidArgument("block_shape[", i, "] is ", side.block,
                                     "; a positive size is wanted");
    }
    if (side.before < 0 || side.after < 0 || side.before > kLimit || side.after > kLimit) {
      return errors::InvalidArgument(name, "[", i, "] is [", side.before, ",", side.after,
                                     "]; sizes that are not negative are wanted");
    }
    sides.push_back(side);
  }
  return sides;
}

// The output's size for one of the input's, -1 when that is unknown.
absl::StatusOr<int64_t> CellsOf(const Side& side, int64_t space, int dim) {
  if (space < 0) return PartialShape::kUnknownDim;
  TANDEM_ASSIGN_OR_RETURN(const int64_t padded, AddSizes(space, side.before + side.after));
  if (padded % side.block == 0) return padded / side.block;
  return errors::InvalidArgument("dimension ", dim, " has ", padded,
                                 " elements with its padding, which is no multiple of ",
                                 side.block);
}
absl::StatusOr<int64_t> SpaceOf(const Side& side, int64_t cells, int dim) {
  if (cells < 0) return PartialShape::kUnknownDim;
  if (cells > (int64_t{1} << 62) / side.block) {
    return errors::InvalidArgument("dimension ", dim, " has ", cells, " blocks of ", side.block,
                                   " elements, too many");
  }
  const int64_t whole = cells * side.block;
  if (whole >= side.before + side.after) return whole - side.before - side.after;
  return errors::InvalidArgument("dimension ", dim, " has ", whole, " elements, of which ",
                                 side.before + side.after, " cannot be cropped");
}

absl::StatusOr<PartialShape> OutputShape(const PartialShape& input, const std::vector<Side>& sides,
                                         bool to_batch) {
  const int rank = static_cast<int>(sides.size());
  if (input.rank() < rank + 1) {
    return errors::InvalidArgument("an input of shape ", input.DebugString(), " has no ", rank,
                                   " dimensions after its first");
  }
  PartialShape output = input;
  int64_t blocks = 1;
  for (int i = 0; i < rank; ++i) {
    const Side& side = sides[static_cast<size_t>(i)];
    if (side.block > (int64_t{1} << 62) / blocks) {
      return errors::InvalidArgument("the blocks have too many elements");
    }
    blocks *= side.block;
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, to_batch ? CellsOf(side, input.dim(i + 1), i + 1)
                                                         : SpaceOf(side, input.dim(i + 1), i + 1));
    output.SetDim(i + 1, size);
  }
  const int64_t batch = input.dim(0);
  if (to_batch) {
    if (batch > 0 && batch > (int64_t{1} << 62) / blocks) {
      return errors::InvalidArgument("a batch of ", batch, " times ", blocks, " is too large");
    }
    output.SetDim(0, MultiplySizes(batch, blocks));
  } else {
    if (batch >= 0 && batch % blocks != 0) {
      return errors::InvalidArgument("a batch of ", batch, " is no multiple of the ", blocks,
                                     " elements of a block");
    }
    output.SetDim(0, batch < 0 ? batch : batch / blocks);
  }
  return output;
}

absl::Status CheckArguments(const PartialShape& block, const PartialShape& paddings,
                            absl::string_view name) {
  const bool fits = (!block.has_rank() || block.rank() == 1) &&
                    (!paddings.has_rank() ||
                     (paddings.rank() == 2 && (paddings.dim(1) < 0 || paddings.dim(1) == 2) &&
                      (!block.has_rank() || block.dim(0) < 0 || paddings.dim(0) < 0 ||
                       paddings.dim(0) == block.dim(0))));
  if (fits) return absl::OkStatus();
  return errors::InvalidArgument("block_shape of shape ", block.DebugString(), " and ", name,
                                 " of shape ", paddings.DebugString(), " must be [n] and [n,2]");
}

// The copies between the space and the batches: one for each place in a block.
absl::Status MoveBlocks(KernelContext& c, const std::vector<Side>& sides, bool to_batch) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const PartialShape partial, OutputShape(input.shape(), sides, to_batch));
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, partial.ToShape());
  TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, shape));
  if (output->num_elements() == 0) return absl::OkStatus();
  if (to_batch) {
    ZeroElements(c.parallel(), input.dtype(), output->mutable_data(), output->num_elements());
  }
  if (input.num_elements() == 0) return absl::OkStatus();

  const Shape& space = to_batch ? input.shape() : shape;
  const Shape& batches = to_batch ? shape : input.shape();
  const auto space_strides = Strides(space.dims());
  const auto batch_strides = Strides(batches.dims());
  const int64_t batch = space.dim(0);
  const int64_t blocks = batches.dim(0) / batch;
  for (int64_t block = 0; block < blocks; ++block) {
    LoopDims dims;
    const auto add = [&](int64_t size, int64_t in_space, int64_t in_batch) {
      dims.push_back(to_batch ? LoopDim{size, in_batch, in_space}
                              : LoopDim{size, in_space, in_batch});
    };
    int64_t at_space = 0;
    int64_t at_batch = block * batch * batch_strides[0];
    int64_t rest = block;
    add(batch, space_strides[0], batch_strides[0]);
    for (size_t i = sides.size(); i-- > 0;) {
      const Side& side = sides[i];
      const int64_t place = rest % side.block - side.before;  // Of the first cell, in the space.
      rest /= side.block;
      const int64_t first = place >= 0 ? 0 : (-place + side.block - 1) / side.block;
      const int64_t size = space.dim(static_cast<int>(i) + 1);
      const int64_t room = size - (place + first * side.block);
      const int64_t count = room <= 0 ? 0 : (room - 1) / side.block + 1;
      add(count, space_strides[i + 1] * side.block, batch_strides[i + 1]);
      at_space += (place + first * side.block) * space_strides[i + 1];
      at_batch += first * batch_strides[i + 1];
    }
    for (int d = static_cast<int>(sides.size()) + 1; d < space.rank(); ++d) {
      add(space.dim(d), space_strides[static_cast<size_t>(d)],
          batch_strides[static_cast<size_t>(d)]);
    }
    const bool any =
        std::all_of(dims.begin(), dims.end(), [](const LoopDim& dim) { return dim.size > 0; });
    if (!any) continue;
    CopyStrided(c.parallel(), input.dtype(),
                ElementAt(input.dtype(), output->mutable_data(), to_batch ? at_batch : at_space),
                ElementAt(input.dtype(), input.data(), to_batch ? at_space : at_batch),
                std::move(dims));
  }
  return absl::OkStatus();
}

// --- Any number of dimensions

template <bool kToBatch>
absl::Status ManyDimensions(KernelContext& c) {
  const char* const name = kToBatch ? "paddings" : "crops";
  TANDEM_RETURN_IF_ERROR(CheckArguments(c.input(1).shape(), c.input(2).shape(), name));
  TANDEM_ASSIGN_OR_RETURN(const Ints block, VectorArgument(c.input(1), "block_shape"));
  TANDEM_ASSIGN_OR_RETURN(const Ints paddings, IntsArgument(c.input(2), name));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Side> sides, MakeSides(block, paddings, name));
  return MoveBlocks(c, sides, kToBatch);
}

template <bool kToBatch>
absl::Status ManyDimensionsShape(ShapeContext& c) {
  const char* const name = kToBatch ? "paddings" : "crops";
  TANDEM_RETURN_IF_ERROR(CheckArguments(c.input(1), c.input(2), name));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  if (c.input(1).has_rank() && c.input(1).dim(0) >= input.rank()) {
    return errors::InvalidArgument("an input of shape ", input.DebugString(), " has no ",
                                   c.input(1).dim(0), " dimensions after its first");
  }
  const absl::optional<Ints> block = KnownInts(c, 1);
  const absl::optional<Ints> paddings = KnownInts(c, 2);
  if (!block.has_value() || !paddings.has_value()) {
    return c.SetOutput(0, PartialShape::UnknownOfRank(input.rank()));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Side> sides, MakeSides(*block, *paddings, name));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, OutputShape(input, sides, kToBatch));
  return c.SetOutput(0, std::move(output));
}

// Each is the other's gradient.
absl::Status ManyDimensionsGradient(GradientContext& g) {
  const bool to_batch = g.node().type() == "SpaceToBatchND";
  g.SetInputGradient(0, g.Call(to_batch ? "BatchToSpaceND" : "SpaceToBatchND",
                               {g.OutputGradient(0), g.input(1), g.input(2)}));
  return absl::OkStatus();
}

// --- Images, with one size for both sides of a block

absl::StatusOr<std::vector<Side>> ImageSides(int64_t block, absl::Span<const int64_t> paddings,
                                             absl::string_view name) {
  return MakeSides({block, block}, paddings, name);
}

template <bool kToBatch>
class ImageKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    block_ = init.Attr<int64_t>("block_size");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const char* const name = kToBatch ? "paddings" : "crops";
    if (c.input(0).shape().rank() != 4 || c.input(1).shape() != Shape({2, 2})) {
      return errors::InvalidArgument("an input of shape ", c.input(0).shape().DebugString(),
                                     " must have rank 4, and ", name, " of shape ",
                                     c.input(1).shape().DebugString(), " be [2,2]");
    }
    TANDEM_ASSIGN_OR_RETURN(const Ints paddings, IntsArgument(c.input(1), name));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Side> sides, ImageSides(block_, paddings, name));
    return MoveBlocks(c, sides, kToBatch);
  }

 private:
  int64_t block_ = 2;
};

template <bool kToBatch>
absl::Status ImageShape(ShapeContext& c) {
  const char* const name = kToBatch ? "paddings" : "crops";
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  TANDEM_RETURN_IF_ERROR(c.input(1).MergeWith(PartialShape({2, 2})).status());
  const absl::optional<Ints> paddings = KnownInts(c, 1);
  if (!c.input(0).has_rank() || !paddings.has_value()) {
    return c.SetOutput(0, PartialShape::UnknownOfRank(4));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Side> sides,
                          ImageSides(c.Attr<int64_t>("block_size"), *paddings, name));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, OutputShape(c.input(0), sides, kToBatch));
  return c.SetOutput(0, std::move(output));
}

absl::Status ImageGradient(GradientContext& g) {
  const bool to_batch = g.node().type() == "SpaceToBatch";
  g.SetInputGradient(
      0, g.Call(to_batch ? "BatchToSpace" : "SpaceToBatch", {g.OutputGradient(0), g.input(1)},
                {{"block_size", g.Attr<int64_t>("block_size")}}));
  return absl::OkStatus();
}

std::vector<DataType> Types() { return AllTypesBut({kString, kResource, kVariant}); }

TANDEM_OP("SpaceToBatchND")
    .Inputs("input:T, block_shape:Tblock_shape, paddings:Tpaddings")
    .Outputs("output:T")
    .Attrs("T:type; Tblock_shape:type{int32,int64}=int32; Tpaddings:type{int32,int64}=int32")
    .Shape(ManyDimensionsShape<true>)
    .Gradient(ManyDimensionsGradient)
    .HostMemory({"block_shape", "paddings"})
    .Cpu(ForTypes("T", Types(), Function(ManyDimensions<true>)));

TANDEM_OP("BatchToSpaceND")
    .Inputs("input:T, block_shape:Tblock_shape, crops:Tcrops")
    .Outputs("output:T")
    .Attrs("T:type; Tblock_shape:type{int32,int64}=int32; Tcrops:type{int32,int64}=int32")
    .Shape(ManyDimensionsShape<false>)
    .Gradient(ManyDimensionsGradient)
    .HostMemory({"block_shape", "crops"})
    .Cpu(ForTypes("T", Types(), Function(ManyDimensions<false>)));

TANDEM_OP("SpaceToBatch")
    .Inputs("input:T, paddings:Tpaddings")
    .Outputs("output:T")
    .Attrs("T:type; Tpaddings:type{int32,int64}=int32; block_size:int>=2")
    .Shape(ImageShape<true>)
    .Gradient(ImageGradient)
    .HostMemory({"paddings"})
    .Cpu(Make<ImageKernel<true>>("T", Types()));

TANDEM_OP("BatchToSpace")
    .Inputs("input:T, crops:Tidx")
    .Outputs("output:T")
    .Attrs("T:type; block_size:int>=2; Tidx:type{int32,int64}=int32")
    .Shape(ImageShape<false>)
    .Gradient(ImageGradient)
    .HostMemory({"crops"})
    .Cpu(Make<ImageKernel<false>>("T", Types()));

}  // namespace
}  // namespace tandem::array
