#include "runtime/input/record_compression.h"

#include <cstring>
#include <memory>

#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"

namespace tandem::data {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderBytes = kLengthBytes + 4;
constexpr char kGzipMark[] = "\x1f\x8b";

// True when `file`, unpacked like this, begins with a record or is empty.
absl::StatusOr<bool> BeginsWell(const RandomAccessFile& file, Compression compression) {
  const std::unique_ptr<ByteSource> source = MakeByteSource(&file, compression);
  char header[kHeaderBytes];
  const absl::StatusOr<size_t> got = source->Read(absl::MakeSpan(header));
  if (!got.ok()) {
    // Bytes that are not packed like this, rather than a file that cannot be read.
    if (absl::IsDataLoss(got.status()) || absl::IsResourceExhausted(got.status())) return false;
    return got.status();
  }
  if (*got == 0) {
    // Nothing, or nothing before damage, which the next call reports.
    return source->Read(absl::MakeSpan(header)).ok();
  }
  return *got == kHeaderBytes &&
         MaskCrc32c(ExtendCrc32c(0, header, kLengthBytes)) == DecodeFixed32(header + kLengthBytes);
}

}  // namespace

absl::StatusOr<Compression> FindRecordCompression(const RandomAccessFile& file) {
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kSnappy}) {
    TANDEM_ASSIGN_OR_RETURN(const bool begins_well, BeginsWell(file, compression));
    if (begins_well) return compression;
  }
  char mark[2];
  TANDEM_ASSIGN_OR_RETURN(const size_t got, file.Read(0, absl::MakeSpan(mark)));
  const bool gzip = got == sizeof(mark) && std::memcmp(mark, kGzipMark, sizeof(mark)) == 0;
  return gzip ? Compression::kGzip : Compression::kNone;
}

}  // namespace tandem::data
