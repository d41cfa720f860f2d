// FileKernel: the base of kernels that read and write files.
#ifndef TANDEM_KERNELS_IO_FILE_KERNEL_H_
#define TANDEM_KERNELS_IO_FILE_KERNEL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/kernel/kernel.h"
#include "kernels/io/file_thread.h"

namespace tandem::io {

// The files that a graph may touch. Kernels come to files by this alone.
inline FileSystem* FilesOf(const KernelContext& c) {
  FileSystem* const files = c.device().files;
  return files != nullptr ? files : PosixFileSystem();
}

class FileKernel : public AsyncKernel {
 public:
  void Start(KernelContext& c, Done done) final {
    RunOnFileThread([this, &c, done = std::move(done)]() mutable { done(Work(c)); });
  }

 protected:
  // Does the work, on a thread that may wait. Long work asks CheckCancelled between its pieces.
  virtual absl::Status Work(KernelContext& c) = 0;

  static absl::Status CheckCancelled(const KernelContext& c) {
    return c.step().cancellation->status();
  }

  // For readers and writers of bundles: the pieces of large tensors are summed on several threads.
  static ParallelFor Parallel(KernelContext& c) {
    constexpr double kNanosecondsPerPiece = 500'000;  // 4 MiB.
    return [&c](int64_t count, absl::FunctionRef<void(int64_t)> body) {
      c.parallel().For(count, kNanosecondsPerPiece, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i);
      });
    };
  }
};

// A scalar string; a tensor of one element counts as one, as in TensorFlow. InvalidArgument names
// the argument.
inline absl::StatusOr<std::string> StringArgument(const Tensor& tensor, absl::string_view name) {
  if (tensor.dtype() == kString && tensor.num_elements() == 1) {
    return tensor.Elements<std::string>()[0];
  }
  return errors::InvalidArgument(name, " must be a single string; it is ",
                                 DataTypeName(tensor.dtype()), tensor.shape().DebugString());
}

// A vector of strings, of `size` elements unless that is negative. InvalidArgument names the
// argument.
inline absl::StatusOr<absl::Span<const std::string>> StringsArgument(const Tensor& tensor,
                                                                     absl::string_view name,
                                                                     int64_t size = -1) {
  if (tensor.dtype() == kString && tensor.shape().IsVector() &&
      (size < 0 || tensor.num_elements() == size)) {
    return tensor.Elements<std::string>();
  }
  return errors::InvalidArgument(
      name, " must be a vector of ", size < 0 ? std::string() : absl::StrCat(size, " "),
      "strings; it is ", DataTypeName(tensor.dtype()), tensor.shape().DebugString());
}

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_FILE_KERNEL_H_
