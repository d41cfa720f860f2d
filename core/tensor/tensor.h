// Tensor: a typed, shaped array over a counted buffer.
//
// A Tensor is a value that shares its memory when copied, sliced or reshaped. Writing through one
// that shares memory is seen by all; kernels only write to memory that nobody else holds.
//
// Threads: distinct Tensors may be used from distinct threads, also when they share a buffer, as
// long as nobody writes to it.
//
// Layout: row-major, dense. A tensor made by Slice may begin at any multiple of its rows; all
// others begin on a multiple of kBufferAlignment.
#ifndef TANDEM_CORE_TENSOR_TENSOR_H_
#define TANDEM_CORE_TENSOR_TENSOR_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ref_counted.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/shape.h"
#include "core/tensor/variant.h"

namespace tandem {

class Tensor {
 public:
  // No tensor: dtype kInvalid, is_valid() is false.
  Tensor() = default;

  // A tensor in host memory whose numbers are undefined (strings, handles and variants are empty).
  // REQUIRES: IsSupported(dtype). Ends the process with a message when memory is out; code whose
  // sizes come from outside uses Create.
  Tensor(DataType dtype, Shape shape);

  // InvalidArgument: dtype is not supported or the size does not fit. ResourceExhausted: no memory.
  static absl::StatusOr<Tensor> Create(DataType dtype, Shape shape,
                                       Allocator* allocator = HostAllocator());
  // A tensor over memory that somebody else laid out. REQUIRES: `data` points into `buffer` and
  // has room for the elements, which are trivially copyable.
  static Tensor FromBuffer(DataType dtype, Shape shape, RefPtr<Buffer> buffer, void* data);

  template <typename T>
  static Tensor Scalar(T value);
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values);
  template <typename T>
  static Tensor Vector(absl::Span<const T> values);
  // REQUIRES: as many values as `shape` has elements.
  template <typename T>
  static Tensor FromValues(Shape shape, std::initializer_list<T> values);
  template <typename T>
  static Tensor FromValues(Shape shape, absl::Span<const T> values);
  static Tensor Zeros(DataType dtype, Shape shape);

  bool is_valid() const { return dtype_ != DataType::kInvalid; }
  // Lets go of the buffer; is_valid() is then false.
  void Reset() {
    buffer_.reset();
    data_ = nullptr;
    dtype_ = DataType::kInvalid;
  }
  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  // Bytes of the elements themselves, without what strings, handles and variants point at.
  size_t num_bytes() const;

  // The elements, row-major. REQUIRES: T matches dtype(). The memory may be the host's only if the
  // tensor lies on a CPU device.
  template <typename T>
  absl::Span<const T> Elements() const {
    return absl::Span<const T>(static_cast<const T*>(data_), static_cast<size_t>(num_elements()));
  }
  template <typename T>
  absl::Span<T> MutableElements() {
    return absl::Span<T>(static_cast<T*>(data_), static_cast<size_t>(num_elements()));
  }
  // The value of a tensor of one element.
  template <typename T>
  const T& ScalarValue() const {
    return *static_cast<const T*>(data_);
  }
  const void* data() const { return data_; }
  void* mutable_data() { return data_; }

  // Rows [begin, end) of the first dimension, sharing memory. REQUIRES: rank >= 1 and
  // 0 <= begin <= end <= dim(0).
  Tensor Slice(int64_t begin, int64_t end) const;
  // The same elements under another shape, sharing memory. InvalidArgument when the numbers of
  // elements differ.
  absl::StatusOr<Tensor> Reshaped(Shape shape) const;
  // The same bits under another type of equal size, sharing memory. REQUIRES: both are trivially
  // copyable and have elements of the same size.
  Tensor BitcastTo(DataType dtype) const;
  // A tensor of the same contents that shares no memory with this one (host memory).
  absl::StatusOr<Tensor> Clone() const;

  // True when no other tensor shares this one's memory, so that it may be overwritten in place.
  bool OwnsBufferAlone() const { return buffer_ && buffer_->RefCountIsOne(); }
  bool SharesBufferWith(const Tensor& other) const {
    return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
  }
  const RefPtr<Buffer>& buffer() const { return buffer_; }
  // From here on data() is the address for the calling thread (Buffer::Localize). Devices call it
  // where a tensor enters or leaves their threads; so does what keeps tensors in between, such as a
  // variable.
  void Localize() {
    if (buffer_) data_ = buffer_->Localize(data_);
  }

  // "float32[2,3] = 1 2 3 …", with at most `max_values` values.
  std::string DebugString(int max_values = 6) const;

 private:
  Tensor(DataType dtype, Shape shape, RefPtr<Buffer> buffer, void* data)
      : buffer_(std::move(buffer)), data_(data), dtype_(dtype), shape_(std::move(shape)) {}

  RefPtr<Buffer> buffer_;
  void* data_ = nullptr;  // Into buffer_.
  DataType dtype_ = DataType::kInvalid;
  Shape shape_;
};

template <typename T>
Tensor Tensor::Scalar(T value) {
  Tensor result(DataTypeOf<T>(), Shape());
  *static_cast<T*>(result.data_) = std::move(value);
  return result;
}

template <typename T>
Tensor Tensor::FromValues(Shape shape, absl::Span<const T> values) {
  Tensor result(DataTypeOf<T>(), std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<T*>(result.data_));
  return result;
}

template <typename T>
Tensor Tensor::FromValues(Shape shape, std::initializer_list<T> values) {
  return FromValues<T>(std::move(shape), absl::MakeConstSpan(values.begin(), values.size()));
}

template <typename T>
Tensor Tensor::Vector(absl::Span<const T> values) {
  return FromValues<T>(Shape({static_cast<int64_t>(values.size())}), values);
}

template <typename T>
Tensor Tensor::Vector(std::initializer_list<T> values) {
  return Vector<T>(absl::MakeConstSpan(values.begin(), values.size()));
}

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_TENSOR_H_
