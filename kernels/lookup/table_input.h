// How an op's first input leads to a lookup table.
#ifndef TANDEM_KERNELS_LOOKUP_TABLE_INPUT_H_
#define TANDEM_KERNELS_LOOKUP_TABLE_INPUT_H_

#include "absl/status/statusor.h"
#include "core/base/ref_counted.h"
#include "core/kernel/kernel.h"
#include "core/op/shape_context.h"
#include "kernels/lookup/lookup_table.h"

namespace tandem::lookup {

// The table that input 0 leads to: a resource handle, or, in graphs of TensorFlow 1, a reference to
// the strings {container, name}. NotFound: there is none (any more). InvalidArgument: the input is
// no handle, or leads to something else.
absl::StatusOr<RefPtr<LookupTable>> TableInput(KernelContext& c);

// InvalidArgument: input 0 cannot be the handle of a table.
absl::Status CheckTableHandle(const ShapeContext& c);

// What a graph knows of the table behind input 0, before it runs.
struct KnownTable {
  DataType key = DataType::kInvalid;  // If so, nothing is known.
  DataType value = DataType::kInvalid;
  PartialShape value_shape;
};
KnownTable TableBehind(const ShapeContext& c);

}  // namespace tandem::lookup

#endif  // TANDEM_KERNELS_LOOKUP_TABLE_INPUT_H_
