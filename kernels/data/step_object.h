// Objects that live as long as the step that makes them: stacks and tensor arrays. Their handles
// own them; no container knows them, and no other step or process can reach them.
#ifndef TANDEM_KERNELS_DATA_STEP_OBJECT_H_
#define TANDEM_KERNELS_DATA_STEP_OBJECT_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// A scalar handle of `object`.
inline Tensor StepHandle(const KernelContext& c, const std::string& name,
                         absl::string_view type_name, RefPtr<Resource> object) {
  auto description = MakeRef<ResourceHandle::Description>();
  description->device = c.device().name;
  description->container = absl::StrCat("_step_", c.step().step_id);
  description->name = name;
  description->type_name = std::string(type_name);
  description->resource = std::move(object);
  return Tensor::Scalar(
      ResourceHandle(RefPtr<const ResourceHandle::Description>(std::move(description))));
}

// The object behind input 0. `what` is for messages: "stack". InvalidArgument: it is no handle of
// such an object, or of another process.
template <typename T>
absl::StatusOr<RefPtr<T>> StepObjectInput(const KernelContext& c, absl::string_view what) {
  const Tensor& tensor = c.input(0);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("the handle of a ", what, " must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  const ResourceHandle& handle = tensor.ScalarValue<ResourceHandle>();
  if (handle.empty()) return errors::InvalidArgument("the handle of the ", what, " is empty");
  const ResourceHandle::Description& description = handle.description();
  if (!description.resource) {
    return errors::InvalidArgument("the ", what, " '", handle.DebugString(),
                                   "' is in another process, or of another step");
  }
  T* const object = dynamic_cast<T*>(description.resource.get());
  if (object == nullptr) {
    return errors::InvalidArgument("resource '", handle.DebugString(), "' is a ",
                                   description.resource->DebugString(), ", not a ", what);
  }
  return RefPtr<T>::Share(object);
}

}  // namespace tandem::data

#endif  // TANDEM_KERNELS_DATA_STEP_OBJECT_H_
