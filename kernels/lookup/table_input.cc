#include "kernels/lookup/table_input.h"

#include <string>

#include "core/base/status.h"

namespace tandem::lookup {
namespace {

// Through {container, name}, the value of a reference.
absl::StatusOr<RefPtr<LookupTable>> ByReference(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Tensor names, c.reference(0).Read("table_handle"));
  if (names.dtype() != kString || names.num_elements() != 2) {
    return errors::InvalidArgument("the handle of a table must be two strings, its container and ",
                                   "its name; it is ", names.DebugString());
  }
  const auto parts = names.Elements<std::string>();
  return c.device().resources->Lookup<LookupTable>(parts[0], parts[1]);
}

}  // namespace

absl::StatusOr<RefPtr<LookupTable>> TableInput(KernelContext& c) {
  if (c.input_slot(0).state == Slot::State::kReference) return ByReference(c);
  const Tensor& tensor = c.input(0);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("the handle of a table must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  const ResourceHandle& handle = tensor.ScalarValue<ResourceHandle>();
  if (handle.empty()) return errors::InvalidArgument("the handle of the table is empty");
  const ResourceHandle::Description& description = handle.description();
  if (!description.resource) {
    return c.device().resources->Lookup<LookupTable>(description.container, description.name);
  }
  if (description.resource->is_forgotten()) {
    return errors::NotFound("table '", handle.DebugString(), "' has been destroyed");
  }
  LookupTable* const table = dynamic_cast<LookupTable*>(description.resource.get());
  if (table == nullptr) {
    return errors::InvalidArgument("resource '", handle.DebugString(), "' is a ",
                                   description.resource->DebugString(), ", not a lookup table");
  }
  return RefPtr<LookupTable>::Share(table);
}

absl::Status CheckTableHandle(const ShapeContext& c) {
  if (!c.op().inputs[0].is_ref) return c.RequireRank(0, 0);
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  if (c.input(0).has_rank() && c.input(0).dim(0) != PartialShape::kUnknownDim &&
      c.input(0).dim(0) != 2) {
    return errors::InvalidArgument("the handle of a table has shape ", c.input(0).DebugString(),
                                   "; two strings are wanted, its container and its name");
  }
  return absl::OkStatus();
}

KnownTable TableBehind(const ShapeContext& c) {
  const OutputInfo& info = c.input_info(0);
  if (info.handle.size() != 2) return {};
  return {info.handle[0].first, info.handle[1].first, info.handle[1].second};
}

}  // namespace tandem::lookup
