// BundleReader: reads a tensor bundle (core/io/bundle.h).
//
// Nothing is returned whose checksum was not checked, and nothing is believed: sizes are compared
// with the files' before memory is taken.
//
// Errors. Messages name the tensor and the file.
//   NotFound         no such checkpoint, or it has no tensor of the name
//   DataLoss         a file is damaged, cut off, or does not belong to the others
//   InvalidArgument  the shape, type or part that is asked for does not fit what is stored, or the
//                    parts that are stored do not cover it
//   Unimplemented    a type in which Tandem holds no tensors, a resource, a variant without a codec
//
// Threads: any, for all const methods.
#ifndef TANDEM_CORE_IO_BUNDLE_READER_H_
#define TANDEM_CORE_IO_BUNDLE_READER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/mutex.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/io/tensor_slice.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct BundleReaderOptions {
  // Open looks whether the data files are there and large enough. Off: to look at an index alone;
  // the first tensor that is read makes up for it.
  bool check_data = true;
  // Reads and sums the pieces of large tensors. None: on the calling thread.
  ParallelFor parallel_for;
};

class BundleReader {
 public:
  // Reads the whole index. `files` outlives the reader.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(
      FileSystem* files, const std::string& prefix, const BundleReaderOptions& options = {});

  const std::string& prefix() const { return prefix_; }
  int num_shards() const { return index_.num_shards; }

  // The tensors' names, sorted.
  std::vector<std::string> Names() const;
  // Null: there is no such tensor. Valid as long as the reader.
  const BundleEntry* Find(absl::string_view name) const;
  // The same with an error.
  absl::StatusOr<const BundleEntry*> Lookup(absl::string_view name) const;

  // A tensor in host memory.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // All of these, in the order of the names. They are read in the order in which they lie in the
  // files, many small ones at a time where BundleReaderOptions::parallel_for can. The first error
  // in the order of the names.
  absl::StatusOr<std::vector<Tensor>> ReadAll(absl::Span<const std::string> names) const;
  // Calls `work`, which reads one of these tensors, with the number of each name: how ReadAll comes
  // to all. NotFound: one of the names; then nothing was called.
  absl::Status ForAll(absl::Span<const std::string> names,
                      absl::FunctionRef<absl::Status(size_t i)> work) const;
  // The part `slice` of it, put together from what is stored.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  // Into a tensor that is there, of the same type and shape as the part, in host memory that nobody
  // else reads. After an error its elements are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* tensor) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice,
                             Tensor* tensor) const;

  // Checks all the bytes of a tensor, whatever its type, without keeping them.
  absl::Status Verify(absl::string_view name) const;
  // The same of all tensors, as ReadAll reads them. The first error in the order of the names.
  absl::Status VerifyAll() const;

 private:
  // Some bytes of an entry, and where they go.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    char* to = nullptr;
  };

  BundleReader(FileSystem* files, std::string prefix, BundleReaderOptions options)
      : files_(files), prefix_(std::move(prefix)), options_(std::move(options)) {}

  // The file of a shard, once it is known to be large enough for its entries.
  absl::StatusOr<const RandomAccessFile*> DataFile(int shard) const;
  // Reads all bytes of an entry to check their sum, and keeps those of `range`.
  absl::Status ReadBytes(const BundleEntry& entry, const Range& range) const;
  absl::StatusOr<uint32_t> ReadPiece(const RandomAccessFile& file, const BundleEntry& entry,
                                     int64_t begin, int64_t end, const Range& range) const;
  // Reads an entry that is not in parts into a tensor of its type and shape.
  absl::Status ReadStored(const BundleEntry& entry, Tensor* tensor) const;
  // Reads what an entry, which holds `stored` of some tensor, has of the part `wanted`.
  absl::Status ReadCommonPart(const BundleEntry& entry, const TensorSlice& stored,
                              const TensorSlice& wanted, Tensor* tensor) const;
  absl::Status ReadFromSlices(absl::string_view name, const BundleEntry& entry,
                              const TensorSlice& wanted, Tensor* tensor) const;
  // Puts the elements into this machine's order and checks that they are values of their type.
  absl::Status Convert(const BundleEntry& entry, char* elements, int64_t bytes) const;
  absl::Status CheckReadable(const BundleEntry& entry) const;
  // The entry of a part that a tensor lists.
  const BundleEntry& Part(absl::string_view name, const TensorSlice& slice) const;
  absl::Status InTensor(const absl::Status& status, absl::string_view name) const;

  FileSystem* const files_;
  const std::string prefix_;
  const BundleReaderOptions options_;
  BundleIndex index_;

  mutable Mutex mutex_;
  mutable std::map<int, std::unique_ptr<RandomAccessFile>> data_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_BUNDLE_READER_H_
