// ShardedFilename and ShardedFilespec: the name of one of several files, and the pattern that all
// of them match.
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/io/file_kernel.h"

namespace tandem::io {
namespace {

absl::Status AllScalars(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
  return ScalarShape(c);
}

absl::Status ShardedFilename(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, StringArgument(c.input(0), "basename"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t shard, ScalarArgument(c.input(1), "shard"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t count, ScalarArgument(c.input(2), "num_shards"));
  c.SetOutput(0, Tensor::Scalar(absl::StrFormat("%s-%05d-of-%05d", name, shard, count)));
  return absl::OkStatus();
}

absl::Status ShardedFilespec(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, StringArgument(c.input(0), "basename"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t count, ScalarArgument(c.input(1), "num_shards"));
  c.SetOutput(0, Tensor::Scalar(absl::StrFormat("%s-\?\?\?\?\?-of-%05d", name, count)));
  return absl::OkStatus();
}

TANDEM_OP("ShardedFilename")
    .Inputs("basename:string, shard:int32, num_shards:int32")
    .Outputs("filename:string")
    .Cheap()
    .Shape(AllScalars)
    .HostMemory({"basename", "shard", "num_shards", "filename"})
    .Cpu(Function(ShardedFilename));

TANDEM_OP("ShardedFilespec")
    .Inputs("basename:string, num_shards:int32")
    .Outputs("filename:string")
    .Cheap()
    .Shape(AllScalars)
    .HostMemory({"basename", "num_shards", "filename"})
    .Cpu(Function(ShardedFilespec));

}  // namespace
}  // namespace tandem::io
