// The ops that make, flush and close the writers of TensorFlow 2's summaries. Those that write are
// in write_summary.cc.
#include "kernels/io/summary_writer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/file_kernel.h"
#include "kernels/io/summary_kernel.h"

namespace tandem::io {

absl::Status SummaryFile::CheckBegun() const {
  if (writer_ != nullptr) return absl::OkStatus();
  return errors::NotFound("the summary writer '", name_,
                          "' has no file: run its CreateSummaryFileWriter first "
                          "(tf.summary.create_file_writer's init)");
}

absl::Status SummaryFile::Begin(FileSystem* files, const std::string& folder,
                                const EventWriterOptions& options) {
  MutexLock lock(mu_);
  if (writer_ != nullptr) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(writer_, EventWriter::Open(files, folder, options));
  return absl::OkStatus();
}

absl::Status SummaryFile::Write(tensorflow::Event event) {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckBegun());
  return writer_->Write(std::move(event));
}

absl::Status SummaryFile::Flush() {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckBegun());
  return writer_->Flush();
}

absl::Status SummaryFile::Close() {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckBegun());
  const absl::Status closed = writer_->Close();
  writer_.reset();
  return closed;
}

absl::StatusOr<RefPtr<SummaryFile>> WriterInput(KernelContext& c) {
  const Tensor& tensor = c.input(0);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("the handle of a summary writer must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  const ResourceHandle& handle = tensor.ScalarValue<ResourceHandle>();
  if (handle.empty()) return errors::InvalidArgument("the handle of the summary writer is empty");
  const ResourceHandle::Description& description = handle.description();
  if (!description.resource) {
    return c.device().resources->Lookup<SummaryFile>(description.container, description.name);
  }
  if (description.resource->is_forgotten()) {
    return errors::NotFound("the summary writer '", handle.DebugString(), "' has been closed");
  }
  auto* const file = dynamic_cast<SummaryFile*>(description.resource.get());
  if (file == nullptr) {
    return errors::InvalidArgument("resource '", handle.DebugString(), "' is a ",
                                   description.resource->DebugString(), ", not a summary writer");
  }
  return RefPtr<SummaryFile>::Share(file);
}

namespace {

class HandleKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    container_ = init.Attr<std::string>("container");
    if (container_.empty()) container_ = ResourceManager::kDefaultContainer;
    name_ = init.Attr<std::string>("shared_name");
    if (name_.empty()) name_ = std::string(init.node_name());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(mu_);
    // After a close the node stands for a writer that may begin another file.
    if (!handle_.is_valid() || writer_->is_forgotten()) TANDEM_RETURN_IF_ERROR(MakeHandle(c));
    c.SetOutput(0, handle_);
    return absl::OkStatus();
  }

 private:
  absl::Status MakeHandle(KernelContext& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TANDEM_ASSIGN_OR_RETURN(writer_,
                            c.device().resources->LookupOrCreate<SummaryFile>(
                                container_, name_, [this]() -> absl::StatusOr<RefPtr<SummaryFile>> {
                                  return MakeRef<SummaryFile>(name_);
                                }));
    auto description = MakeRef<ResourceHandle::Description>();
    description->device = c.device().name;
    description->container = container_;
    description->name = name_;
    description->type_name = "tandem::SummaryFile";
    description->resource = writer_;
    handle_ = Tensor::Scalar(
        ResourceHandle(RefPtr<const ResourceHandle::Description>(std::move(description))));
    return absl::OkStatus();
  }

  std::string container_;
  std::string name_;
  Mutex mu_;
  RefPtr<SummaryFile> writer_ ABSL_GUARDED_BY(mu_);
  Tensor handle_ ABSL_GUARDED_BY(mu_);
};

class CreateKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, WriterInput(c));
    TANDEM_ASSIGN_OR_RETURN(const std::string folder, ScalarText(c, 1, "logdir"));
    TANDEM_ASSIGN_OR_RETURN(const int32_t queue, ScalarNumber<int32_t>(c, 2, "max_queue"));
    TANDEM_ASSIGN_OR_RETURN(const int32_t millis, ScalarNumber<int32_t>(c, 3, "flush_millis"));
    EventWriterOptions options;
    TANDEM_ASSIGN_OR_RETURN(options.suffix, ScalarText(c, 4, "filename_suffix"));
    if (folder.empty()) return errors::InvalidArgument("logdir is empty; expected a folder");
    // One more than may wait.
    options.flush_events = int64_t{1} + std::max(queue, 0);
    options.flush_interval = absl::Milliseconds(std::max(millis, 0));
    return file->Begin(FilesOf(c), folder, options);
  }
};

class FlushKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, WriterInput(c));
    return file->Flush();
  }
};

class CloseKernel final : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, WriterInput(c));
    const absl::Status closed = file->Close();
    const ResourceHandle::Description& description =
        c.input(0).ScalarValue<ResourceHandle>().description();
    const absl::Status forgotten =
        c.device().resources->Delete(description.container, description.name, *file);
    return closed.ok() ? forgotten : closed;
  }
};

absl::Status RefuseDatabase(KernelContext& c) {
  return errors::Unimplemented(
      "CreateSummaryDbWriter '", c.node_name(),
      "': summaries are not written into databases; write event files "
      "(CreateSummaryFileWriter, tf.summary.create_file_writer), which TensorBoard reads");
}

TANDEM_OP("SummaryWriter")
    .Outputs("writer:resource")
    .Attrs("shared_name:string=\"\"; container:string=\"\"")
    .Stateful()
    .Shape(ScalarShape)
    .HostMemory({"writer"})
    .Cpu(Make<HandleKernel>());

TANDEM_OP("CreateSummaryFileWriter")
    .Inputs(
        "writer:resource, logdir:string, max_queue:int32, flush_millis:int32, "
        "filename_suffix:string")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "logdir", "max_queue", "flush_millis", "filename_suffix"})
    .Cpu(Make<CreateKernel>());

TANDEM_OP("CreateSummaryDbWriter")
    .Inputs(
        "writer:resource, db_uri:string, experiment_name:string, run_name:string, "
        "user_name:string")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "db_uri", "experiment_name", "run_name", "user_name"})
    .Cpu(Function(RefuseDatabase));

TANDEM_OP("FlushSummaryWriter")
    .Inputs("writer:resource")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer"})
    .Cpu(Make<FlushKernel>());

TANDEM_OP("CloseSummaryWriter")
    .Inputs("writer:resource")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer"})
    .Cpu(Make<CloseKernel>());

}  // namespace
}  // namespace tandem::io
