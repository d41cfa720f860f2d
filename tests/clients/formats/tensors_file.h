// Tensors by name in a file that both sides read without the formats that are tested: messages
// (NamedTensorProto), each after its length in eight bytes, little-endian.
#ifndef TANDEM_TESTS_CLIENTS_FORMATS_TENSORS_FILE_H_
#define TANDEM_TESTS_CLIENTS_FORMATS_TENSORS_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/checkpoint/write.h"

namespace tandem::formats {

absl::StatusOr<NamedTensors> ReadTensors(const std::string& path);
absl::Status WriteTensors(const std::string& path, const NamedTensors& tensors);

}  // namespace tandem::formats

#endif  // TANDEM_TESTS_CLIENTS_FORMATS_TENSORS_FILE_H_
