// What the ops on variables share: how an input leads to a variable, and how its value is changed.
//
// A variable comes in by reference (TensorFlow 1) or by a resource handle; kernels see no
// difference once they have it. Whoever changes a value holds the variable's lock meanwhile, and
// writes into its memory only when nobody else holds that: what was read before stays as it was.
#ifndef TANDEM_KERNELS_STATE_VARIABLES_H_
#define TANDEM_KERNELS_STATE_VARIABLES_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernel/kernel.h"
#include "core/kernel/resource.h"
#include "core/op/shape_context.h"
#include "core/tensor/tensor.h"

namespace tandem::state {

// --- Kernels

// A variable, and the handle in an input that led to it, which lives as long as the kernel runs
// (null for a reference).
struct VariableInput {
  RefPtr<Variable> variable;
  const ResourceHandle* handle = nullptr;

  Variable* operator->() const { return variable.get(); }
  // What messages call it.
  std::string name() const { return handle == nullptr ? "(reference)" : handle->DebugString(); }
  // The error of an op that needs a value where there is none yet. Ops differ in its code.
  absl::Status NotInitialized(absl::StatusCode code) const;
};

// The variable that input `i` leads to. When there is none (any more) the error has the code
// `missing`. InvalidArgument: the handle is no scalar, is empty, or leads to something else.
absl::StatusOr<VariableInput> GetVariable(KernelContext& c, int i, absl::StatusCode missing);

// The resource behind a handle. NotFound: there is none (any more).
absl::StatusOr<RefPtr<Resource>> FindResource(KernelContext& c, const ResourceHandle& handle);
// The handle in input `i`, never null. InvalidArgument: it is no scalar, or empty.
absl::StatusOr<const ResourceHandle*> HandleInput(KernelContext& c, int i);

// InvalidArgument: a variable of type `holds` was met by an op for type `wanted`.
absl::Status CheckType(const VariableInput& variable, DataType wanted);

// Copies elements, on several threads when that is worth it.
void CopyElements(ParallelRunner& parallel, DataType dtype, void* to, const void* from,
                  int64_t count);

// Copies all elements of a tensor, in the device's memory.
using CopyTensor = absl::FunctionRef<absl::Status(void* to, const Tensor& from)>;

// Makes input `i` the variable's value: takes its memory when nobody else holds it, else copies.
absl::Status Store(KernelContext& c, int i, Variable& variable)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(variable.mu());
absl::Status Store(KernelContext& c, int i, Variable& variable, CopyTensor copy)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(variable.mu());

// AssignVariableOp: Store, for the variable behind the handle in input 0 and the value in input 1.
absl::Status AssignByHandle(KernelContext& c, bool validate_shape, CopyTensor copy);

// Gives `value`, a variable's, memory of its own, with the same contents.
absl::Status MakeSole(KernelContext& c, Tensor& value);

// Where a changed value is written: over the old one when nobody else holds that, else into fresh
// memory, which takes the old one's place at Commit.
class Overwrite {
 public:
  static absl::StatusOr<Overwrite> Begin(KernelContext& c, Tensor& value);
  void* data() { return fresh_.is_valid() ? fresh_.mutable_data() : data_; }
  void Commit(Tensor& value) {
    if (fresh_.is_valid()) value = std::move(fresh_);
  }

 private:
  void* data_ = nullptr;
  Tensor fresh_;
};

// to = value combined with change, which have one type and shape and elements.
using CombineTensors =
    absl::FunctionRef<absl::Status(void* to, const Tensor& value, const Tensor& change)>;

// AssignAdd and its kin, by reference and by handle: changes the variable behind input 0 by the
// value in input 1.
absl::Status ChangeVariable(KernelContext& c, CombineTensors combine);

// Runs `body` while the locks of all variables are held; they are taken in one order by all, so
// that nobody waits in a circle. REQUIRES: the variables are distinct.
absl::Status WithLocks(absl::Span<const VariableInput> variables,
                       absl::FunctionRef<absl::Status()> body);
// The value of a variable that WithLocks has locked.
Tensor& LockedValue(const VariableInput& variable);

// Calls `body(i, rows[i])` for all i. Calls for one row come in order, from one thread; others at
// any time. So what is added to rows does not depend on the number of threads.
void ForEachRow(ParallelRunner& parallel, absl::Span<const int64_t> rows,
                double nanoseconds_per_row, absl::FunctionRef<void(int64_t i, int64_t row)> body);

// --- Shape functions

// What is known of the variable behind input `i`, by reference or by handle.
PartialShape VariableShapeOf(const ShapeContext& c, int i);
// Its type, or kInvalid.
DataType VariableTypeOf(const ShapeContext& c, int i);
// InvalidArgument: the handle at input `i` is known to be of a variable of another type.
absl::Status CheckHandleType(const ShapeContext& c, int i, DataType wanted);

}  // namespace tandem::state

#endif  // TANDEM_KERNELS_STATE_VARIABLES_H_
