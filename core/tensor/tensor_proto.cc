#include "core/tensor/tensor_proto.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/variant_codec.h"
#include "proto/resource_handle.pb.h"
#include "proto/tensor.pb.h"
#include "proto/tensor_shape.pb.h"

namespace tandem {
namespace {

using tensorflow::ResourceHandleProto;
using tensorflow::TensorProto;
using tensorflow::VariantTensorDataProto;

// Protocol Buffers' own limit on a message.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

// Up to this many numbers kCompact writes a list, which people can read in a graph's text form.
constexpr int64_t kShortList = 4;

// "a TensorProto of float32[2,3]", for messages.
std::string Describe(DataType dtype, const Shape& shape) {
  return absl::StrCat("a TensorProto of ", DataTypeName(dtype), shape.DebugString());
}
std::string Describe(const Tensor& tensor) { return Describe(tensor.dtype(), tensor.shape()); }

// Where the elements of a type lie among the lists, and how one of them is written there.
template <typename T>
struct ListOf;
#define TANDEM_LIST_OF_(T, field)                                                 \
  template <>                                                                     \
  struct ListOf<T> {                                                              \
    static const auto& Get(const TensorProto& proto) { return proto.field(); }    \
    static auto* Mutable(TensorProto* proto) { return proto->mutable_##field(); } \
  };
TANDEM_LIST_OF_(float, float_val)
TANDEM_LIST_OF_(double, double_val)
TANDEM_LIST_OF_(int8_t, int_val)
TANDEM_LIST_OF_(int16_t, int_val)
TANDEM_LIST_OF_(int32_t, int_val)
TANDEM_LIST_OF_(int64_t, int64_val)
TANDEM_LIST_OF_(uint8_t, int_val)
TANDEM_LIST_OF_(uint16_t, int_val)
TANDEM_LIST_OF_(uint32_t, uint32_val)
TANDEM_LIST_OF_(uint64_t, uint64_val)
TANDEM_LIST_OF_(bool, bool_val)
TANDEM_LIST_OF_(Float16, half_val)
TANDEM_LIST_OF_(Bfloat16, half_val)
TANDEM_LIST_OF_(std::complex<float>, scomplex_val)
TANDEM_LIST_OF_(std::complex<double>, dcomplex_val)
#undef TANDEM_LIST_OF_

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <typename T>
constexpr bool kIsPair =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Calls `function` with a T for `dtype`, the C++ type of a number. REQUIRES: it is one.
template <typename Function>
absl::Status ForNumber(DataType dtype, Function&& function) {
  switch (dtype) {
#define TANDEM_CASE_(T) \
  case DataTypeOf<T>(): \
    return function(T());
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
    TANDEM_CASE_(bool)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(std::complex<float>)
    TANDEM_CASE_(std::complex<double>)
#undef TANDEM_CASE_
    default:
      return errors::Internal("no list in a TensorProto for type ", DataTypeName(dtype));
  }
}

// Reading
// ------------------------------------------------------------------------------------------

// What a message may still take: memory, and values within values.
struct Allowance {
  size_t limit = 0;
  size_t left = 0;
  int depth = 0;  // Of variants.
};

// Counts the memory that a message asks for, before it is taken.
class Budget {
 public:
  Budget(Allowance* allowance, DataType dtype, const Shape& shape)
      : allowance_(allowance), dtype_(dtype), shape_(shape) {}

  absl::Status Take(size_t count, size_t bytes_each) {
    if (bytes_each != 0 && count > allowance_->left / bytes_each) {
      return errors::ResourceExhausted(Describe(dtype_, shape_),
                                       " stands for more bytes than the limit of ",
                                       allowance_->limit, "; send it in parts or raise the limit");
    }
    allowance_->left -= count * bytes_each;
    return absl::OkStatus();
  }

 private:
  Allowance* const allowance_;
  const DataType dtype_;
  const Shape& shape_;
};

absl::StatusOr<Tensor> ReadTensor(const TensorProto& proto, Allowance* allowance);
absl::Status WriteTensor(const Tensor& tensor, TensorProtoForm form, int depth, TensorProto* proto);

// REQUIRES: `content` has the tensor's size.
absl::Status ReadNumberContent(const std::string& content, Tensor* tensor) {
  if (tensor->dtype() == kBool) {
    // Any other byte in a bool would be undefined behaviour wherever it is read.
    for (size_t i = 0; i < content.size(); ++i) {
      const auto byte = static_cast<unsigned char>(content[i]);
      if (byte > 1) {
        return errors::InvalidArgument(Describe(*tensor), " holds the byte ",
                                       static_cast<int>(byte), " as element ", i,
                                       "; a bool is 0 or 1");
      }
    }
  }
  std::memcpy(tensor->mutable_data(), content.data(), content.size());
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadNumberList(const TensorProto& proto, Tensor* tensor) {
  const auto& list = ListOf<T>::Get(proto);
  const absl::Span<T> out = tensor->MutableElements<T>();
  size_t entries = static_cast<size_t>(list.size());
  if constexpr (kIsPair<T>) {
    if (entries % 2 != 0) {
      return errors::InvalidArgument(Describe(*tensor), " holds a list of ", entries,
                                     " numbers; complex elements take two each");
    }
    entries /= 2;
  }
  const size_t given = std::min(entries, out.size());
  const auto* values = list.data();
  for (size_t i = 0; i < given; ++i) {
    if constexpr (kIsPair<T>) {
      out[i] = T(values[2 * i], values[2 * i + 1]);
    } else if constexpr (kIsHalf<T>) {
      out[i] = T::FromBits(static_cast<uint16_t>(values[i]));
    } else {
      out[i] = static_cast<T>(values[i]);
    }
  }
  const T last = given > 0 ? out[given - 1] : T{};
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(given), out.end(), last);
  return absl::OkStatus();
}

// Reads a content of `count` varint lengths and then the items back to back, in place: a vector of
// lengths would let a message of zeros take many times its size.
class ItemReader {
 public:
  // Checks the whole content, so that Next cannot fail.
  static absl::StatusOr<ItemReader> Open(absl::string_view content, const Tensor& tensor) {
    ItemReader reader(content);
    uint64_t total = 0;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      uint32_t length = 0;
      if (!reader.ReadLength(&length)) {
        return errors::InvalidArgument(Describe(tensor), ": at byte ", reader.length_position_,
                                       " of ", content.size(),
                                       " bytes of tensor_content, a varint of at most 32 bits is "
                                       "expected, the length of element ",
                                       i);
      }
      total += length;
    }
    const size_t following = content.size() - reader.length_position_;
    if (total != following) {
      return errors::InvalidArgument(Describe(tensor), ": the lengths in tensor_content add up to ",
                                     total, " bytes, but ", following, " bytes follow them");
    }
    reader.item_position_ = reader.length_position_;
    reader.length_position_ = 0;
    return reader;
  }

  // REQUIRES: is called at most as many times as there are items.
  absl::string_view Next() {
    uint32_t length = 0;
    ReadLength(&length);
    item_position_ += length;
    return content_.substr(item_position_ - length, length);
  }

 private:
  explicit ItemReader(absl::string_view content) : content_(content) {}

  // False, without having moved, when no varint of 32 bits begins here.
  bool ReadLength(uint32_t* length) {
    uint64_t value = 0;
    for (size_t i = 0; i < 5 && length_position_ + i < content_.size(); ++i) {
      const auto byte = static_cast<unsigned char>(content_[length_position_ + i]);
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte >= 0x80) continue;
      if (value > std::numeric_limits<uint32_t>::max()) return false;
      length_position_ += i + 1;
      *length = static_cast<uint32_t>(value);
      return true;
    }
    return false;
  }

  absl::string_view content_;
  size_t length_position_ = 0;
  size_t item_position_ = 0;
};

absl::Status ReadStrings(const TensorProto& proto, Budget* budget, Tensor* tensor) {
  const absl::Span<std::string> out = tensor->MutableElements<std::string>();
  if (!proto.tensor_content().empty()) {
    TANDEM_ASSIGN_OR_RETURN(ItemReader items, ItemReader::Open(proto.tensor_content(), *tensor));
    TANDEM_RETURN_IF_ERROR(budget->Take(proto.tensor_content().size(), 1));
    for (std::string& value : out) {
      const absl::string_view item = items.Next();
      value.assign(item.data(), item.size());
    }
    return absl::OkStatus();
  }
  const size_t given = std::min(static_cast<size_t>(proto.string_val_size()), out.size());
  if (given == 0) return absl::OkStatus();
  for (size_t i = 0; i < given; ++i) {
    out[i] = proto.string_val(static_cast<int>(i));
    TANDEM_RETURN_IF_ERROR(budget->Take(out[i].size(), 1));
  }
  const std::string& last = out[given - 1];
  TANDEM_RETURN_IF_ERROR(budget->Take(out.size() - given, last.size()));
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(given), out.end(), last);
  return absl::OkStatus();
}

bool Parse(absl::string_view bytes, google::protobuf::MessageLite* message) {
  return bytes.size() <= kMaxMessageBytes &&
         message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::StatusOr<ResourceHandle> HandleFromProto(const ResourceHandleProto& proto, Budget* budget) {
  // A default message is a handle to nothing.
  if (proto.ByteSizeLong() == 0) return ResourceHandle();
  TANDEM_RETURN_IF_ERROR(budget->Take(1, sizeof(ResourceHandle::Description)));
  TANDEM_RETURN_IF_ERROR(budget->Take(proto.ByteSizeLong(), 1));
  TANDEM_RETURN_IF_ERROR(budget->Take(static_cast<size_t>(proto.dtypes_and_shapes_size()),
                                      sizeof(std::pair<DataType, PartialShape>)));
  auto description = MakeRef<ResourceHandle::Description>();
  description->device = proto.device();
  description->container = proto.container();
  description->name = proto.name();
  description->type_hash = proto.hash_code();
  description->type_name = proto.maybe_type_name();
  description->dtypes_and_shapes.reserve(static_cast<size_t>(proto.dtypes_and_shapes_size()));
  for (const auto& item : proto.dtypes_and_shapes()) {
    absl::StatusOr<PartialShape> shape = PartialShapeFromProto(item.shape());
    if (!shape.ok()) {
      return WithContext(shape.status(),
                         absl::StrCat("the handle of resource '", proto.name(), "'"));
    }
    description->dtypes_and_shapes.emplace_back(static_cast<DataType>(item.dtype()),
                                                *std::move(shape));
  }
  return ResourceHandle(std::move(description));
}

absl::Status ReadHandles(const TensorProto& proto, Budget* budget, Tensor* tensor) {
  const absl::Span<ResourceHandle> out = tensor->MutableElements<ResourceHandle>();
  if (!proto.tensor_content().empty()) {
    TANDEM_ASSIGN_OR_RETURN(ItemReader items, ItemReader::Open(proto.tensor_content(), *tensor));
    for (size_t i = 0; i < out.size(); ++i) {
      const absl::string_view item = items.Next();
      ResourceHandleProto handle;
      if (!Parse(item, &handle)) {
        return errors::InvalidArgument(Describe(*tensor), ": the ", item.size(),
                                       " bytes of element ", i,
                                       " in tensor_content are not a ResourceHandleProto");
      }
      TANDEM_ASSIGN_OR_RETURN(out[i], HandleFromProto(handle, budget));
    }
    return absl::OkStatus();
  }
  const size_t given = std::min(static_cast<size_t>(proto.resource_handle_val_size()), out.size());
  for (size_t i = 0; i < given; ++i) {
    TANDEM_ASSIGN_OR_RETURN(
        out[i], HandleFromProto(proto.resource_handle_val(static_cast<int>(i)), budget));
  }
  return absl::OkStatus();  // Handles do not repeat: the rest stays empty.
}

using CodecTable = absl::flat_hash_map<absl::string_view, VariantCodec>;
CodecTable& Codecs() {
  static auto& table = *new CodecTable;
  return table;
}

absl::StatusOr<const VariantCodec*> FindCodec(absl::string_view type_name) {
  const auto found = Codecs().find(type_name);
  if (found != Codecs().end()) return &found->second;
  return errors::Unimplemented("a variant of type '", type_name,
                               "' cannot be converted to or from a message");
}

absl::Status CheckDepth(int depth) {
  if (depth < kMaxVariantDepth) return absl::OkStatus();
  return errors::InvalidArgument("variants that hold variants more than ", kMaxVariantDepth,
                                 " deep cannot be converted to or from a message");
}

absl::StatusOr<Variant> ReadVariant(const VariantTensorDataProto& proto, Allowance* allowance) {
  if (proto.type_name().empty() && proto.metadata().empty() && proto.tensors_size() == 0) {
    return Variant();
  }
  TANDEM_RETURN_IF_ERROR(CheckDepth(allowance->depth));
  TANDEM_ASSIGN_OR_RETURN(const VariantCodec* const codec, FindCodec(proto.type_name()));
  ++allowance->depth;
  auto value = codec->decode(
      proto, [allowance](const TensorProto& tensor) { return ReadTensor(tensor, allowance); });
  --allowance->depth;
  if (!value.ok()) {
    return WithContext(value.status(), absl::StrCat("a variant of type '", proto.type_name(), "'"));
  }
  return Variant(*std::move(value));
}

absl::Status WriteVariant(const Variant& variant, int depth, VariantTensorDataProto* proto) {
  if (variant.empty()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(CheckDepth(depth));
  const absl::string_view type_name = variant.value()->TypeName();
  TANDEM_ASSIGN_OR_RETURN(const VariantCodec* const codec, FindCodec(type_name));
  proto->set_type_name(std::string(type_name));
  return codec->encode(
      *variant.value(),
      [depth](const Tensor& tensor, TensorProto* to) {
        return WriteTensor(tensor, TensorProtoForm::kCompact, depth + 1, to);
      },
      proto);
}

absl::Status AtElement(const Tensor& tensor, int64_t index, const absl::Status& status) {
  return WithContext(status, absl::StrCat(Describe(tensor), ": element ", index));
}

absl::Status ReadVariants(const TensorProto& proto, Allowance* allowance, Tensor* tensor) {
  const absl::Span<Variant> out = tensor->MutableElements<Variant>();
  const auto read = [&](int64_t i, const VariantTensorDataProto& value) {
    absl::StatusOr<Variant> variant = ReadVariant(value, allowance);
    if (!variant.ok()) return AtElement(*tensor, i, variant.status());
    out[static_cast<size_t>(i)] = *std::move(variant);
    return absl::OkStatus();
  };
  if (!proto.tensor_content().empty()) {
    TANDEM_ASSIGN_OR_RETURN(ItemReader items, ItemReader::Open(proto.tensor_content(), *tensor));
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      const absl::string_view item = items.Next();
      VariantTensorDataProto value;
      if (!Parse(item, &value)) {
        return errors::InvalidArgument(Describe(*tensor), ": the ", item.size(),
                                       " bytes of element ", i,
                                       " in tensor_content are not a VariantTensorDataProto");
      }
      TANDEM_RETURN_IF_ERROR(read(i, value));
    }
    return absl::OkStatus();
  }
  const int64_t given = std::min<int64_t>(proto.variant_val_size(), tensor->num_elements());
  for (int64_t i = 0; i < given; ++i) {
    TANDEM_RETURN_IF_ERROR(read(i, proto.variant_val(static_cast<int>(i))));
  }
  return absl::OkStatus();
}

// Writing
// ------------------------------------------------------------------------------------------

template <typename T>
void WriteNumberList(const Tensor& tensor, TensorProto* proto) {
  auto* list = ListOf<T>::Mutable(proto);
  list->Reserve(static_cast<int>(tensor.num_elements() * (kIsPair<T> ? 2 : 1)));
  for (const T& value : tensor.Elements<T>()) {
    if constexpr (kIsPair<T>) {
      list->AddAlreadyReserved(value.real());
      list->AddAlreadyReserved(value.imag());
    } else if constexpr (kIsHalf<T>) {
      list->AddAlreadyReserved(value.bits);
    } else {
      list->AddAlreadyReserved(value);
    }
  }
}

void HandleToProto(const ResourceHandle& handle, ResourceHandleProto* proto) {
  if (handle.empty()) return;
  const ResourceHandle::Description& description = handle.description();
  proto->set_device(description.device);
  proto->set_container(description.container);
  proto->set_name(description.name);
  proto->set_hash_code(description.type_hash);
  proto->set_maybe_type_name(description.type_name);
  for (const auto& [dtype, shape] : description.dtypes_and_shapes) {
    auto* item = proto->add_dtypes_and_shapes();
    item->set_dtype(static_cast<tensorflow::DataType>(dtype));
    ShapeToProto(shape, item->mutable_shape());
  }
}

void AppendVarint(size_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

absl::Status TooLarge(const Tensor& tensor) {
  return errors::InvalidArgument(Describe(tensor), " would be larger than a message can be (",
                                 kMaxMessageBytes, " bytes); send it in parts");
}

// Writes items in the form that ItemReader reads.
absl::Status JoinItems(const Tensor& tensor, absl::Span<const absl::string_view> items,
                       TensorProto* proto) {
  size_t total = 0;
  for (const absl::string_view item : items) total += item.size() + 5;
  if (total > kMaxMessageBytes) return TooLarge(tensor);
  std::string* content = proto->mutable_tensor_content();
  content->reserve(total);
  for (const absl::string_view item : items) AppendVarint(item.size(), content);
  for (const absl::string_view item : items) content->append(item.data(), item.size());
  return absl::OkStatus();
}

absl::Status WriteNumbers(const Tensor& tensor, TensorProtoForm form, TensorProto* proto) {
  // Varints take up to ten bytes.
  const size_t element =
      form == TensorProtoForm::kLists ? size_t{10} : DataTypeSize(tensor.dtype());
  if (static_cast<size_t>(tensor.num_elements()) > kMaxMessageBytes / element) {
    return TooLarge(tensor);
  }
  if (form == TensorProtoForm::kContent ||
      (form == TensorProtoForm::kCompact && tensor.num_elements() > kShortList)) {
    proto->set_tensor_content(tensor.data(), tensor.num_bytes());
    return absl::OkStatus();
  }
  return ForNumber(tensor.dtype(), [&](auto type) {
    WriteNumberList<decltype(type)>(tensor, proto);
    return absl::OkStatus();
  });
}

absl::Status WriteStrings(const Tensor& tensor, TensorProtoForm form, TensorProto* proto) {
  const absl::Span<const std::string> values = tensor.Elements<std::string>();
  if (form == TensorProtoForm::kContent) {
    const std::vector<absl::string_view> items(values.begin(), values.end());
    return JoinItems(tensor, items, proto);
  }
  size_t total = 0;
  for (const std::string& value : values) total += value.size() + 6;
  if (total > kMaxMessageBytes) return TooLarge(tensor);
  for (const std::string& value : values) proto->add_string_val(value);
  return absl::OkStatus();
}

absl::Status WriteHandles(const Tensor& tensor, TensorProtoForm form, TensorProto* proto) {
  const absl::Span<const ResourceHandle> values = tensor.Elements<ResourceHandle>();
  if (form != TensorProtoForm::kContent) {
    for (const ResourceHandle& value : values)
      HandleToProto(value, proto->add_resource_handle_val());
    return absl::OkStatus();
  }
  std::vector<std::string> bytes;
  bytes.reserve(values.size());
  for (const ResourceHandle& value : values) {
    ResourceHandleProto handle;
    HandleToProto(value, &handle);
    bytes.push_back(handle.SerializeAsString());
  }
  const std::vector<absl::string_view> items(bytes.begin(), bytes.end());
  return JoinItems(tensor, items, proto);
}

absl::Status WriteVariants(const Tensor& tensor, TensorProtoForm form, int depth,
                           TensorProto* proto) {
  std::vector<std::string> bytes;
  int64_t index = 0;
  for (const Variant& variant : tensor.Elements<Variant>()) {
    VariantTensorDataProto local;
    VariantTensorDataProto* const value =
        form == TensorProtoForm::kContent ? &local : proto->add_variant_val();
    const absl::Status status = WriteVariant(variant, depth, value);
    if (!status.ok()) return AtElement(tensor, index, status);
    if (form == TensorProtoForm::kContent) bytes.push_back(local.SerializeAsString());
    ++index;
  }
  if (form != TensorProtoForm::kContent) return absl::OkStatus();
  const std::vector<absl::string_view> items(bytes.begin(), bytes.end());
  return JoinItems(tensor, items, proto);
}

// The number of bytes says at once that a content cannot be right, before anything is allocated.
absl::Status CheckContentSize(size_t bytes, DataType dtype, const Shape& shape) {
  const auto count = static_cast<size_t>(shape.num_elements());
  if (!IsTriviallyCopyable(dtype)) {
    if (bytes >= count) return absl::OkStatus();
    return errors::InvalidArgument(Describe(dtype, shape), " holds ", bytes,
                                   " bytes of tensor_content, fewer than its ", count, " elements");
  }
  const size_t element = DataTypeSize(dtype);
  if (bytes % element == 0 && bytes / element == count) return absl::OkStatus();
  return errors::InvalidArgument(Describe(dtype, shape), " holds ", bytes,
                                 " bytes of tensor_content; expected are ", count, " elements of ",
                                 element, " bytes each");
}

absl::Status CheckType(const TensorProto& proto) {
  const auto dtype = static_cast<DataType>(proto.dtype());
  if (dtype == DataType::kInvalid) {
    return errors::InvalidArgument("a TensorProto without a type (dtype is missing or DT_INVALID)");
  }
  if (IsSupported(dtype)) return absl::OkStatus();
  if (tensorflow::DataType_IsValid(proto.dtype()) && !IsReference(dtype)) {
    return errors::Unimplemented("a TensorProto of type ", DataTypeName(dtype),
                                 "; tensors of this type are not supported");
  }
  return errors::InvalidArgument("a TensorProto of type ", DataTypeName(dtype),
                                 ", which is no type of a tensor's elements");
}

absl::StatusOr<Tensor> ReadTensor(const TensorProto& proto, Allowance* allowance) {
  TANDEM_RETURN_IF_ERROR(CheckType(proto));
  const auto dtype = static_cast<DataType>(proto.dtype());
  absl::StatusOr<Shape> shape = ShapeFromProto(proto.tensor_shape());
  if (!shape.ok()) {
    return WithContext(shape.status(), absl::StrCat("a TensorProto of type ", DataTypeName(dtype)));
  }
  const std::string& content = proto.tensor_content();
  const bool empty = shape->num_elements() == 0;  // Then only type and shape matter.
  if (!empty && !content.empty()) {
    TANDEM_RETURN_IF_ERROR(CheckContentSize(content.size(), dtype, *shape));
  }
  Budget budget(allowance, dtype, *shape);
  // What a tensor takes beside its elements counts where there may be many.
  if (allowance->depth > 0) TANDEM_RETURN_IF_ERROR(budget.Take(1, sizeof(Tensor)));
  TANDEM_RETURN_IF_ERROR(
      budget.Take(static_cast<size_t>(shape->num_elements()), DataTypeSize(dtype)));
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, *shape));
  if (empty) return tensor;

  absl::Status status;
  switch (dtype) {
    case kString:
      status = ReadStrings(proto, &budget, &tensor);
      break;
    case kResource:
      status = ReadHandles(proto, &budget, &tensor);
      break;
    case kVariant:
      status = ReadVariants(proto, allowance, &tensor);
      break;
    default:
      status =
          !content.empty() ? ReadNumberContent(content, &tensor) : ForNumber(dtype, [&](auto type) {
            return ReadNumberList<decltype(type)>(proto, &tensor);
          });
  }
  if (!status.ok()) return status;
  return tensor;
}

absl::Status WriteTensor(const Tensor& tensor, TensorProtoForm form, int depth,
                         TensorProto* proto) {
  if (!tensor.is_valid()) {
    return errors::InvalidArgument("there is no tensor to write into a TensorProto");
  }
  proto->Clear();
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto->mutable_tensor_shape());
  if (tensor.num_elements() == 0) return absl::OkStatus();
  switch (tensor.dtype()) {
    case kString:
      return WriteStrings(tensor, form, proto);
    case kResource:
      return WriteHandles(tensor, form, proto);
    case kVariant:
      return WriteVariants(tensor, form, depth, proto);
    default:
      return WriteNumbers(tensor, form, proto);
  }
}

}  // namespace

VariantCodecRegistration::VariantCodecRegistration(absl::string_view type_name,
                                                   VariantCodec codec) {
  Codecs().emplace(type_name, codec);
}

absl::Status VariantToProto(const Variant& variant, VariantTensorDataProto* proto) {
  proto->Clear();
  return WriteVariant(variant, 0, proto);
}

absl::StatusOr<Variant> VariantFromProto(const VariantTensorDataProto& proto, size_t max_bytes) {
  Allowance allowance{max_bytes, max_bytes, 0};
  return ReadVariant(proto, &allowance);
}

absl::StatusOr<Tensor> TensorFromProto(const TensorProto& proto, size_t max_bytes) {
  Allowance allowance{max_bytes, max_bytes, 0};
  return ReadTensor(proto, &allowance);
}

absl::Status TensorToProto(const Tensor& tensor, TensorProto* proto, TensorProtoForm form) {
  return WriteTensor(tensor, form, 0, proto);
}

absl::StatusOr<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  TANDEM_ASSIGN_OR_RETURN(const PartialShape shape, PartialShapeFromProto(proto));
  return shape.ToShape();
}

absl::StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() == 0) return PartialShape::Unknown();
    return errors::InvalidArgument("a TensorShapeProto says that its rank is unknown, but has ",
                                   proto.dim_size(), " dimensions");
  }
  Shape::Dims dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  return PartialShape::FromDims(dims);
}

void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  if (!shape.has_rank()) {
    proto->set_unknown_rank(true);
    return;
  }
  for (const int64_t size : shape.dims()) proto->add_dim()->set_size(size);
}

}  // namespace tandem
