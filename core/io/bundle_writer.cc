#include "core/io/bundle_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle_values.h"
#include "core/io/crc32c.h"

namespace tandem {
namespace {

// Smaller tensors are gathered in a buffer of this size.
constexpr size_t kBufferBytes = size_t{256} << 10;
// Summed, then written: the system copies the bytes while they are in the cache. Writes of many
// megabytes at a time were seen to take several times as long.
constexpr size_t kChunkBytes = size_t{256} << 10;
// What a thread sums at a time, where there are several.
constexpr size_t kPieceBytes = size_t{4} << 20;

uint32_t SumPieces(absl::string_view bytes, const ParallelFor& parallel_for) {
  const size_t count = (bytes.size() + kPieceBytes - 1) / kPieceBytes;
  std::vector<uint32_t> sums(count);
  const auto piece = [&](size_t i) { return bytes.substr(i * kPieceBytes, kPieceBytes); };
  parallel_for(static_cast<int64_t>(count), [&](int64_t i) {
    sums[static_cast<size_t>(i)] = Crc32c(piece(static_cast<size_t>(i)));
  });
  uint32_t crc = 0;
  for (size_t i = 0; i < count; ++i) crc = CombineCrc32c(crc, sums[i], piece(i).size());
  return crc;
}

}  // namespace

BundleWriter::BundleWriter(FileSystem* files, std::string prefix, BundleWriterOptions options)
    : files_(files),
      prefix_(std::move(prefix)),
      options_(std::move(options)),
      temporary_data_(TemporaryPath(BundleDataPath(prefix_, 0, 1))),
      temporary_index_(TemporaryPath(BundleIndexPath(prefix_))) {}

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(
    FileSystem* files, const std::string& prefix, const BundleWriterOptions& options) {
  if (options.alignment < 1) {
    return errors::InvalidArgument("checkpoint '", prefix, "': an alignment of ", options.alignment,
                                   "; expected at least 1");
  }
  if (FileNameOf(prefix).empty()) {
    return errors::InvalidArgument("'", prefix,
                                   "' is a folder; expected the prefix of a "
                                   "checkpoint's files, as in 'folder/model'");
  }
  std::unique_ptr<BundleWriter> writer(new BundleWriter(files, prefix, options));
  TANDEM_RETURN_IF_ERROR(files->MakeDirectories(DirectoryOf(prefix)));
  TANDEM_ASSIGN_OR_RETURN(writer->data_,
                          files->OpenToWrite(writer->temporary_data_, WriteMode::kNew));
  return writer;
}

BundleWriter::~BundleWriter() {
  if (finished_ && status_.ok()) return;
  // Of no consequence when they are not there.
  if (data_ != nullptr) {
    data_.reset();
    files_->Remove(temporary_data_).IgnoreError();
  }
  files_->Remove(temporary_index_).IgnoreError();
}

absl::Status BundleWriter::Keep(absl::Status status) {
  status_.Update(WithContext(status, absl::StrCat("checkpoint '", prefix_, "'")));
  return status_;
}

absl::Status BundleWriter::Add(absl::string_view name, const Tensor& tensor) {
  if (!status_.ok()) return status_;
  TANDEM_RETURN_IF_ERROR(Keep(CheckBundleName(name)));
  if (index_.entries.count(name) != 0) {
    return Keep(errors::InvalidArgument("the tensor '", name, "' is written twice"));
  }
  BundleEntry entry;
  const absl::Status status = Write(tensor, &entry);
  if (!status.ok()) return Keep(WithContext(status, absl::StrCat("the tensor '", name, "'")));
  index_.entries.emplace(name, std::move(entry));
  return absl::OkStatus();
}

absl::Status BundleWriter::AddSlice(absl::string_view name, const Shape& full,
                                    const TensorSlice& slice, const Tensor& tensor) {
  if (!status_.ok()) return status_;
  TANDEM_RETURN_IF_ERROR(Keep(CheckBundleName(name)));
  const absl::StatusOr<TensorSlice> resolved = slice.Resolve(full);
  if (!resolved.ok()) {
    return Keep(WithContext(resolved.status(), absl::StrCat("the tensor '", name, "'")));
  }
  if (resolved->shape() != tensor.shape()) {
    return Keep(errors::InvalidArgument("the tensor '", name, "' of shape ", full.DebugString(),
                                        ": its part ", slice.DebugString(), " has the shape ",
                                        tensor.shape().DebugString(), ", expected ",
                                        resolved->shape().DebugString()));
  }
  if (resolved->Covers(full)) return Add(name, tensor);
  const absl::StatusOr<std::string> key =
      AddBundleSlice(std::string(name), tensor.dtype(), full, slice, &index_);
  if (!key.ok()) return Keep(key.status());
  BundleEntry entry;
  const absl::Status status = Write(tensor, &entry);
  if (!status.ok()) return Keep(WithContext(status, absl::StrCat("the tensor '", name, "'")));
  index_.entries.emplace(*key, std::move(entry));
  return absl::OkStatus();
}

absl::Status BundleWriter::Write(const Tensor& tensor, BundleEntry* entry) {
  if (!tensor.is_valid()) return errors::InvalidArgument("there is no tensor");
  if (tensor.dtype() == kResource) {
    return errors::InvalidArgument("a resource cannot be written to a checkpoint");
  }
  entry->dtype = tensor.dtype();
  entry->shape = tensor.shape();
  const int64_t padding = (options_.alignment - offset_ % options_.alignment) % options_.alignment;
  if (padding > 0) {
    uint32_t unused = 0;
    TANDEM_RETURN_IF_ERROR(AppendBytes(std::string(static_cast<size_t>(padding), '\0'), &unused));
  }
  entry->offset = offset_;
  uint32_t crc = 0;
  if (IsTriviallyCopyable(tensor.dtype())) {
    TANDEM_RETURN_IF_ERROR(AppendBytes(
        absl::string_view(static_cast<const char*>(tensor.data()), tensor.num_bytes()), &crc));
  } else {
    TANDEM_ASSIGN_OR_RETURN(const BundleValues values, EncodeBundleValues(tensor));
    uint32_t unused = 0;  // Not the sum of the bytes.
    TANDEM_RETURN_IF_ERROR(AppendBytes(values.bytes, &unused));
    crc = values.crc;
  }
  entry->size = offset_ - entry->offset;
  entry->crc = MaskCrc32c(crc);
  return absl::OkStatus();
}

absl::Status BundleWriter::AppendBytes(absl::string_view bytes, uint32_t* crc) {
  offset_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    *crc = Crc32c(bytes);
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  const bool parallel = options_.parallel_for != nullptr && bytes.size() >= 2 * kPieceBytes;
  if (parallel) *crc = SumPieces(bytes, options_.parallel_for);
  while (!bytes.empty()) {
    const absl::string_view chunk = bytes.substr(0, kChunkBytes);
    if (!parallel) *crc = ExtendCrc32c(*crc, chunk);
    const absl::string_view pieces[] = {buffer_, chunk};
    TANDEM_RETURN_IF_ERROR(data_->AppendPieces(pieces));
    buffer_.clear();
    bytes.remove_prefix(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status BundleWriter::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(data_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  if (!status_.ok()) return status_;
  if (finished_) return Keep(errors::FailedPrecondition("was finished before"));
  finished_ = true;
  TANDEM_RETURN_IF_ERROR(Keep(Flush()));
  TANDEM_RETURN_IF_ERROR(Keep(data_->Sync()));
  TANDEM_RETURN_IF_ERROR(Keep(data_->Close()));
  TANDEM_RETURN_IF_ERROR(Keep(WriteBundleIndex(files_, temporary_index_, index_)));
  return Keep(PublishBundle(files_, {{temporary_data_, BundleDataPath(prefix_, 0, 1)}},
                            temporary_index_, prefix_));
}

}  // namespace tandem
