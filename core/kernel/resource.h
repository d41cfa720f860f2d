// Resources: state that outlives a step. They live on a device, in a container, under a name.
#ifndef TANDEM_CORE_KERNEL_RESOURCE_H_
#define TANDEM_CORE_KERNEL_RESOURCE_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/base/status.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/tensor.h"

namespace tandem {

// The resources of one device. Threads: any.
//
// A resource has a container, a name and a class: a queue and a variable may have the same name.
// The class is the one that LookupOrCreate was asked for, and Lookup and Delete find nothing else.
class ResourceManager {
 public:
  // TensorFlow's name for the container of those who name none.
  static constexpr char kDefaultContainer[] = "localhost";

  // The resource of this class and name, made by `create` (called under the lock) if there is none.
  // Errors of `create` pass through.
  template <typename T>
  absl::StatusOr<RefPtr<T>> LookupOrCreate(
      absl::string_view container, absl::string_view name,
      const std::function<absl::StatusOr<RefPtr<T>>()>& create);
  // NotFound: there is none.
  template <typename T>
  absl::StatusOr<RefPtr<T>> Lookup(absl::string_view container, absl::string_view name) const;

  // Forgets the resource; it ends when its last user does. NotFound: there is none.
  template <typename T>
  absl::Status Delete(absl::string_view container, absl::string_view name) {
    return DeleteKey(KeyOf<T>(container, name));
  }
  // Forgets the very resource that lies under this name, whatever its class. NotFound: it does not.
  absl::Status Delete(absl::string_view container, absl::string_view name,
                      const Resource& resource);
  // Forgets all resources of a container.
  void ClearContainer(absl::string_view container);
  void ClearAll();
  // "container/name: what it is", ordered.
  std::vector<std::string> List() const;

 private:
  // Container, name and class.
  using Key = std::tuple<std::string, std::string, std::type_index>;

  template <typename T>
  static Key KeyOf(absl::string_view container, absl::string_view name) {
    return Key(container.empty() ? std::string(kDefaultContainer) : std::string(container),
               std::string(name), std::type_index(typeid(T)));
  }
  absl::StatusOr<RefPtr<Resource>> LookupAny(const Key& key) const;
  absl::Status DeleteKey(const Key& key);

  mutable Mutex mu_;
  std::map<Key, RefPtr<Resource>> resources_ ABSL_GUARDED_BY(mu_);
};

// A variable: a tensor that steps read and change. Serves both kinds of TensorFlow: by reference
// (VariableV2) and by handle (VarHandleOp).
//
// Reads do not tear: whoever reads takes the tensor (not its numbers) under the lock, and whoever
// writes leaves a tensor that somebody else holds alone and puts another in its place.
class Variable : public Resource {
 public:
  Variable(DataType dtype, PartialShape shape) : dtype_(dtype), shape_(std::move(shape)) {}

  DataType dtype() const { return dtype_; }
  const PartialShape& shape() const { return shape_; }

  // Guards the value. Taken by kernels around a read or an update, never while they wait.
  Mutex& mu() ABSL_LOCK_RETURNED(mu_) { return mu_; }
  // Not valid until the variable is initialized. Whoever asks, a kernel on its device's queue or a
  // thread of the host, gets the address that is meant for it.
  Tensor& value() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    value_.Localize();
    return value_;
  }

  // FailedPrecondition when it holds no value yet. `name` is for the message.
  absl::StatusOr<Tensor> Read(absl::string_view name) {
    MutexLock lock(mu_);
    if (!value_.is_valid()) {
      return errors::FailedPrecondition("variable '", name, "' is read before it is initialized");
    }
    return value();
  }

  std::string DebugString() const override {
    return absl::StrCat("variable ", DataTypeName(dtype_), shape_.DebugString());
  }

 private:
  const DataType dtype_;
  const PartialShape shape_;
  Mutex mu_;
  Tensor value_ ABSL_GUARDED_BY(mu_);
};

// One that ops share by reference (VariableV2): its names are not those of variables by handle.
class ReferenceVariable final : public Variable {
 public:
  using Variable::Variable;
};

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::LookupOrCreate(
    absl::string_view container, absl::string_view name,
    const std::function<absl::StatusOr<RefPtr<T>>()>& create) {
  const Key key = KeyOf<T>(container, name);
  MutexLock lock(mu_);
  const auto found = resources_.find(key);
  if (found != resources_.end()) return RefPtr<T>::Share(static_cast<T*>(found->second.get()));
  TANDEM_ASSIGN_OR_RETURN(RefPtr<T> made, create());
  resources_.emplace(key, made);
  return made;
}

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::Lookup(absl::string_view container,
                                                  absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<Resource> resource, LookupAny(KeyOf<T>(container, name)));
  return RefPtr<T>::Share(static_cast<T*>(resource.get()));
}

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_RESOURCE_H_
