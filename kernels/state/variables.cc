#include "kernels/state/variables.h"

#include <algorithm>
#include <functional>
#include <typeinfo>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "kernels/array/elements.h"

namespace tandem::state {
namespace {

using array::ElementAt;

// A part of a copy that is worth a thread.
constexpr int64_t kCopyBlock = 16384;

}  // namespace

absl::Status VariableInput::NotInitialized(absl::StatusCode code) const {
  return absl::Status(code,
                      absl::StrCat("variable '", name(), "' is used before it is initialized, or ",
                                   "after it was destroyed; run its initializer first"));
}

absl::StatusOr<const ResourceHandle*> HandleInput(KernelContext& c, int i) {
  const Tensor& tensor = c.input(i);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("input ", i, " must be one resource handle; it has shape ",
                                   tensor.shape().DebugString());
  }
  const ResourceHandle& handle = tensor.ScalarValue<ResourceHandle>();
  if (handle.empty()) {
    return errors::InvalidArgument("input ", i, " is an empty resource handle");
  }
  return &handle;
}

absl::StatusOr<RefPtr<Resource>> FindResource(KernelContext& c, const ResourceHandle& handle) {
  const ResourceHandle::Description& description = handle.description();
  if (description.resource) {
    if (!description.resource->is_forgotten()) return description.resource;
    return errors::NotFound("resource '", handle.DebugString(), "' has been destroyed");
  }
  // A handle from another process: of the kinds that are found by name only variables travel.
  TANDEM_ASSIGN_OR_RETURN(RefPtr<Variable> variable, c.device().resources->Lookup<Variable>(
                                                         description.container, description.name));
  return RefPtr<Resource>(std::move(variable));
}

absl::StatusOr<VariableInput> GetVariable(KernelContext& c, int i, absl::StatusCode missing) {
  const Slot& slot = c.input_slot(i);
  if (slot.state == Slot::State::kReference) return VariableInput{slot.reference};
  VariableInput input;
  TANDEM_ASSIGN_OR_RETURN(input.handle, HandleInput(c, i));
  // As a rule it leads to a variable right away; a look at its exact class is quicker than a cast.
  if (Resource* const found = input.handle->description().resource.get();
      found != nullptr && !found->is_forgotten() && typeid(*found) == typeid(Variable)) {
    input.variable = RefPtr<Variable>::Share(static_cast<Variable*>(found));
    return input;
  }
  const absl::StatusOr<RefPtr<Resource>> resource = FindResource(c, *input.handle);
  if (!resource.ok()) {
    if (absl::IsNotFound(resource.status())) return input.NotInitialized(missing);
    return resource.status();
  }
  Variable* const variable = dynamic_cast<Variable*>(resource->get());
  if (variable == nullptr) {
    return errors::InvalidArgument("resource '", input.name(), "' is a ",
                                   (*resource)->DebugString(), ", not a variable");
  }
  input.variable = RefPtr<Variable>::Share(variable);
  return input;
}

absl::Status CheckType(const VariableInput& variable, DataType wanted) {
  if (variable->dtype() == wanted) return absl::OkStatus();
  return errors::InvalidArgument("variable '", variable.name(), "' holds ",
                                 DataTypeName(variable->dtype()), "; this op is for ",
                                 DataTypeName(wanted));
}

void CopyElements(ParallelRunner& parallel, DataType dtype, void* to, const void* from,
                  int64_t count) {
  const double cost = array::kNanosecondsPerByte * static_cast<double>(DataTypeSize(dtype)) *
                      static_cast<double>(kCopyBlock);
  parallel.For((count + kCopyBlock - 1) / kCopyBlock, cost, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kCopyBlock;
    array::CopyElements(dtype, ElementAt(dtype, to, first), ElementAt(dtype, from, first),
                        std::min(end * kCopyBlock, count) - first);
  });
}

absl::Status Store(KernelContext& c, int i, Variable& variable, CopyTensor copy) {
  Tensor value = c.TakeInput(i);
  Tensor& old = variable.value();
  // A small part of a large buffer would keep all of it.
  constexpr size_t kSlack = 4096;
  if (value.OwnsBufferAlone() && value.buffer()->size() <= 2 * value.num_bytes() + kSlack) {
    old = std::move(value);
    return absl::OkStatus();
  }
  if (!old.is_valid() || old.shape() != value.shape() || !old.OwnsBufferAlone()) {
    TANDEM_ASSIGN_OR_RETURN(old, c.AllocateTemporary(value.dtype(), value.shape()));
  }
  return copy(old.mutable_data(), value);
}

absl::Status Store(KernelContext& c, int i, Variable& variable) {
  return Store(c, i, variable, [&c](void* to, const Tensor& from) {
    CopyElements(c.parallel(), from.dtype(), to, from.data(), from.num_elements());
    return absl::OkStatus();
  });
}

absl::Status AssignByHandle(KernelContext& c, bool validate_shape, CopyTensor copy) {
  TANDEM_ASSIGN_OR_RETURN(const VariableInput variable,
                          GetVariable(c, 0, absl::StatusCode::kNotFound));
  TANDEM_RETURN_IF_ERROR(CheckType(variable, c.input(1).dtype()));
  Variable& target = *variable.variable;
  MutexLock lock(target.mu());
  const Tensor& old = target.value();
  if (validate_shape && old.is_valid() && old.shape() != c.input(1).shape()) {
    return errors::InvalidArgument("variable '", variable.name(), "' has shape ",
                                   old.shape().DebugString(), " and the new value ",
                                   c.input(1).shape().DebugString(),
                                   "; with validate_shape they must be the same");
  }
  return Store(c, 1, target, copy);
}

absl::Status MakeSole(KernelContext& c, Tensor& value) {
  if (value.OwnsBufferAlone()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(Tensor copy, c.AllocateTemporary(value.dtype(), value.shape()));
  CopyElements(c.parallel(), value.dtype(), copy.mutable_data(), value.data(),
               value.num_elements());
  value = std::move(copy);
  return absl::OkStatus();
}

absl::StatusOr<Overwrite> Overwrite::Begin(KernelContext& c, Tensor& value) {
  Overwrite overwrite;
  if (value.OwnsBufferAlone()) {
    overwrite.data_ = value.mutable_data();
  } else {
    TANDEM_ASSIGN_OR_RETURN(overwrite.fresh_, c.AllocateTemporary(value.dtype(), value.shape()));
  }
  return overwrite;
}

absl::Status ChangeVariable(KernelContext& c, CombineTensors combine) {
  const bool by_reference = c.input_slot(0).state == Slot::State::kReference;
  const absl::StatusCode missing =
      by_reference ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kNotFound;
  TANDEM_ASSIGN_OR_RETURN(const VariableInput variable, GetVariable(c, 0, missing));
  const Tensor& change = c.input(1);
  TANDEM_RETURN_IF_ERROR(CheckType(variable, change.dtype()));
  {
    MutexLock lock(variable->mu());
    Tensor& value = variable->value();
    if (!value.is_valid()) return variable.NotInitialized(missing);
    if (value.shape() != change.shape()) {
      return errors::InvalidArgument("variable '", variable.name(), "' has shape ",
                                     value.shape().DebugString(), " and what changes it ",
                                     change.shape().DebugString(), "; they must be the same");
    }
    if (value.num_elements() > 0) {
      TANDEM_ASSIGN_OR_RETURN(Overwrite target, Overwrite::Begin(c, value));
      TANDEM_RETURN_IF_ERROR(combine(target.data(), value, change));
      target.Commit(value);
    }
  }
  if (by_reference) c.SetOutputReference(0, variable.variable);
  return absl::OkStatus();
}

// The analysis does not follow a number of locks that is known at run time only.
absl::Status WithLocks(absl::Span<const VariableInput> variables,
                       absl::FunctionRef<absl::Status()> body) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  absl::InlinedVector<Variable*, 4> order;
  for (const VariableInput& variable : variables) order.push_back(variable.variable.get());
  std::sort(order.begin(), order.end(), std::less<Variable*>());
  for (Variable* variable : order) variable->mu().Lock();
  absl::Status status = body();
  for (Variable* variable : order) variable->mu().Unlock();
  return status;
}

Tensor& LockedValue(const VariableInput& variable) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return variable->value();
}

void ForEachRow(ParallelRunner& parallel, absl::Span<const int64_t> rows,
                double nanoseconds_per_row, absl::FunctionRef<void(int64_t i, int64_t row)> body) {
  const auto count = static_cast<int64_t>(rows.size());
  // Every part looks at all rows and takes its own: groups of neighbours, so that threads seldom
  // write to one cache line.
  constexpr int kGroupBits = 4;
  const double cost = nanoseconds_per_row * static_cast<double>(count);
  constexpr double kWorthAThread = 20'000;
  int64_t parts = 1;
  while (parts * 2 <= parallel.parallelism() && cost / static_cast<double>(parts) > kWorthAThread) {
    parts *= 2;
  }
  parallel.For(parts, cost / static_cast<double>(parts), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = rows[static_cast<size_t>(i)];
        if (((row >> kGroupBits) & (parts - 1)) == part) body(i, row);
      }
    }
  });
}

PartialShape VariableShapeOf(const ShapeContext& c, int i) {
  if (c.op().inputs[static_cast<size_t>(i)].is_ref) return c.input(i);
  const OutputInfo& info = c.input_info(i);
  return info.handle.empty() ? PartialShape::Unknown() : info.handle[0].second;
}

DataType VariableTypeOf(const ShapeContext& c, int i) {
  if (c.op().inputs[static_cast<size_t>(i)].is_ref) return RemoveReference(c.input_dtype(i));
  const OutputInfo& info = c.input_info(i);
  return info.handle.empty() ? DataType::kInvalid : info.handle[0].first;
}

absl::Status CheckHandleType(const ShapeContext& c, int i, DataType wanted) {
  const DataType holds = VariableTypeOf(c, i);
  if (holds == DataType::kInvalid || holds == wanted) return absl::OkStatus();
  return errors::InvalidArgument("input ", i, " is the handle of a variable of type ",
                                 DataTypeName(holds), "; this op is for ", DataTypeName(wanted));
}

}  // namespace tandem::state
