// Tensor bundles: an index and a data file. The index is tried as a whole file, and as a list of
// entries whose checksums fit, so that shapes, offsets, parts and values are reached.
#include <memory>

#include "core/io/bundle_reader.h"
#include "core/io/crc32c.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/raw_table.h"
#include "runtime/checkpoint/object_graph.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

constexpr char kPrefix[] = "/m";

void ReadAll(FileSystem* files) {
  const auto reader = BundleReader::Open(files, kPrefix);
  if (!reader.ok()) return;
  for (const std::string& name : (*reader)->Names()) {
    const BundleEntry& entry = *(*reader)->Find(name);
    // Parts of one stored element may be asked of any shape: no more than a few MB here.
    if (entry.shape.num_elements() > (int64_t{1} << 20)) continue;
    const absl::StatusOr<Tensor> tensor = (*reader)->Read(name);
    if (tensor.ok()) {
      TANDEM_FUZZ_CHECK(tensor->dtype() == entry.dtype, name);
      TANDEM_FUZZ_CHECK(tensor->shape() == entry.shape, name);
      TANDEM_FUZZ_CHECK((*reader)->Verify(name).ok(), name);
      if (name == kObjectGraphName && tensor->dtype() == kString && tensor->num_elements() == 1) {
        const auto objects = ObjectGraph::Parse(tensor->ScalarValue<std::string>());
        if (objects.ok()) (void)objects->Attributes();
      }
    } else {
      TANDEM_FUZZ_CHECK(!tensor.status().message().empty(), name);
    }
    if (entry.shape.rank() > 0 && entry.shape.dim(0) > 1) {
      TensorSlice::Extents extents(static_cast<size_t>(entry.shape.rank()));
      extents[0] = {1, entry.shape.dim(0) - 1};
      (void)(*reader)->ReadSlice(name, TensorSlice(extents));
    }
  }
}

// Gives the entries the checksums of the bytes that they point at. Strings keep theirs.
void MendChecksums(FileSystem* files, absl::string_view data) {
  absl::StatusOr<BundleIndex> index = ReadBundleIndex(files, kPrefix);
  if (!index.ok()) return;
  for (auto& [key, entry] : index->entries) {
    if (entry.dtype == kString || entry.offset > static_cast<int64_t>(data.size())) continue;
    entry.crc = MaskCrc32c(
        Crc32c(data.substr(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.size))));
  }
  const std::string path = BundleIndexPath(kPrefix);
  TANDEM_FUZZ_CHECK(files->Remove(path).ok(), path);
  const absl::Status status = WriteBundleIndex(files, path, *index);
  TANDEM_FUZZ_CHECK(status.ok(), status.ToString());
}

void Fuzz(FuzzInput input) {
  const size_t index_bytes = input.Byte() + 256 * size_t{input.Byte()};
  const std::string index(input.Bytes(index_bytes));
  const std::string data(input.rest());
  FaultyFileSystem files;
  files.SetContents(BundleDataPath(kPrefix, 0, 1), data);
  files.SetContents(BundleIndexPath(kPrefix), index);
  ReadAll(&files);
  files.SetContents(BundleIndexPath(kPrefix), RawTable(index, 0, "\xff"));
  ReadAll(&files);
  MendChecksums(&files, data);
  ReadAll(&files);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
