// The bytes of tensors whose elements differ in size, in the data files of a bundle.
//
//   strings   := length:varint*  masked crc of the lengths:u32  bytes*
//   variants  := (length:varint  VariantTensorDataProto  masked crc so far:u32)*
//
// Checksums run on from one part to the next. Of a length they take its value, not its varint: as a
// u32, or, in variants and for lengths of more than 32 bits, as a u64. Checksums that are stored
// are summed too. With big-endian files these numbers have the order of the machine that wrote
// them.
#ifndef TANDEM_CORE_IO_BUNDLE_VALUES_H_
#define TANDEM_CORE_IO_BUNDLE_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct BundleValues {
  std::string bytes;
  uint32_t crc = 0;  // Not masked.
};

// REQUIRES: a tensor of strings or variants. Unimplemented: a variant without a codec
// (core/tensor/variant_codec.h).
absl::StatusOr<BundleValues> EncodeBundleValues(const Tensor& tensor);

// Fills `tensor`, which has the type and the shape. DataLoss: the bytes are damaged; then no
// element was changed; or a variant's value is none. Unimplemented: a variant without a codec.
// `crc` is masked.
absl::Status DecodeBundleValues(absl::string_view bytes, uint32_t crc, bool big_endian,
                                Tensor* tensor);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_BUNDLE_VALUES_H_
