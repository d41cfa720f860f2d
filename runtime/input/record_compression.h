// Finds out how a record file is packed, which nothing in it says.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_INPUT_RECORD_COMPRESSION_H_
#define TANDEM_RUNTIME_INPUT_RECORD_COMPRESSION_H_

#include "absl/status/statusor.h"
#include "core/io/compression.h"
#include "core/io/file.h"

namespace tandem::data {

// The way in which its first record's length has the right checksum, or in which it is empty. When
// there is none (it is damaged at its beginning, or no record file), the way of which it has the
// mark: gzip's, else plain. Errors of reading are the file's.
absl::StatusOr<Compression> FindRecordCompression(const RandomAccessFile& file);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_RECORD_COMPRESSION_H_
