// Tensor bundles: the files of a checkpoint (TensorFlow's version 2).
//
//   PREFIX.index                  a sorted table (core/io/table.h): a header, then an entry for
//   each
//                                 tensor under its name
//   PREFIX.data-00000-of-00002    the tensors' bytes, one file a shard
//
// A tensor lies whole in one shard. One that was saved in parts (a partitioned variable) has an
// entry without bytes that lists the parts, and an entry for each part (TensorSliceKey). How the
// bytes of strings and variants are laid out is in core/io/bundle_values.h.
//
// BundleWriter (bundle_writer.h) writes a bundle of one shard, BundleReader (bundle_reader.h) reads
// any. This file has what they share, and makes one bundle of several.
#ifndef TANDEM_CORE_IO_BUNDLE_H_
#define TANDEM_CORE_IO_BUNDLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/io/file.h"
#include "core/io/tensor_slice.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tandem {

// "PREFIX.index"
std::string BundleIndexPath(absl::string_view prefix);
// "PREFIX.data-00001-of-00004"
std::string BundleDataPath(absl::string_view prefix, int shard, int num_shards);

// Calls body(0) … body(count - 1), on as many threads as it likes, and returns when all have
// returned. Writers and readers use it to sum and read the pieces of large tensors; none: on the
// calling thread.
using ParallelFor = std::function<void(int64_t count, absl::FunctionRef<void(int64_t)> body)>;

// What the index says of a tensor or of a part of one.
struct BundleEntry {
  DataType dtype = DataType::kInvalid;
  Shape shape;
  // Where the bytes are, and their masked CRC-32C. Not for a tensor that is stored in parts.
  int shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  uint32_t crc = 0;
  // The parts, as they stand in the index.
  std::vector<TensorSlice> slices;
};

struct BundleIndex {
  int num_shards = 1;
  bool big_endian = false;
  // By key: names of tensors, and keys of parts, which begin with a zero byte and so come first.
  std::map<std::string, BundleEntry, std::less<>> entries;
};

// Reads and checks an index: what it says of sizes, shapes and parts is consistent in itself; the
// data files are not looked at.
//   NotFound       there is no index.
//   DataLoss       it is damaged; the message has the file, and the key where there is one.
//   Unimplemented  it asks for a newer reader.
//   ResourceExhausted  it would take much more memory than its size explains.
absl::StatusOr<BundleIndex> ReadBundleIndex(FileSystem* files, const std::string& prefix);

// Writes an index into a new file, and syncs it. Nothing is renamed.
absl::Status WriteBundleIndex(FileSystem* files, const std::string& path, const BundleIndex& index);

// Checks that the data files which the entries need are there and large enough. NotFound, DataLoss:
// a file is missing or too short.
absl::Status CheckBundleData(FileSystem* files, const std::string& prefix,
                             const BundleIndex& index);

// Bytes of an element as they are stored: also for types in which Tandem holds no tensors. 0: the
// type's elements differ in size, or it is unknown.
size_t StoredElementBytes(DataType dtype);

// A tensor's name may be any text that is not empty and does not begin with a zero byte.
absl::Status CheckBundleName(absl::string_view name);

// Puts the part `slice` of the tensor `name` of shape `full` into the list of parts of its entry in
// `index`, and returns the key for the part's own entry. InvalidArgument: the tensor is there whole
// or with another type or shape, or has this part.
absl::StatusOr<std::string> AddBundleSlice(const std::string& name, DataType dtype,
                                           const Shape& full, const TensorSlice& slice,
                                           BundleIndex* index);

struct MergeBundlesOptions {
  // Prefixes without an index are passed over, as long as one has one.
  bool allow_missing = false;
  // Folders of the parts that are empty afterwards are removed, if they are not that of the
  // destination.
  bool remove_folders = true;
};

// Makes one bundle of several: the data files get new names (their shards are counted through in
// the order of `prefixes`), and one index takes the place of all. Everything is checked before the
// first file is renamed; when a rename fails, those before are undone. The parts are gone
// afterwards.
//
// The folders of the parts and of the destination are on one file system. A tensor may be in one
// part only, or in several in disjoint slices. Errors: those of ReadBundleIndex and
// CheckBundleData; InvalidArgument: a tensor is in two parts, two parts are the same or differ in
// their byte order, or there are none.
absl::Status MergeBundles(FileSystem* files, absl::Span<const std::string> prefixes,
                          const std::string& destination, const MergeBundlesOptions& options = {});

// Gives a new bundle its names, in an order that leaves the old one or the new one after a crash
// between any two steps (as far as they have different names): data files first, then the index,
// each followed by a sync of the folder. `data` are pairs of temporary and final paths. After an
// error the files have their temporary names again, unless only the last sync failed.
absl::Status PublishBundle(FileSystem* files,
                           absl::Span<const std::pair<std::string, std::string>> data,
                           const std::string& temporary_index, const std::string& prefix);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_BUNDLE_H_
