#include "core/io/bundle_reader.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle_values.h"
#include "core/io/crc32c.h"

namespace tandem {
namespace {

// Read, then summed while it is in the cache.
constexpr int64_t kChunkBytes = int64_t{256} << 10;
// What a thread reads at a time, where there are several.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
// So many pieces ahead the disk is told what will be read: several threads at several places of a
// file look like random reads to it, which it does not read ahead of.
constexpr int64_t kPiecesAhead = 8;
// Parts of one tensor that overlap what is asked for. Each is compared with each.
constexpr size_t kMaxParts = 10000;

template <typename Word>
void SwapBytes(char* elements, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(sizeof(Word))) {
    std::reverse(elements + i, elements + i + sizeof(Word));
  }
}

absl::Status CheckSameType(const BundleEntry& entry, const Shape& shape, const Tensor& tensor) {
  if (tensor.dtype() == entry.dtype && tensor.shape() == shape) return absl::OkStatus();
  return errors::InvalidArgument("the checkpoint holds ", DataTypeName(entry.dtype),
                                 shape.DebugString(), ", what is read into is ",
                                 DataTypeName(tensor.dtype()), tensor.shape().DebugString());
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(
    FileSystem* files, const std::string& prefix, const BundleReaderOptions& options) {
  std::unique_ptr<BundleReader> reader(new BundleReader(files, prefix, options));
  TANDEM_ASSIGN_OR_RETURN(reader->index_, ReadBundleIndex(files, prefix));
  if (options.check_data) {
    TANDEM_RETURN_IF_ERROR(CheckBundleData(files, prefix, reader->index_));
  }
  return reader;
}

std::vector<std::string> BundleReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : index_.entries) {
    if (CheckBundleName(key).ok()) names.push_back(key);
  }
  return names;
}

const BundleEntry* BundleReader::Find(absl::string_view name) const {
  if (!CheckBundleName(name).ok()) return nullptr;
  const auto found = index_.entries.find(name);
  return found == index_.entries.end() ? nullptr : &found->second;
}

absl::StatusOr<const BundleEntry*> BundleReader::Lookup(absl::string_view name) const {
  const BundleEntry* const entry = Find(name);
  if (entry != nullptr) return entry;
  return errors::NotFound("Key ", name, " not found in checkpoint '", prefix_, "'");
}

absl::Status BundleReader::InTensor(const absl::Status& status, absl::string_view name) const {
  if (status.ok()) return status;
  return WithContext(status, absl::StrCat("checkpoint '", prefix_, "', tensor '", name, "'"));
}

absl::StatusOr<Tensor> BundleReader::Read(absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(name));
  return ReadSlice(name, TensorSlice(entry->shape.rank()));
}

absl::Status BundleReader::ForAll(absl::Span<const std::string> names,
                                  absl::FunctionRef<absl::Status(size_t i)> work) const {
  struct Place {
    int shard;
    int64_t offset;
    int64_t size;
    size_t i;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < names.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(names[i]));
    places.push_back({entry->shard, entry->offset, entry->size, i});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.shard, a.offset) < std::tie(b.shard, b.offset);
  });
  std::vector<absl::Status> results(names.size());
  const auto run = [&](size_t at) { results[places[at].i] = work(places[at].i); };
  // Runs of places, [first, second), of about a piece. Large tensors are read by several threads
  // each, and so between them.
  std::vector<std::pair<size_t, size_t>> runs;
  int64_t bytes = 0;  // Of the last run.
  const auto flush = [&] {
    const auto run_all = [&](int64_t k) {
      for (size_t at = runs[static_cast<size_t>(k)].first; at < runs[static_cast<size_t>(k)].second;
           ++at) {
        run(at);
      }
    };
    const auto count = static_cast<int64_t>(runs.size());
    if (count > 1) {
      options_.parallel_for(count, run_all);
    } else if (count == 1) {
      run_all(0);
    }
    runs.clear();
  };
  for (size_t at = 0; at < places.size(); ++at) {
    const bool is_large = options_.parallel_for == nullptr || places[at].size >= 2 * kPieceBytes ||
                          !Find(names[places[at].i])->slices.empty();
    if (is_large) {
      flush();
      run(at);
      continue;
    }
    if (runs.empty() || bytes >= kPieceBytes) {
      runs.emplace_back(at, at);
      bytes = 0;
    }
    runs.back().second = at + 1;
    bytes += places[at].size;
  }
  flush();
  for (const absl::Status& result : results) TANDEM_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> BundleReader::ReadAll(
    absl::Span<const std::string> names) const {
  std::vector<Tensor> tensors(names.size());
  TANDEM_RETURN_IF_ERROR(ForAll(names, [&](size_t i) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(tensors[i], Read(names[i]));
    return absl::OkStatus();
  }));
  return tensors;
}

absl::Status BundleReader::VerifyAll() const {
  const std::vector<std::string> names = Names();
  return ForAll(names, [&](size_t i) { return Verify(names[i]); });
}

absl::StatusOr<Tensor> BundleReader::ReadSlice(absl::string_view name,
                                               const TensorSlice& slice) const {
  TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(name));
  TANDEM_RETURN_IF_ERROR(InTensor(CheckReadable(*entry), name));
  const absl::StatusOr<TensorSlice> wanted = slice.Resolve(entry->shape);
  if (!wanted.ok()) return InTensor(wanted.status(), name);
  // The bytes of what is stored whole were compared with the file. Parts may leave most of a shape
  // uncovered, so they are looked at before memory is taken.
  int64_t stored = 0;
  if (entry->slices.empty()) {
    TANDEM_RETURN_IF_ERROR(InTensor(DataFile(entry->shard).status(), name));
    stored = entry->shape.num_elements();
  }
  for (const TensorSlice& slice_of_it : entry->slices) {
    const BundleEntry& part = Part(name, slice_of_it);
    TANDEM_RETURN_IF_ERROR(InTensor(DataFile(part.shard).status(), name));
    stored += std::min(part.shape.num_elements(), entry->shape.num_elements() - stored);
  }
  if (stored < wanted->shape().num_elements()) {
    return InTensor(errors::InvalidArgument("its parts have ", stored, " elements, the part ",
                                            slice.DebugString(), " of ", entry->shape.DebugString(),
                                            " has more"),
                    name);
  }
  absl::StatusOr<Tensor> tensor = Tensor::Create(entry->dtype, wanted->shape());
  if (!tensor.ok()) return InTensor(tensor.status(), name);
  TANDEM_RETURN_IF_ERROR(ReadSliceInto(name, *wanted, &*tensor));
  return tensor;
}

absl::Status BundleReader::ReadInto(absl::string_view name, Tensor* tensor) const {
  TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(name));
  return ReadSliceInto(name, TensorSlice(entry->shape.rank()), tensor);
}

absl::Status BundleReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice,
                                         Tensor* tensor) const {
  TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(name));
  const auto read = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckReadable(*entry));
    TANDEM_ASSIGN_OR_RETURN(const TensorSlice wanted, slice.Resolve(entry->shape));
    TANDEM_RETURN_IF_ERROR(CheckSameType(*entry, wanted.shape(), *tensor));
    if (!entry->slices.empty()) return ReadFromSlices(name, *entry, wanted, tensor);
    TANDEM_ASSIGN_OR_RETURN(const TensorSlice all,
                            TensorSlice(entry->shape.rank()).Resolve(entry->shape));
    return ReadCommonPart(*entry, all, wanted, tensor);
  };
  return InTensor(read(), name);
}

absl::Status BundleReader::Verify(absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const BundleEntry* const entry, Lookup(name));
  const auto verify = [&](const BundleEntry& stored) -> absl::Status {
    if (StoredElementBytes(stored.dtype) > 0) return ReadBytes(stored, Range());
    TANDEM_RETURN_IF_ERROR(CheckReadable(stored));
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(stored.dtype, stored.shape));
    const absl::Status status = ReadStored(stored, &tensor);
    // What cannot be read was checked all the same.
    return status.code() == absl::StatusCode::kUnimplemented ? absl::OkStatus() : status;
  };
  if (entry->slices.empty()) return InTensor(verify(*entry), name);
  for (const TensorSlice& slice : entry->slices) {
    TANDEM_RETURN_IF_ERROR(InTensor(verify(Part(name, slice)), name));
  }
  return absl::OkStatus();
}

const BundleEntry& BundleReader::Part(absl::string_view name, const TensorSlice& slice) const {
  return index_.entries.find(TensorSliceKey(name, slice))->second;
}

absl::Status BundleReader::CheckReadable(const BundleEntry& entry) const {
  if (IsSupported(entry.dtype) && entry.dtype != kResource) return absl::OkStatus();
  return errors::Unimplemented("tensors of type ", DataTypeName(entry.dtype), " cannot be read");
}

absl::Status BundleReader::ReadFromSlices(absl::string_view name, const BundleEntry& entry,
                                          const TensorSlice& wanted, Tensor* tensor) const {
  struct Needed {
    const TensorSlice* as_saved;
    TensorSlice stored;
    TensorSlice common;
  };
  std::vector<Needed> parts;
  int64_t covered = 0;
  for (const TensorSlice& slice : entry.slices) {
    TANDEM_ASSIGN_OR_RETURN(TensorSlice stored, slice.Resolve(entry.shape));
    absl::optional<TensorSlice> common = stored.Intersection(wanted);
    if (!common.has_value()) continue;
    for (const Needed& other : parts) {
      if (!common->Intersection(other.common).has_value()) continue;
      return errors::InvalidArgument("its parts ", other.stored.DebugString(), " and ",
                                     stored.DebugString(), " overlap");
    }
    if (parts.size() == kMaxParts) {
      return errors::InvalidArgument("more than ", kMaxParts, " parts of it are needed");
    }
    covered += common->shape().num_elements();
    parts.push_back({&slice, std::move(stored), *std::move(common)});
  }
  if (covered < wanted.shape().num_elements()) {
    return errors::InvalidArgument("the parts that are stored have ", covered, " of the ",
                                   wanted.shape().num_elements(), " elements of the part ",
                                   wanted.DebugString());
  }
  for (const Needed& part : parts) {
    TANDEM_RETURN_IF_ERROR(ReadCommonPart(Part(name, *part.as_saved), part.stored, wanted, tensor));
  }
  return absl::OkStatus();
}

absl::Status BundleReader::ReadCommonPart(const BundleEntry& entry, const TensorSlice& stored,
                                          const TensorSlice& wanted, Tensor* tensor) const {
  if (stored == wanted) return ReadStored(entry, tensor);
  const absl::optional<TensorSlice> common = stored.Intersection(wanted);
  if (!common.has_value()) return absl::OkStatus();
  // Rows of both lie together: no copy in between.
  bool rows = IsTriviallyCopyable(entry.dtype) && stored.rank() > 0;
  for (size_t i = 1; rows && i < stored.extents().size(); ++i) {
    rows = stored.extents()[i] == wanted.extents()[i];
  }
  if (rows) {
    const TensorSlice::Extent& extent = common->extents()[0];
    const int64_t row_bytes = entry.size / stored.extents()[0].length;
    char* const to = static_cast<char*>(tensor->mutable_data()) +
                     (extent.start - wanted.extents()[0].start) * row_bytes;
    const int64_t begin = (extent.start - stored.extents()[0].start) * row_bytes;
    const int64_t bytes = extent.length * row_bytes;
    TANDEM_RETURN_IF_ERROR(ReadBytes(entry, {begin, begin + bytes, to}));
    return Convert(entry, to, bytes);
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(entry.dtype, stored.shape()));
  TANDEM_RETURN_IF_ERROR(ReadStored(entry, &whole));
  CopyCommonPart(whole, stored, wanted, tensor);
  return absl::OkStatus();
}

absl::Status BundleReader::ReadStored(const BundleEntry& entry, Tensor* tensor) const {
  if (IsTriviallyCopyable(entry.dtype)) {
    char* const elements = static_cast<char*>(tensor->mutable_data());
    TANDEM_RETURN_IF_ERROR(ReadBytes(entry, {0, entry.size, elements}));
    return Convert(entry, elements, entry.size);
  }
  TANDEM_ASSIGN_OR_RETURN(const RandomAccessFile* const file, DataFile(entry.shard));
  std::string bytes(static_cast<size_t>(entry.size), '\0');
  TANDEM_RETURN_IF_ERROR(file->ReadExactly(entry.offset, absl::MakeSpan(&bytes[0], bytes.size())));
  return WithContext(DecodeBundleValues(bytes, entry.crc, index_.big_endian, tensor),
                     absl::StrCat(file->path(), " at offset ", entry.offset));
}

absl::Status BundleReader::ReadBytes(const BundleEntry& entry, const Range& range) const {
  TANDEM_ASSIGN_OR_RETURN(const RandomAccessFile* const file, DataFile(entry.shard));
  const bool parallel = options_.parallel_for != nullptr && entry.size >= 2 * kPieceBytes;
  const int64_t piece_bytes = parallel ? kPieceBytes : std::max<int64_t>(entry.size, 1);
  const int64_t count = (entry.size + piece_bytes - 1) / piece_bytes;
  std::vector<absl::StatusOr<uint32_t>> sums(static_cast<size_t>(count), uint32_t{0});
  const auto piece_size = [&](int64_t i) {
    return std::min(piece_bytes, entry.size - i * piece_bytes);
  };
  const auto will_read = [&](int64_t begin, int64_t pieces) {
    const int64_t size = std::min(pieces * piece_bytes, entry.size - begin);
    if (parallel && size > 0) file->WillRead(entry.offset + begin, size);
  };
  will_read(0, kPiecesAhead);
  const auto read = [&](int64_t i) {
    const int64_t begin = i * piece_bytes;
    will_read(begin + kPiecesAhead * piece_bytes, 1);
    sums[static_cast<size_t>(i)] = ReadPiece(*file, entry, begin, begin + piece_size(i), range);
  };
  if (parallel) {
    options_.parallel_for(count, read);
  } else if (count > 0) {
    read(0);
  }
  uint32_t crc = 0;
  for (int64_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN_OR_RETURN(const uint32_t sum, std::move(sums[static_cast<size_t>(i)]));
    crc = CombineCrc32c(crc, sum, static_cast<uint64_t>(piece_size(i)));
  }
  if (MaskCrc32c(crc) == entry.crc) return absl::OkStatus();
  return errors::DataLoss(file->path(), ": the ", entry.size, " bytes at offset ", entry.offset,
                          " have the checksum ", absl::Hex(crc, absl::kZeroPad8),
                          ", the index expects ",
                          absl::Hex(UnmaskCrc32c(entry.crc), absl::kZeroPad8),
                          "; the file is damaged or belongs to another index");
}

absl::StatusOr<uint32_t> BundleReader::ReadPiece(const RandomAccessFile& file,
                                                 const BundleEntry& entry, int64_t begin,
                                                 int64_t end, const Range& range) const {
  uint32_t crc = 0;
  std::string scratch;
  for (int64_t at = begin; at < end; at += kChunkBytes) {
    const int64_t chunk_end = std::min(at + kChunkBytes, end);
    const auto size = static_cast<size_t>(chunk_end - at);
    const int64_t wanted_begin = std::max(at, range.begin);
    const int64_t wanted_end = std::min(chunk_end, range.end);
    char* bytes = nullptr;
    if (wanted_begin == at && wanted_end == chunk_end) {
      bytes = range.to + (at - range.begin);
    } else {
      scratch.resize(size);
      bytes = &scratch[0];
    }
    TANDEM_RETURN_IF_ERROR(file.ReadExactly(entry.offset + at, absl::MakeSpan(bytes, size)));
    crc = ExtendCrc32c(crc, bytes, size);
    if (bytes == scratch.data() && wanted_begin < wanted_end) {
      std::memcpy(range.to + (wanted_begin - range.begin), bytes + (wanted_begin - at),
                  static_cast<size_t>(wanted_end - wanted_begin));
    }
  }
  return crc;
}

absl::Status BundleReader::Convert(const BundleEntry& entry, char* elements, int64_t bytes) const {
  if (entry.dtype == kBool &&
      std::any_of(elements, elements + bytes, [](char c) { return c != 0 && c != 1; })) {
    return errors::DataLoss(BundleDataPath(prefix_, entry.shard, index_.num_shards), ": at offset ",
                            entry.offset, " are bools that are neither 0 nor 1");
  }
  if (!index_.big_endian) return absl::OkStatus();
  // The halves of complex numbers are numbers of their own.
  const size_t width = StoredElementBytes(entry.dtype) / (IsComplex(entry.dtype) ? 2 : 1);
  if (width == 2) SwapBytes<uint16_t>(elements, bytes);
  if (width == 4) SwapBytes<uint32_t>(elements, bytes);
  if (width == 8) SwapBytes<uint64_t>(elements, bytes);
  return absl::OkStatus();
}

absl::StatusOr<const RandomAccessFile*> BundleReader::DataFile(int shard) const {
  MutexLock lock(mutex_);
  std::unique_ptr<RandomAccessFile>& file = data_[shard];
  if (file == nullptr) {
    if (!options_.check_data) TANDEM_RETURN_IF_ERROR(CheckBundleData(files_, prefix_, index_));
    TANDEM_ASSIGN_OR_RETURN(file,
                            files_->OpenToRead(BundleDataPath(prefix_, shard, index_.num_shards)));
  }
  return file.get();
}

}  // namespace tandem
