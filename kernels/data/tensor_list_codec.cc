// Lists of tensors as messages, as TensorFlow writes them. The metadata is a row of varints: how
// many elements are not set, which ones, the type, the limit on the length (as a 64-bit number);
// then the elements' shape as a TensorShapeProto. The tensors are the elements that are set.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/tensor/variant_codec.h"
#include "kernels/data/tensor_list.h"
#include "proto/tensor.pb.h"
#include "proto/tensor_shape.pb.h"

namespace tandem::data {
namespace {

absl::Status Encode(const VariantValue& value, VariantCodec::WriteTensor write,
                    tensorflow::VariantTensorDataProto* to) {
  const auto& list = dynamic_cast<const TensorList&>(value);
  std::vector<uint64_t> unset;
  for (size_t i = 0; i < list.elements.size(); ++i) {
    if (!list.elements[i].is_valid()) {
      unset.push_back(i);
      continue;
    }
    TANDEM_RETURN_IF_ERROR(write(list.elements[i], to->add_tensors()));
  }
  std::string& metadata = *to->mutable_metadata();
  AppendVarint64(unset.size(), &metadata);
  for (const uint64_t index : unset) AppendVarint64(index, &metadata);
  AppendVarint64(static_cast<uint64_t>(list.dtype), &metadata);
  AppendVarint64(static_cast<uint64_t>(int64_t{list.max_elements}), &metadata);
  tensorflow::TensorShapeProto shape;
  ShapeToProto(list.element_shape, &shape);
  shape.AppendToString(&metadata);
  return absl::OkStatus();
}

absl::StatusOr<RefPtr<VariantValue>> Decode(const tensorflow::VariantTensorDataProto& from,
                                            VariantCodec::ReadTensor read) {
  const auto broken = [](const auto&... what) {
    return errors::InvalidArgument("the metadata of a list of tensors ", what...);
  };
  Decoder decoder(from.metadata());
  uint64_t count = 0;
  // Each takes a byte at least.
  if (!decoder.ReadVarint64(&count) || count > decoder.rest().size()) {
    return broken("does not say how many elements are not set");
  }
  const uint64_t size = count + static_cast<uint64_t>(from.tensors_size());
  std::vector<bool> is_unset(size);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t index = 0;
    if (!decoder.ReadVarint64(&index) || index >= size || is_unset[index]) {
      return broken("does not say which of ", size, " elements are not set");
    }
    is_unset[index] = true;
  }
  uint64_t type = 0;
  uint64_t limit = 0;
  tensorflow::TensorShapeProto shape_proto;
  if (!decoder.ReadVarint64(&type) || !decoder.ReadVarint64(&limit) ||
      !shape_proto.ParseFromArray(decoder.rest().data(), static_cast<int>(decoder.rest().size()))) {
    return broken("ends before the elements' type, limit and shape");
  }
  const auto dtype = static_cast<DataType>(type);
  const auto max_elements = static_cast<int64_t>(limit);
  if (type > std::numeric_limits<uint8_t>::max() || !IsSupported(dtype)) {
    return broken("names the type ", type, ", of which there are no tensors");
  }
  if (max_elements < TensorList::kNoLimit || max_elements > std::numeric_limits<int32_t>::max()) {
    return broken("limits the length to ", max_elements);
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, PartialShapeFromProto(shape_proto));
  auto list = MakeRef<TensorList>(dtype, shape, static_cast<int32_t>(max_elements));
  list->elements.resize(size);
  int next = 0;
  for (uint64_t i = 0; i < size; ++i) {
    if (is_unset[i]) continue;
    TANDEM_ASSIGN_OR_RETURN(list->elements[i], read(from.tensors(next++)));
    const Tensor& element = list->elements[i];
    if (element.dtype() != dtype || !shape.IsCompatibleWith(element.shape())) {
      return errors::InvalidArgument("element ", i, " of a list of ", DataTypeName(dtype),
                                     shape.DebugString(), " is ", DataTypeName(element.dtype()),
                                     element.shape().DebugString());
    }
  }
  return RefPtr<VariantValue>(std::move(list));
}

const VariantCodecRegistration registration("tensorflow::TensorList", {Encode, Decode});

}  // namespace
}  // namespace tandem::data
