// Compressed streams: whole files that are packed, as record files are. Nothing in a file says how;
// the reader has to know.
//
//   kNone    the bytes themselves
//   kZlib    a zlib stream (RFC 1950)
//   kGzip    a gzip file (RFC 1952), which may consist of several members
//   kSnappy  blocks: four bytes, big-endian, the packed length; then a raw Snappy block
//
// Threads: one at a time for each object.
#ifndef TANDEM_CORE_IO_COMPRESSION_H_
#define TANDEM_CORE_IO_COMPRESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/io/file.h"

namespace tandem {

enum class Compression { kNone, kZlib, kGzip, kSnappy };

// TensorFlow's names: "", "ZLIB", "GZIP", "SNAPPY". InvalidArgument: another one.
absl::StatusOr<Compression> ParseCompression(absl::string_view name);
absl::string_view CompressionName(Compression compression);

// Reads a file from its beginning to its end, unpacked.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Returns how much was read; less than asked for only at the end, and before damage, which the
  // next call reports. DataLoss: the packed bytes are damaged or end too early (ended_early() tells
  // them apart); the message has the file and the offset in it.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> bytes) = 0;
  // Goes to an offset of the unpacked contents. Backwards in a packed file, and after an error, it
  // starts again from the beginning. InvalidArgument: the contents are shorter.
  virtual absl::Status Seek(int64_t offset) = 0;
  // After a DataLoss: the file ends before its packed contents do, as when it is still being
  // written.
  virtual bool ended_early() const = 0;
  // Bytes that are left in a plain file as it is now; -1 where nobody can know.
  virtual absl::StatusOr<int64_t> Remaining() = 0;
};

// `file` outlives the source.
std::unique_ptr<ByteSource> MakeByteSource(const RandomAccessFile* file, Compression compression);

// Packs what is appended to it into a file, in pieces of its own choice.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Hands to the file all that was appended, in a form that a reader can unpack up to here. Costs
  // some of the compression.
  virtual absl::Status Flush() = 0;
  // Flushes and ends the stream. The file stays open.
  virtual absl::Status Finish() = 0;
};

// `file` outlives the sink. `level` is zlib's: 0 (none) to 9 (best), -1 its default.
absl::StatusOr<std::unique_ptr<ByteSink>> MakeByteSink(WritableFile* file, Compression compression,
                                                       int level = -1);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_COMPRESSION_H_
