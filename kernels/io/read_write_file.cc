// ReadFile and WriteFile: whole files as strings.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/io/file.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/file_kernel.h"

namespace tandem::io {
namespace {

absl::StatusOr<std::string> ScalarText(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().IsScalar()) return tensor.ScalarValue<std::string>();
  return errors::InvalidArgument(name, " must be a scalar; it has shape ",
                                 tensor.shape().DebugString());
}

class ReadKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string path, ScalarText(c.input(0), "filename"));
    TANDEM_ASSIGN_OR_RETURN(std::string contents, ReadFile(FilesOf(c), path));
    c.SetOutput(0, Tensor::Scalar(std::move(contents)));
    return absl::OkStatus();
  }
};

// Makes the folders that are missing, too.
class WriteKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string path, ScalarText(c.input(0), "filename"));
    TANDEM_ASSIGN_OR_RETURN(const std::string contents, ScalarText(c.input(1), "contents"));
    FileSystem* const files = FilesOf(c);
    TANDEM_RETURN_IF_ERROR(files->MakeDirectories(DirectoryOf(path)));
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                            files->OpenToWrite(path, WriteMode::kReplace));
    TANDEM_RETURN_IF_ERROR(file->Append(contents));
    return file->Close();
  }
};

absl::Status ReadShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  return ScalarShape(c);
}

absl::Status WriteShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  return c.RequireRank(1, 0);
}

TANDEM_OP("ReadFile")
    .Inputs("filename:string")
    .Outputs("contents:string")
    .Shape(ReadShape)
    .NotDifferentiable()
    .HostMemory({"filename", "contents"})
    .Cpu(Make<ReadKernel>());

TANDEM_OP("WriteFile")
    .Inputs("filename:string, contents:string")
    .Stateful()
    .Shape(WriteShape)
    .NotDifferentiable()
    .HostMemory({"filename", "contents"})
    .Cpu(Make<WriteKernel>());

}  // namespace
}  // namespace tandem::io
