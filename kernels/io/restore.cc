// RestoreV2: tensors of a checkpoint (core/io/bundle_reader.h), whole or in parts.
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/io/bundle_reader.h"
#include "core/io/tensor_slice.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/file_kernel.h"

namespace tandem::io {
namespace {

absl::Status RestoreShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 1));
  for (const int i : {1, 2}) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank() || shape.dim(0) == PartialShape::kUnknownDim ||
        shape.dim(0) == c.num_outputs()) {
      continue;
    }
    return errors::InvalidArgument(i == 1 ? "tensor_names" : "shape_and_slices", " has ",
                                   shape.dim(0), " elements for ", c.num_outputs(), " tensors");
  }
  // A part says which shape it has.
  const absl::optional<Tensor> parts = c.InputValue(2);
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (!parts.has_value() || i >= parts->num_elements()) continue;
    const auto part = ParseShapeAndSlice(parts->Elements<std::string>()[static_cast<size_t>(i)]);
    if (!part.ok()) return part.status();
    if (part->whole) continue;
    TANDEM_ASSIGN_OR_RETURN(const TensorSlice slice, part->slice.Resolve(part->full));
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, slice.shape()));
  }
  return absl::OkStatus();
}

class RestoreKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    const int64_t count = c.num_outputs();
    TANDEM_ASSIGN_OR_RETURN(const std::string prefix, StringArgument(c.input(0), "prefix"));
    TANDEM_ASSIGN_OR_RETURN(const auto names, StringsArgument(c.input(1), "tensor_names", count));
    TANDEM_ASSIGN_OR_RETURN(const auto slices,
                            StringsArgument(c.input(2), "shape_and_slices", count));
    BundleReaderOptions options;
    options.parallel_for = Parallel(c);
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                            BundleReader::Open(FilesOf(c), prefix, options));
    // What is missing or does not fit is said before anything is read.
    for (size_t i = 0; i < names.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, reader->Lookup(names[i]));
      const DataType wanted = c.output_dtype(static_cast<int>(i));
      if (entry->dtype == wanted) continue;
      return errors::InvalidArgument("tensor '", names[i], "' is ", DataTypeName(entry->dtype),
                                     entry->shape.DebugString(), " in the checkpoint '", prefix,
                                     "'; the graph restores it as ", DataTypeName(wanted));
    }
    std::vector<Tensor> tensors(names.size());
    TANDEM_RETURN_IF_ERROR(reader->ForAll(names, [&](size_t i) -> absl::Status {
      TANDEM_RETURN_IF_ERROR(CheckCancelled(c));
      TANDEM_ASSIGN_OR_RETURN(tensors[i], Read(*reader, names[i], slices[i]));
      return absl::OkStatus();
    }));
    for (size_t i = 0; i < names.size(); ++i) {
      c.SetOutput(static_cast<int>(i), std::move(tensors[i]));
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Tensor> Read(const BundleReader& reader, const std::string& name,
                                     const std::string& shape_and_slice) {
    const absl::StatusOr<ShapeAndSlice> part = ParseShapeAndSlice(shape_and_slice);
    if (!part.ok()) return WithContext(part.status(), absl::StrCat("the tensor '", name, "'"));
    if (part->whole) return reader.Read(name);
    const Shape& stored = reader.Find(name)->shape;
    if (stored != part->full) {
      return errors::InvalidArgument("tensor '", name, "' has the shape ", stored.DebugString(),
                                     " in the checkpoint '", reader.prefix(),
                                     "'; the graph restores a part of ", part->full.DebugString());
    }
    return reader.ReadSlice(name, part->slice);
  }
};

TANDEM_OP("RestoreV2")
    .Inputs("prefix:string, tensor_names:string, shape_and_slices:string")
    .Outputs("tensors:dtypes")
    .Attrs("dtypes:list(type)>=1")
    .Stateful()
    .Shape(RestoreShape)
    .HostMemory({"prefix", "tensor_names", "shape_and_slices", "tensors"})
    .Cpu(Make<RestoreKernel>());

}  // namespace
}  // namespace tandem::io
