#include "kernels/data/tensor_array.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "kernels/array/add_elements.h"
#include "kernels/array/elements.h"

namespace tandem::data {
namespace {

PartialShape Behind(const Shape& prefix, const PartialShape& shape) {
  if (!shape.has_rank()) return shape;
  Shape::Dims dims(prefix.dims().begin(), prefix.dims().end());
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  absl::StatusOr<PartialShape> result = PartialShape::FromDims(dims);
  return result.ok() ? *std::move(result) : PartialShape::Unknown();
}

}  // namespace

absl::StatusOr<RefPtr<TensorArray>> TensorArray::Create(Options options, int64_t size) {
  if (size < 0) {
    return errors::InvalidArgument("the size of the array '", options.name,
                                   "' must not be negative; it is ", size);
  }
  if (size > kMaxSize) {
    return errors::ResourceExhausted("the array '", options.name, "' shall have ", size,
                                     " elements; at most ", kMaxSize, " are possible");
  }
  return RefPtr<TensorArray>(new TensorArray(std::move(options), size, /*is_gradient=*/false));
}

absl::Status TensorArray::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return errors::InvalidArgument("the array '", name(), "' is closed already");
}

absl::Status TensorArray::CheckType(DataType dtype) const {
  if (dtype == options_.dtype) return absl::OkStatus();
  return errors::InvalidArgument("the array '", name(), "' is of ", DataTypeName(options_.dtype),
                                 "; ", DataTypeName(dtype), " is wanted of it");
}

absl::Status TensorArray::Write(int64_t index, Tensor value, Allocate allocate) {
  TANDEM_RETURN_IF_ERROR(CheckType(value.dtype()));
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckOpen());
  const int64_t size = static_cast<int64_t>(elements_.size());
  if (index < 0 || (index >= size && !is_dynamic_)) {
    return errors::InvalidArgument("element ", index, " of the array '", name(),
                                   "' is written; it has ", size, " elements",
                                   index < 0 ? "" : " and cannot grow");
  }
  if (index >= kMaxSize) {
    return errors::ResourceExhausted("element ", index, " of the array '", name(),
                                     "' is written; at most ", kMaxSize, " are possible");
  }
  if (!element_shape_.IsCompatibleWith(value.shape())) {
    return errors::InvalidArgument("element ", index, " of the array '", name(), "' is given ",
                                   value.shape().DebugString(), "; elements have the shape ",
                                   element_shape_.DebugString());
  }
  if (index < size) {
    const Element& element = elements_[static_cast<size_t>(index)];
    if (element.read || (element.written && !is_gradient_)) {
      return errors::InvalidArgument("element ", index, " of the array '", name(),
                                     "' cannot be written: it was ",
                                     element.read ? "read" : "written", " already");
    }
  } else {
    elements_.resize(static_cast<size_t>(index) + 1);
  }
  Element& element = elements_[static_cast<size_t>(index)];
  if (element.written) return AddTo(element, value, index, allocate);
  if (options_.has_identical_shapes && !element_shape_.IsFullyDefined()) {
    element_shape_ = PartialShape(value.shape());
  }
  element.shape = PartialShape(value.shape());
  element.value = std::move(value);
  element.written = true;
  return absl::OkStatus();
}

absl::Status TensorArray::AddTo(Element& element, const Tensor& value, int64_t index,
                                Allocate allocate) {
  if (element.value.shape() != value.shape()) {
    return errors::InvalidArgument("element ", index, " of the array '", name(), "' is ",
                                   element.value.shape().DebugString(), "; ",
                                   value.shape().DebugString(), " cannot be added to it");
  }
  const DataType dtype = options_.dtype;
  if (dtype == kResource || dtype == kVariant || dtype == kString || dtype == kBool) {
    return errors::Unimplemented("element ", index, " of the array '", name(), "', of ",
                                 DataTypeName(dtype), ", is written again: it has no sum");
  }
  const int64_t count = value.num_elements();
  Tensor addend = value;
  addend.Localize();
  if (!element.value.OwnsBufferAlone()) {
    TANDEM_ASSIGN_OR_RETURN(Tensor sum, allocate(value.shape()));
    Tensor before = element.value;
    before.Localize();
    array::CopyElements(dtype, sum.mutable_data(), before.data(), count);
    element.value = std::move(sum);
  }
  element.value.Localize();
  array::AddElements(dtype, element.value.mutable_data(), 1, addend.data(), 1, count);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorArray::Zeros(const Element& element, int64_t index,
                                          Allocate allocate) const {
  const PartialShape& shape = element.shape.has_rank() ? element.shape : element_shape_;
  if (!shape.IsFullyDefined()) {
    return errors::InvalidArgument(
        "element ", index, " of the array '", name(), "' is read and was never written",
        is_gradient_ ? " (no gradient came back for it)" : "",
        "; zeros could stand for it if the array's element shape were known, which is ",
        shape.DebugString(), ": set element_shape");
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape whole, shape.ToShape());
  TANDEM_ASSIGN_OR_RETURN(Tensor zeros, allocate(whole));
  array::ZeroElements(options_.dtype, zeros.mutable_data(), zeros.num_elements());
  return zeros;
}

absl::StatusOr<Tensor> TensorArray::Read(DataType dtype, int64_t index, Allocate allocate) {
  TANDEM_RETURN_IF_ERROR(CheckType(dtype));
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckOpen());
  if (index < 0 || index >= static_cast<int64_t>(elements_.size())) {
    return errors::InvalidArgument("element ", index, " of the array '", name(),
                                   "' is read; it has ", elements_.size(), " elements");
  }
  Element& element = elements_[static_cast<size_t>(index)];
  if (element.cleared) {
    return errors::InvalidArgument("element ", index, " of the array '", name(),
                                   "' is read a second time, and the first one cleared it; set "
                                   "clear_after_read to False");
  }
  Tensor value;
  if (element.written) {
    value = element.value;
    value.Localize();
  } else {
    TANDEM_ASSIGN_OR_RETURN(value, Zeros(element, index, allocate));
  }
  element.read = true;
  if (options_.clears_after_read) {
    element.value.Reset();
    element.cleared = true;
  }
  return value;
}

absl::StatusOr<int64_t> TensorArray::Size() const {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckOpen());
  return static_cast<int64_t>(elements_.size());
}

absl::StatusOr<PartialShape> TensorArray::ElementShape(DataType dtype,
                                                       const PartialShape& shape) const {
  TANDEM_RETURN_IF_ERROR(CheckType(dtype));
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckOpen());
  absl::StatusOr<PartialShape> merged = element_shape_.MergeWith(shape);
  if (!merged.ok()) {
    return errors::InvalidArgument("elements of the array '", name(), "' have the shape ",
                                   element_shape_.DebugString(), "; ", shape.DebugString(),
                                   " is wanted");
  }
  return merged;
}

bool TensorArray::is_dynamic() const {
  MutexLock lock(mu_);
  return is_dynamic_;
}

void TensorArray::Close() {
  std::vector<Element> elements;  // Freed outside the lock.
  MutexLock lock(mu_);
  elements.swap(elements_);
  closed_ = true;
}

absl::StatusOr<RefPtr<TensorArray>> TensorArray::Gradients(const std::string& source,
                                                           const Shape& prefix) {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckOpen());
  is_dynamic_ = false;
  RefPtr<TensorArray>& gradients = gradients_[source];
  if (gradients) return gradients;
  Options options = options_;
  options.name = absl::StrCat(name(), "@", source);
  options.element_shape = Behind(prefix, element_shape_);
  options.is_dynamic = false;
  options.clears_after_read = true;
  RefPtr<TensorArray> made(new TensorArray(
      std::move(options), static_cast<int64_t>(elements_.size()), /*is_gradient=*/true));
  {
    MutexLock made_lock(made->mu_);
    for (size_t i = 0; i < elements_.size(); ++i) {
      made->elements_[i].shape = Behind(prefix, elements_[i].shape);
    }
  }
  gradients = std::move(made);
  return gradients;
}

std::string TensorArray::DebugString() const {
  return absl::StrCat("tensor array '", name(), "' of ", DataTypeName(options_.dtype));
}

}  // namespace tandem::data
