// ResourceHandle: an element of a tensor of type kResource. It names a resource (device, container,
// name) and, inside the process that made it, points at it.
#ifndef TANDEM_CORE_TENSOR_RESOURCE_HANDLE_H_
#define TANDEM_CORE_TENSOR_RESOURCE_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ref_counted.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tandem {

// Whatever lives in a container: a variable, a queue, a lookup table. See core/kernel/resource.h.
class Resource : public RefCounted {
 public:
  virtual std::string DebugString() const = 0;

  // True once its container has forgotten it: handles that still point here lead nowhere.
  bool is_forgotten() const { return forgotten_.load(std::memory_order_acquire); }
  void set_forgotten() { forgotten_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> forgotten_{false};
};

class ResourceHandle {
 public:
  // What a handle says; shared by copies and never changed.
  struct Description : RefCounted {
    std::string device;
    std::string container;
    std::string name;
    std::string type_name;
    // TensorFlow's hash of the type, 0 if unknown. Means nothing here, but a TensorFlow process
    // that gets its own handle back compares it.
    uint64_t type_hash = 0;
    std::vector<std::pair<DataType, PartialShape>> dtypes_and_shapes;
    // Null when the handle came from another process: it is then looked up by its names.
    RefPtr<Resource> resource;
  };

  ResourceHandle() = default;
  explicit ResourceHandle(RefPtr<const Description> description)
      : description_(std::move(description)) {}

  bool empty() const { return !description_; }
  // REQUIRES: !empty().
  const Description& description() const { return *description_; }
  std::string DebugString() const {
    return empty() ? "<empty>" : description_->container + "/" + description_->name;
  }

 private:
  RefPtr<const Description> description_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_RESOURCE_HANDLE_H_
