// Variant: an element of a tensor of type kVariant. It holds a value of a registered C++ class (a
// tensor list, an optional, a dataset), or nothing.
//
// Values are shared by reference when a Variant is copied; whoever wants to change one that is
// shared makes a copy first.
#ifndef TANDEM_CORE_TENSOR_VARIANT_H_
#define TANDEM_CORE_TENSOR_VARIANT_H_

#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ref_counted.h"
#include "core/base/status.h"

namespace tandem {

class Tensor;

class VariantValue : public RefCounted {
 public:
  // What is done with the tensors inside, given by the kernel that asks.
  using ZerosLikeFunction = absl::FunctionRef<absl::StatusOr<Tensor>(const Tensor&)>;
  using AddFunction = absl::FunctionRef<absl::StatusOr<Tensor>(const Tensor&, const Tensor&)>;

  // TensorFlow's name for the type where it has one ("tensorflow::TensorList").
  virtual absl::string_view TypeName() const = 0;
  virtual std::string DebugString() const = 0;
  // A value of the same form in which every number is zero. Unimplemented: the class has none.
  virtual absl::StatusOr<RefPtr<VariantValue>> ZerosLike(ZerosLikeFunction zeros_like) const;
  // The sum of two values. InvalidArgument: `other` is of another class or form. Unimplemented: the
  // class knows no sums.
  virtual absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other,
                                                   AddFunction add) const;
};

class Variant {
 public:
  Variant() = default;
  explicit Variant(RefPtr<VariantValue> value) : value_(std::move(value)) {}

  bool empty() const { return !value_; }
  // The value as a T, or null when the variant is empty or holds something else.
  template <typename T>
  T* Get() const {
    return dynamic_cast<T*>(value_.get());
  }
  const RefPtr<VariantValue>& value() const { return value_; }
  std::string DebugString() const { return value_ ? value_->DebugString() : "<empty>"; }

 private:
  RefPtr<VariantValue> value_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_VARIANT_H_
