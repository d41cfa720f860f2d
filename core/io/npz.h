// NumPy's .npz files: arrays by name, each a .npy file (core/io/npy.h) in a zip archive, stored or
// deflated, in both directions.
//
// Errors are those of npy.h and zip.h; messages name the file and the array.
//
// Threads: functions may be called from any thread, and so may an NpzReader's methods. Tensors lie
// in host memory.
#ifndef TANDEM_CORE_IO_NPZ_H_
#define TANDEM_CORE_IO_NPZ_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/io/file.h"
#include "core/io/zip.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct NamedArray {
  std::string name;  // Without ".npy".
  Tensor tensor;
};

// Reads single arrays, however large the file.
class NpzReader {
 public:
  // InvalidArgument: as above, and two arrays of one name.
  static absl::StatusOr<NpzReader> Open(FileSystem* files, const std::string& path);

  // In the order of the file. Members that are no .npy files are passed over.
  const std::vector<std::string>& names() const { return names_; }
  // NotFound: no such array; the message lists those that there are.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;

 private:
  explicit NpzReader(ZipReader zip) : zip_(std::move(zip)) {}

  ZipReader zip_;
  std::vector<std::string> names_;
  std::vector<size_t> member_of_name_;
};

// All arrays, in the order of the file.
absl::StatusOr<std::vector<NamedArray>> ReadNpz(FileSystem* files, const std::string& path);

// Creates or replaces the file, as numpy.savez does, or numpy.savez_compressed with `compress`.
// InvalidArgument: two arrays of one name, or one without; nothing is written. After another error
// (a full disk) the file may be there in part.
absl::Status WriteNpz(FileSystem* files, const std::string& path,
                      absl::Span<const NamedArray> arrays, bool compress = false);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_NPZ_H_
