// IDX: the format of the MNIST files. All numbers are big-endian.
//
//   file   := magic size{rank} value{product of the sizes}
//   magic  := 0x00 0x00 type rank     type: 08 uint8, 09 int8, 0b int16, 0c int32, 0d float32,
//   size   := uint32                        0e float64
#ifndef TANDEM_RUNTIME_INPUT_IDX_FILE_H_
#define TANDEM_RUNTIME_INPUT_IDX_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// Contents of a magic number that a reader insists on.
struct IdxContents {
  uint32_t magic = 0;     // 0: any.
  const char* name = "";  // What such a file has ("images").
};

// Reads a file, plain or gzipped; one without the ending .gz is looked for with it too. Errors have
// the path, the offset (in unpacked contents), what was found and what was expected. NotFound:
// there is no such file. DataLoss: it is cut off, or goes on after its values. InvalidArgument: it
// is no IDX file, not the one that is expected, or has no items.
absl::StatusOr<Tensor> ReadIdxFile(const std::string& path, const IdxContents& expected = {});

// The path that ReadIdxFile reads: `path`, or with .gz.
absl::StatusOr<std::string> FindIdxFile(const std::string& path);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_IDX_FILE_H_
