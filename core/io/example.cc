#include "core/io/example.h"

#include <climits>
#include <utility>

#include "core/base/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tandem {
namespace {

template <typename T>
void AddFloats(const Tensor& tensor, tensorflow::FloatList* list) {
  list->mutable_value()->Reserve(static_cast<int>(tensor.num_elements()));
  for (const T value : tensor.Elements<T>()) list->add_value(static_cast<float>(value));
}

template <typename T>
void AddInts(const Tensor& tensor, tensorflow::Int64List* list) {
  list->mutable_value()->Reserve(static_cast<int>(tensor.num_elements()));
  for (const T value : tensor.Elements<T>()) list->add_value(static_cast<int64_t>(value));
}

template <typename Message>
absl::StatusOr<std::string> SerializeInOrder(const Message& message) {
  const size_t size = message.ByteSizeLong();
  if (size > INT_MAX) {
    return errors::InvalidArgument("an example of ", size,
                                   " bytes is larger than a message can be (2 GiB)");
  }
  std::string bytes;
  bytes.reserve(size);
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.SetSerializationDeterministic(true);
  if (!message.SerializeToCodedStream(&output)) {
    return errors::InvalidArgument("an example cannot be serialized");
  }
  output.Trim();
  return bytes;
}

}  // namespace

tensorflow::Feature FloatFeature(absl::Span<const float> values) {
  tensorflow::Feature feature;
  feature.mutable_float_list()->mutable_value()->Add(values.begin(), values.end());
  return feature;
}

tensorflow::Feature Int64Feature(absl::Span<const int64_t> values) {
  tensorflow::Feature feature;
  feature.mutable_int64_list()->mutable_value()->Add(values.begin(), values.end());
  return feature;
}

tensorflow::Feature BytesFeature(absl::Span<const std::string> values) {
  tensorflow::Feature feature;
  for (const std::string& value : values) feature.mutable_bytes_list()->add_value(value);
  // A list without values is not a missing one.
  feature.mutable_bytes_list();
  return feature;
}

absl::StatusOr<tensorflow::Feature> FeatureFromTensor(const Tensor& tensor) {
  if (tensor.num_elements() > INT_MAX) {
    return errors::InvalidArgument("a feature cannot hold the ", tensor.num_elements(),
                                   " elements of a tensor of shape ", tensor.shape().DebugString());
  }
  tensorflow::Feature feature;
  switch (tensor.dtype()) {
    case kFloat32:
      return FloatFeature(tensor.Elements<float>());
    case kFloat16:
      AddFloats<Float16>(tensor, feature.mutable_float_list());
      return feature;
    case kBfloat16:
      AddFloats<Bfloat16>(tensor, feature.mutable_float_list());
      return feature;
    case kBool:
      AddInts<bool>(tensor, feature.mutable_int64_list());
      return feature;
    case kInt8:
      AddInts<int8_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kInt16:
      AddInts<int16_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kInt32:
      AddInts<int32_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kInt64:
      return Int64Feature(tensor.Elements<int64_t>());
    case kUint8:
      AddInts<uint8_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kUint16:
      AddInts<uint16_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kUint32:
      AddInts<uint32_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kUint64:
      for (const uint64_t value : tensor.Elements<uint64_t>()) {
        if (value > static_cast<uint64_t>(INT64_MAX)) {
          return errors::InvalidArgument("a feature holds int64; the uint64 ", value,
                                         " does not fit");
        }
      }
      AddInts<uint64_t>(tensor, feature.mutable_int64_list());
      return feature;
    case kString:
      return BytesFeature(tensor.Elements<std::string>());
    default:
      return errors::InvalidArgument("a feature holds float32, int64 or strings; a tensor of type ",
                                     DataTypeName(tensor.dtype()),
                                     " must be cast to one of them first");
  }
}

absl::StatusOr<Tensor> TensorFromFeature(const tensorflow::Feature& feature) {
  switch (feature.kind_case()) {
    case tensorflow::Feature::kFloatList: {
      const auto& list = feature.float_list().value();
      return Tensor::Vector<float>(
          absl::MakeConstSpan(list.data(), static_cast<size_t>(list.size())));
    }
    case tensorflow::Feature::kInt64List: {
      const auto& list = feature.int64_list().value();
      Tensor tensor(kInt64, {list.size()});
      std::copy(list.begin(), list.end(), tensor.MutableElements<int64_t>().begin());
      return tensor;
    }
    case tensorflow::Feature::kBytesList: {
      const auto& list = feature.bytes_list().value();
      Tensor tensor(kString, {list.size()});
      std::copy(list.begin(), list.end(), tensor.MutableElements<std::string>().begin());
      return tensor;
    }
    case tensorflow::Feature::KIND_NOT_SET:
      break;
  }
  return errors::NotFound("the feature has no values, and no kind");
}

void SetFeature(absl::string_view key, tensorflow::Feature feature, tensorflow::Example* example) {
  (*example->mutable_features()->mutable_feature())[std::string(key)] = std::move(feature);
}

void SetContextFeature(absl::string_view key, tensorflow::Feature feature,
                       tensorflow::SequenceExample* example) {
  (*example->mutable_context()->mutable_feature())[std::string(key)] = std::move(feature);
}

void AddStep(absl::string_view key, tensorflow::Feature feature,
             tensorflow::SequenceExample* example) {
  auto& lists = *example->mutable_feature_lists()->mutable_feature_list();
  *lists[std::string(key)].add_feature() = std::move(feature);
}

absl::StatusOr<std::string> SerializeExample(const tensorflow::Example& example) {
  return SerializeInOrder(example);
}

absl::StatusOr<std::string> SerializeExample(const tensorflow::SequenceExample& example) {
  return SerializeInOrder(example);
}

}  // namespace tandem
