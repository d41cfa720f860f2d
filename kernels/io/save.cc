// SaveV2 and MergeV2Checkpoints: checkpoints (core/io/bundle.h) written from graphs, as
// TensorFlow's Saver does.
//
// SaveV2 writes a checkpoint of one shard. A Saver of several devices saves a part for each under
// "PREFIX_temp/part-00000-of-00002"; MergeV2Checkpoints makes one checkpoint of them.
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/io/bundle_writer.h"
#include "core/io/tensor_slice.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/file_kernel.h"

namespace tandem::io {
namespace {

// Inputs before the tensors.
constexpr int kFirstTensor = 3;

absl::Status SaveShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 1));
  const int64_t tensors = c.num_inputs() - kFirstTensor;
  for (const int i : {1, 2}) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank() || shape.dim(0) == PartialShape::kUnknownDim || shape.dim(0) == tensors) {
      continue;
    }
    return errors::InvalidArgument(i == 1 ? "tensor_names" : "shape_and_slices", " has ",
                                   shape.dim(0), " elements for ", tensors, " tensors");
  }
  return absl::OkStatus();
}

class SaveKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    const int64_t count = c.num_inputs() - kFirstTensor;
    TANDEM_ASSIGN_OR_RETURN(const std::string prefix, StringArgument(c.input(0), "prefix"));
    TANDEM_ASSIGN_OR_RETURN(const auto names, StringsArgument(c.input(1), "tensor_names", count));
    TANDEM_ASSIGN_OR_RETURN(const auto slices,
                            StringsArgument(c.input(2), "shape_and_slices", count));
    BundleWriterOptions options;
    options.parallel_for = Parallel(c);
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                            BundleWriter::Create(FilesOf(c), prefix, options));
    for (size_t i = 0; i < names.size(); ++i) {
      TANDEM_RETURN_IF_ERROR(CheckCancelled(c));
      const Tensor& tensor = c.input(kFirstTensor + static_cast<int>(i));
      const absl::StatusOr<ShapeAndSlice> part = ParseShapeAndSlice(slices[i]);
      if (!part.ok()) {
        return WithContext(part.status(), absl::StrCat("the tensor '", names[i], "'"));
      }
      TANDEM_RETURN_IF_ERROR(part->whole
                                 ? writer->Add(names[i], tensor)
                                 : writer->AddSlice(names[i], part->full, part->slice, tensor));
    }
    return writer->Finish();
  }
};

class MergeKernel final : public FileKernel {
 public:
  absl::Status Init(KernelInit& init) {
    options_.remove_folders = init.Attr<bool>("delete_old_dirs");
    options_.allow_missing = init.Attr<bool>("allow_missing_files");
    return absl::OkStatus();
  }

 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const auto prefixes,
                            StringsArgument(c.input(0), "checkpoint_prefixes"));
    TANDEM_ASSIGN_OR_RETURN(const std::string destination,
                            StringArgument(c.input(1), "destination_prefix"));
    return MergeBundles(FilesOf(c), prefixes, destination, options_);
  }

 private:
  MergeBundlesOptions options_;
};

absl::Status MergeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  return c.RequireRank(1, 0);
}

TANDEM_OP("SaveV2")
    .Inputs("prefix:string, tensor_names:string, shape_and_slices:string, tensors:dtypes")
    .Attrs("dtypes:list(type)>=1")
    .Stateful()
    .Shape(SaveShape)
    .HostMemory({"prefix", "tensor_names", "shape_and_slices", "tensors"})
    .Cpu(Make<SaveKernel>());

TANDEM_OP("MergeV2Checkpoints")
    .Inputs("checkpoint_prefixes:string, destination_prefix:string")
    .Attrs("delete_old_dirs:bool=True; allow_missing_files:bool=False")
    .Stateful()
    .Shape(MergeShape)
    .HostMemory({"checkpoint_prefixes", "destination_prefix"})
    .Cpu(Make<MergeKernel>());

}  // namespace
}  // namespace tandem::io
