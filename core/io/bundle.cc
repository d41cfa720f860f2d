#include "core/io/bundle.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/io/table.h"
#include "core/tensor/tensor_proto.h"
#include "proto/tensor_bundle.pb.h"

namespace tandem {
namespace {

using tensorflow::BundleEntryProto;
using tensorflow::BundleHeaderProto;

constexpr char kHeaderKey[] = "";
// Of the format: that of what is written, and what is understood.
constexpr int kVersion = 1;

// Memory for the entries of an index. Keys share their beginnings and blocks may be packed, so a
// sound index is a few times smaller than its contents, but a made-up one could be thousands of
// times smaller.
constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
constexpr int64_t kMaxEntryBytesPerFileByte = 100;

bool IsSliceKey(absl::string_view key) { return !key.empty() && key[0] == '\0'; }

absl::StatusOr<BundleEntry> EntryFromProto(const BundleEntryProto& proto, int num_shards) {
  BundleEntry entry;
  entry.dtype = static_cast<DataType>(proto.dtype());
  if (proto.dtype() <= 0 || IsReference(entry.dtype)) {
    return errors::DataLoss("has no type (", static_cast<int>(proto.dtype()), ")");
  }
  TANDEM_ASSIGN_OR_RETURN(entry.shape, ShapeFromProto(proto.shape()));
  for (const auto& slice_proto : proto.slices()) {
    TANDEM_ASSIGN_OR_RETURN(TensorSlice slice, TensorSlice::FromProto(slice_proto));
    TANDEM_RETURN_IF_ERROR(slice.Resolve(entry.shape).status());
    entry.slices.push_back(std::move(slice));
  }
  if (!entry.slices.empty()) return entry;
  entry.shard = proto.shard_id();
  entry.offset = proto.offset();
  entry.size = proto.size();
  entry.crc = proto.crc32c();
  if (entry.shard < 0 || entry.shard >= num_shards) {
    return errors::DataLoss("lies in shard ", entry.shard, " of ", num_shards);
  }
  if (entry.offset < 0 || entry.size < 0 ||
      entry.size > std::numeric_limits<int64_t>::max() - entry.offset) {
    return errors::DataLoss("has ", entry.size, " bytes at offset ", entry.offset);
  }
  const auto elements = static_cast<uint64_t>(entry.shape.num_elements());
  const auto size = static_cast<uint64_t>(entry.size);
  const size_t width = StoredElementBytes(entry.dtype);
  if (width > 0 ? elements != size / width || size % width != 0 : elements > size) {
    return errors::DataLoss(DataTypeName(entry.dtype), entry.shape.DebugString(), " has ", size,
                            " bytes");
  }
  return entry;
}

void EntryToProto(const BundleEntry& entry, BundleEntryProto* proto) {
  proto->Clear();
  proto->set_dtype(static_cast<tensorflow::DataType>(entry.dtype));
  ShapeToProto(entry.shape, proto->mutable_shape());
  if (entry.slices.empty()) {
    proto->set_shard_id(entry.shard);
    proto->set_offset(entry.offset);
    proto->set_size(entry.size);
    proto->set_crc32c(entry.crc);
  }
  for (const TensorSlice& slice : entry.slices) slice.ToProto(proto->add_slices());
}

absl::Status ParseHeader(absl::string_view value, BundleIndex* index) {
  BundleHeaderProto header;
  if (!header.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return errors::DataLoss("the header cannot be parsed");
  }
  const auto& version = header.version();
  if (version.min_consumer() > kVersion ||
      absl::c_linear_search(version.bad_consumers(), kVersion)) {
    return errors::Unimplemented("asks for a reader of version ", version.min_consumer(),
                                 ", this one has version ", kVersion);
  }
  if (header.num_shards() < 0) {
    return errors::DataLoss("has ", header.num_shards(), " shards");
  }
  index->num_shards = header.num_shards();
  index->big_endian = header.endianness() == BundleHeaderProto::BIG;
  return absl::OkStatus();
}

// Every part that a tensor lists has an entry that fits.
absl::Status CheckSlices(const std::string& name, const BundleEntry& entry,
                         const BundleIndex& index) {
  for (const TensorSlice& slice : entry.slices) {
    const auto part = index.entries.find(TensorSliceKey(name, slice));
    const Shape shape = slice.Resolve(entry.shape)->shape();
    if (part == index.entries.end() || part->second.dtype != entry.dtype ||
        part->second.shape != shape || !part->second.slices.empty()) {
      return errors::DataLoss("lists the part ", slice.DebugString(),
                              ", of which there is no entry that fits");
    }
  }
  return absl::OkStatus();
}

// What an entry's error becomes: with file and key, and as damage.
absl::Status InEntry(const absl::Status& status, const std::string& path, absl::string_view key) {
  if (status.ok()) return status;
  const absl::StatusCode code = status.code() == absl::StatusCode::kUnimplemented
                                    ? status.code()
                                    : absl::StatusCode::kDataLoss;
  return absl::Status(
      code, absl::StrCat(path, ": ",
                         key.empty() ? std::string("the checkpoint")
                                     : absl::StrCat("the entry '", absl::CHexEscape(key), "'"),
                         " ", status.message()));
}

}  // namespace

std::string BundleIndexPath(absl::string_view prefix) { return absl::StrCat(prefix, ".index"); }

std::string BundleDataPath(absl::string_view prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

size_t StoredElementBytes(DataType dtype) {
  switch (dtype) {
    case DataType::kString:
    case DataType::kVariant:
    case DataType::kResource:
      return 0;
    // One byte each, also those of fewer bits.
    case DataType::kQint8:
    case DataType::kQuint8:
    case DataType::kFloat8E5m2:
    case DataType::kFloat8E4m3fn:
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kInt2:
    case DataType::kUint2:
      return 1;
    case DataType::kQint16:
    case DataType::kQuint16:
      return 2;
    case DataType::kQint32:
      return 4;
    default:
      return DataTypeSize(dtype);
  }
}

absl::Status CheckBundleName(absl::string_view name) {
  if (!name.empty() && !IsSliceKey(name)) return absl::OkStatus();
  return errors::InvalidArgument("'", absl::CHexEscape(name),
                                 "' cannot be the name of a tensor in a checkpoint; expected text");
}

absl::StatusOr<BundleIndex> ReadBundleIndex(FileSystem* files, const std::string& prefix) {
  const std::string path = BundleIndexPath(prefix);
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files->OpenToRead(path));
  TANDEM_ASSIGN_OR_RETURN(const int64_t file_bytes, file->Size());
  const int64_t max_bytes = kMaxEntryBytes + kMaxEntryBytesPerFileByte * file_bytes;
  BundleIndex index;
  bool has_header = false;
  int64_t bytes = 0;
  BundleEntryProto proto;
  TANDEM_RETURN_IF_ERROR(
      ReadTable(*file, [&](absl::string_view key, absl::string_view value) -> absl::Status {
        bytes += static_cast<int64_t>(sizeof(BundleEntry) + key.size() + value.size());
        if (bytes > max_bytes) {
          return errors::ResourceExhausted(path, ": its ", file_bytes,
                                           " bytes hold entries of more than ", max_bytes,
                                           " bytes; this is no index of a checkpoint");
        }
        if (key == kHeaderKey) {
          has_header = true;
          return InEntry(ParseHeader(value, &index), path, key);
        }
        if (!has_header) return InEntry(errors::DataLoss("has no header"), path, "");
        if (!proto.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          return InEntry(errors::DataLoss("cannot be parsed"), path, key);
        }
        absl::StatusOr<BundleEntry> entry = EntryFromProto(proto, index.num_shards);
        if (!entry.ok()) return InEntry(entry.status(), path, key);
        index.entries.emplace_hint(index.entries.end(), key, *std::move(entry));
        return absl::OkStatus();
      }));
  if (!has_header) return InEntry(errors::DataLoss("has no header"), path, "");
  for (const auto& [key, entry] : index.entries) {
    TANDEM_RETURN_IF_ERROR(InEntry(CheckSlices(key, entry, index), path, key));
  }
  return index;
}

absl::Status WriteBundleIndex(FileSystem* files, const std::string& path,
                              const BundleIndex& index) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          files->OpenToWrite(path, WriteMode::kNew));
  TableWriter table(file.get());
  BundleHeaderProto header;
  header.set_num_shards(index.num_shards);
  if (index.big_endian) header.set_endianness(BundleHeaderProto::BIG);
  header.mutable_version()->set_producer(kVersion);
  TANDEM_RETURN_IF_ERROR(table.Add(kHeaderKey, header.SerializeAsString()));
  BundleEntryProto proto;
  for (const auto& [key, entry] : index.entries) {
    EntryToProto(entry, &proto);
    TANDEM_RETURN_IF_ERROR(table.Add(key, proto.SerializeAsString()));
  }
  TANDEM_RETURN_IF_ERROR(table.Finish());
  TANDEM_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status CheckBundleData(FileSystem* files, const std::string& prefix,
                             const BundleIndex& index) {
  std::map<int, int64_t> needed;
  for (const auto& [key, entry] : index.entries) {
    if (!entry.slices.empty()) continue;
    int64_t& end = needed[entry.shard];
    end = std::max(end, entry.offset + entry.size);
  }
  for (const auto& [shard, end] : needed) {
    const std::string path = BundleDataPath(prefix, shard, index.num_shards);
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info, files->Stat(path));
    if (info.size < end) {
      return errors::DataLoss(path, ": has ", info.size, " bytes, the index expects ", end,
                              "; the checkpoint was not written or copied to its end");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AddBundleSlice(const std::string& name, DataType dtype,
                                           const Shape& full, const TensorSlice& slice,
                                           BundleIndex* index) {
  std::string key = TensorSliceKey(name, slice);
  const auto [found, is_new] = index->entries.try_emplace(name);
  BundleEntry& entry = found->second;
  if (is_new) {
    entry.dtype = dtype;
    entry.shape = full;
  } else if (entry.slices.empty()) {
    return errors::InvalidArgument("the tensor '", name, "' is there whole and as the part ",
                                   slice.DebugString());
  } else if (entry.dtype != dtype || entry.shape != full) {
    return errors::InvalidArgument("the part ", slice.DebugString(), " of the tensor '", name,
                                   "' is one of ", DataTypeName(dtype), full.DebugString(),
                                   ", others are of ", DataTypeName(entry.dtype),
                                   entry.shape.DebugString());
  } else if (index->entries.count(key) != 0) {
    return errors::InvalidArgument("the part ", slice.DebugString(), " of the tensor '", name,
                                   "' is there twice");
  }
  entry.slices.push_back(slice);
  return key;
}

absl::Status PublishBundle(FileSystem* files,
                           absl::Span<const std::pair<std::string, std::string>> data,
                           const std::string& temporary_index, const std::string& prefix) {
  size_t renamed = 0;
  const auto publish = [&]() -> absl::Status {
    for (; renamed < data.size(); ++renamed) {
      TANDEM_RETURN_IF_ERROR(files->Rename(data[renamed].first, data[renamed].second));
    }
    TANDEM_RETURN_IF_ERROR(files->SyncDirectory(DirectoryOf(prefix)));
    return files->Rename(temporary_index, BundleIndexPath(prefix));
  };
  const absl::Status status = publish();
  if (!status.ok()) {
    // As far as it goes; the first error is the one that matters.
    while (renamed-- > 0) files->Rename(data[renamed].second, data[renamed].first).IgnoreError();
    return status;
  }
  return files->SyncDirectory(DirectoryOf(prefix));
}

}  // namespace tandem
