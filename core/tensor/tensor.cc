#include "core/tensor/tensor.h"

#include <cstring>
#include <memory>
#include <new>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/tensor/element_text.h"

namespace tandem {
namespace {

// A buffer of C++ objects, which always lie in host memory.
template <typename T>
class ObjectBuffer final : public Buffer {
 public:
  explicit ObjectBuffer(std::unique_ptr<T[]> objects, size_t count)
      : Buffer(objects.get(), count * sizeof(T)), objects_(std::move(objects)) {}

 private:
  std::unique_ptr<T[]> objects_;
};

template <typename T>
RefPtr<Buffer> MakeObjects(size_t count) {
  std::unique_ptr<T[]> objects(new (std::nothrow) T[count]);
  if (objects == nullptr) return nullptr;
  return MakeRef<ObjectBuffer<T>>(std::move(objects), count);
}

template <typename T>
std::string FormatElements(const Tensor& tensor, int max_values) {
  std::string text;
  int written = 0;
  for (const T& value : tensor.Elements<T>()) {
    if (written++ == max_values) return text + " …";
    absl::StrAppend(&text, " ", ElementText(value));
  }
  return text;
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Create(DataType dtype, Shape shape, Allocator* allocator) {
  const size_t element_size = DataTypeSize(dtype);
  if (element_size == 0) {
    return errors::InvalidArgument("tensors of type ", DataTypeName(dtype), " are not supported");
  }
  const size_t count = static_cast<size_t>(shape.num_elements());
  if (count > SIZE_MAX / 2 / element_size) {
    return errors::InvalidArgument("a ", DataTypeName(dtype), " tensor of shape ",
                                   shape.DebugString(), " is larger than an address space");
  }
  RefPtr<Buffer> buffer;
  switch (dtype) {
    case kString:
      buffer = MakeObjects<std::string>(count);
      break;
    case kResource:
      buffer = MakeObjects<ResourceHandle>(count);
      break;
    case kVariant:
      buffer = MakeObjects<Variant>(count);
      break;
    default:
      buffer = allocator->Allocate(count * element_size);
  }
  if (!buffer) {
    return errors::ResourceExhausted("no memory for a ", DataTypeName(dtype), " tensor of shape ",
                                     shape.DebugString(), " (", count * element_size,
                                     " bytes) in allocator '", allocator->name(), "'");
  }
  void* data = buffer->Localize(buffer->data());
  return Tensor(dtype, std::move(shape), std::move(buffer), data);
}

Tensor::Tensor(DataType dtype, Shape shape) {
  absl::StatusOr<Tensor> made = Create(dtype, std::move(shape));
  if (!made.ok()) {
    TANDEM_LOG(Fatal) << made.status().message();
  }
  *this = *std::move(made);
}

Tensor Tensor::FromBuffer(DataType dtype, Shape shape, RefPtr<Buffer> buffer, void* data) {
  return Tensor(dtype, std::move(shape), std::move(buffer), data);
}

Tensor Tensor::Zeros(DataType dtype, Shape shape) {
  Tensor result(dtype, std::move(shape));
  if (IsTriviallyCopyable(dtype)) std::memset(result.data_, 0, result.num_bytes());
  return result;
}

size_t Tensor::num_bytes() const {
  return static_cast<size_t>(num_elements()) * DataTypeSize(dtype_);
}

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  Shape shape = shape_;
  int64_t row = 1;
  for (int i = 1; i < shape.rank(); ++i) row *= shape.dim(i);
  shape.SetDim(0, end - begin);
  char* data = static_cast<char*>(data_) + static_cast<size_t>(begin * row) * DataTypeSize(dtype_);
  return Tensor(dtype_, std::move(shape), buffer_, data);
}

absl::StatusOr<Tensor> Tensor::Reshaped(Shape shape) const {
  if (shape.num_elements() != num_elements()) {
    return errors::InvalidArgument("a tensor of shape ", shape_.DebugString(), " (", num_elements(),
                                   " elements) cannot take the shape ", shape.DebugString(), " (",
                                   shape.num_elements(), " elements)");
  }
  return Tensor(dtype_, std::move(shape), buffer_, data_);
}

Tensor Tensor::BitcastTo(DataType dtype) const { return Tensor(dtype, shape_, buffer_, data_); }

absl::StatusOr<Tensor> Tensor::Clone() const {
  TANDEM_ASSIGN_OR_RETURN(Tensor copy, Create(dtype_, shape_));
  switch (dtype_) {
    case kString:
      absl::c_copy(Elements<std::string>(), copy.MutableElements<std::string>().begin());
      break;
    case kResource:
      absl::c_copy(Elements<ResourceHandle>(), copy.MutableElements<ResourceHandle>().begin());
      break;
    case kVariant:
      absl::c_copy(Elements<Variant>(), copy.MutableElements<Variant>().begin());
      break;
    default:
      if (num_bytes() > 0) std::memcpy(copy.data_, data_, num_bytes());
  }
  return copy;
}

std::string Tensor::DebugString(int max_values) const {
  if (!is_valid()) return "<no tensor>";
  std::string text = absl::StrCat(DataTypeName(dtype_), shape_.DebugString(), " =");
  switch (dtype_) {
#define TANDEM_CASE_(T)                           \
  case DataTypeOf<T>():                           \
    text += FormatElements<T>(*this, max_values); \
    break;
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
    TANDEM_CASE_(std::string)
    TANDEM_CASE_(ResourceHandle)
    TANDEM_CASE_(Variant)
#undef TANDEM_CASE_
    default:
      break;
  }
  return text;
}

}  // namespace tandem
