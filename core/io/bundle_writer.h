// BundleWriter: writes a tensor bundle (core/io/bundle.h) of one shard.
//
// Until Finish returns, what is written lies under temporary names beside the final ones; a bundle
// of the same prefix is untouched until then. A writer that is destroyed without Finish, or after
// an error, removes them.
//
// Threads: one at a time.
#ifndef TANDEM_CORE_IO_BUNDLE_WRITER_H_
#define TANDEM_CORE_IO_BUNDLE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/io/tensor_slice.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct BundleWriterOptions {
  // Each tensor begins at a multiple of it in the data file.
  int64_t alignment = 1;
  // Sums the pieces of large tensors. None: on the calling thread, which costs about a tenth of the
  // time that a fast disk takes.
  ParallelFor parallel_for;
};

class BundleWriter {
 public:
  // Makes the folder of `prefix` if it is missing, and begins the data file. `files` outlives the
  // writer. InvalidArgument: an alignment below 1, or a prefix without a file name.
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(
      FileSystem* files, const std::string& prefix, const BundleWriterOptions& options = {});
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;
  BundleWriter& operator=(const BundleWriter&) = delete;

  // Writes a tensor, in host memory. The bytes of large ones go from the tensor to the system
  // without a copy, before the call returns.
  //   InvalidArgument  no tensor; a resource; a name that is none or was there.
  //   Unimplemented    a variant without a codec (core/tensor/variant_codec.h).
  // and errors of the file. After an error every call returns it, and Finish too.
  absl::Status Add(absl::string_view name, const Tensor& tensor);
  // Writes a part of the tensor `name` of shape `full`. InvalidArgument: also when the part is
  // outside of the shape, or `tensor` has another shape than the part.
  absl::Status AddSlice(absl::string_view name, const Shape& full, const TensorSlice& slice,
                        const Tensor& tensor);

  // Syncs everything and gives it its names. When it returns OK, the bundle survives a crash of the
  // machine. No other call may follow.
  absl::Status Finish();

 private:
  BundleWriter(FileSystem* files, std::string prefix, BundleWriterOptions options);

  absl::Status Write(const Tensor& tensor, BundleEntry* entry);
  absl::Status AppendBytes(absl::string_view bytes, uint32_t* crc);
  absl::Status Flush();
  absl::Status Keep(absl::Status status);

  FileSystem* const files_;
  const std::string prefix_;
  const BundleWriterOptions options_;
  const std::string temporary_data_;
  const std::string temporary_index_;
  std::unique_ptr<WritableFile> data_;
  std::string buffer_;  // Small tensors that are not in the file yet.
  int64_t offset_ = 0;  // Where the next byte comes in the file, the buffer included.
  BundleIndex index_;
  absl::Status status_;
  bool finished_ = false;
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_BUNDLE_WRITER_H_
