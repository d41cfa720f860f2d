#include "core/io/bundle_values.h"

#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"
#include "core/tensor/variant_codec.h"
#include "proto/tensor.pb.h"

namespace tandem {
namespace {

absl::Status Damaged(const char* what) {
  return errors::DataLoss(what, "; the data file is damaged or belongs to another index");
}

template <typename T>
uint32_t ExtendByNumber(uint32_t crc, T value, bool big_endian) {
  if (big_endian) {
    value = sizeof(T) == sizeof(uint32_t) ? static_cast<T>(__builtin_bswap32(value))
                                          : static_cast<T>(__builtin_bswap64(value));
  }
  return ExtendCrc32c(crc, &value, sizeof(value));
}

uint32_t ExtendByStringLength(uint32_t crc, uint64_t length, bool big_endian) {
  if (length > std::numeric_limits<uint32_t>::max()) return ExtendByNumber(crc, length, big_endian);
  return ExtendByNumber(crc, static_cast<uint32_t>(length), big_endian);
}

// Reads a stored checksum of what `crc` is of, and extends `crc` by it.
bool ReadChecksum(Decoder* decoder, bool big_endian, uint32_t* crc) {
  uint32_t stored = 0;
  if (!decoder->ReadFixed32(&stored)) return false;
  const bool fits = (big_endian ? __builtin_bswap32(stored) : stored) == MaskCrc32c(*crc);
  *crc = ExtendByNumber(*crc, stored, false);
  return fits;
}

void AppendChecksum(BundleValues* values) {
  const uint32_t masked = MaskCrc32c(values->crc);
  AppendFixed32(masked, &values->bytes);
  values->crc = ExtendByNumber(values->crc, masked, false);
}

absl::Status DecodeStrings(absl::string_view bytes, uint32_t expected, bool big_endian,
                           absl::Span<std::string> elements) {
  Decoder decoder(bytes);
  uint32_t crc = 0;
  uint64_t total = 0;
  std::vector<uint64_t> lengths(elements.size());
  for (uint64_t& length : lengths) {
    if (!decoder.ReadVarint64(&length) || length > bytes.size() - total) {
      return Damaged("the lengths of the strings do not fit");
    }
    total += length;
    crc = ExtendByStringLength(crc, length, big_endian);
  }
  if (!ReadChecksum(&decoder, big_endian, &crc)) {
    return Damaged("the lengths of the strings have a wrong checksum");
  }
  if (decoder.rest().size() != total) {
    return Damaged("the lengths of the strings do not add up to their bytes");
  }
  if (MaskCrc32c(ExtendCrc32c(crc, decoder.rest())) != expected) {
    return Damaged("the strings have a wrong checksum");
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    absl::string_view value;
    decoder.ReadBytes(lengths[i], &value);
    elements[i].assign(value.data(), value.size());
  }
  return absl::OkStatus();
}

absl::Status DecodeVariants(absl::string_view bytes, uint32_t expected, bool big_endian,
                            absl::Span<Variant> elements) {
  Decoder decoder(bytes);
  uint32_t crc = 0;
  std::vector<absl::string_view> values(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    uint64_t length = 0;
    absl::string_view value;
    if (!decoder.ReadVarint64(&length) || !decoder.ReadBytes(length, &value)) {
      return Damaged("the lengths of the variants do not fit");
    }
    crc = ExtendCrc32c(ExtendByNumber(crc, length, big_endian), value);
    if (!ReadChecksum(&decoder, big_endian, &crc)) {
      return Damaged("a variant has a wrong checksum");
    }
    values[i] = value;
  }
  if (!decoder.empty()) return Damaged("there are bytes behind the variants");
  if (MaskCrc32c(crc) != expected) return Damaged("the variants have a wrong checksum");
  for (size_t i = 0; i < elements.size(); ++i) {
    tensorflow::VariantTensorDataProto proto;
    if (!proto.ParseFromArray(values[i].data(), static_cast<int>(values[i].size()))) {
      return Damaged("the bytes of a variant are no VariantTensorDataProto");
    }
    TANDEM_ASSIGN_OR_RETURN(elements[i], VariantFromProto(proto));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BundleValues> EncodeBundleValues(const Tensor& tensor) {
  BundleValues values;
  if (tensor.dtype() == kString) {
    const absl::Span<const std::string> elements = tensor.Elements<std::string>();
    size_t total = 0;
    for (const std::string& element : elements) {
      AppendVarint64(element.size(), &values.bytes);
      values.crc = ExtendByStringLength(values.crc, element.size(), false);
      total += element.size();
    }
    AppendChecksum(&values);
    values.bytes.reserve(values.bytes.size() + total);
    for (const std::string& element : elements) {
      values.bytes += element;
      values.crc = ExtendCrc32c(values.crc, element);
    }
    return values;
  }
  for (const Variant& element : tensor.Elements<Variant>()) {
    tensorflow::VariantTensorDataProto proto;
    TANDEM_RETURN_IF_ERROR(VariantToProto(element, &proto));
    // That of an empty variant has no bytes.
    const std::string bytes = proto.SerializeAsString();
    AppendVarint64(bytes.size(), &values.bytes);
    values.bytes += bytes;
    values.crc = ExtendCrc32c(ExtendByNumber(values.crc, uint64_t{bytes.size()}, false), bytes);
    AppendChecksum(&values);
  }
  return values;
}

absl::Status DecodeBundleValues(absl::string_view bytes, uint32_t crc, bool big_endian,
                                Tensor* tensor) {
  if (tensor->dtype() == kString) {
    return DecodeStrings(bytes, crc, big_endian, tensor->MutableElements<std::string>());
  }
  return DecodeVariants(bytes, crc, big_endian, tensor->MutableElements<Variant>());
}

}  // namespace tandem
