// Variant: an element of a tensor of type kVariant. It holds a value of a registered C++ class (a
// tensor list, an optional, a dataset), or nothing.
//
// Values are shared by reference when a Variant is copied; whoever wants to change one that is
// shared makes a copy first.
#ifndef TANDEM_CORE_TENSOR_VARIANT_H_
#define TANDEM_CORE_TENSOR_VARIANT_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/ref_counted.h"

namespace tandem {

class VariantValue : public RefCounted {
 public:
  // TensorFlow's name for the type where it has one ("tensorflow::TensorList").
  virtual absl::string_view TypeName() const = 0;
  virtual std::string DebugString() const = 0;
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
