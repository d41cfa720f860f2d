// Resolution of a node against its op: attributes are inferred from the inputs, completed with
// defaults and checked, and the types of inputs and outputs follow from them.
#ifndef TANDEM_CORE_GRAPH_NODE_RESOLUTION_H_
#define TANDEM_CORE_GRAPH_NODE_RESOLUTION_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/op/attr_value.h"
#include "core/op/op_def.h"
#include "core/tensor/dtype.h"

namespace tandem {

struct ResolvedNode {
  AttrMap attrs;
  std::vector<DataType> input_types;  // With reference flags, as the op declares them.
  std::vector<DataType> output_types;
};

// `input_types` are the types of the sources, with reference flags; those from `first_missing` on
// are not there yet (-1: all are). InvalidArgument says which attribute or input does not fit.
absl::Status ResolveNode(const OpDef& op, AttrMap attrs, absl::Span<const DataType> input_types,
                         int first_missing, ResolvedNode* resolved);

// The types of a list of arguments under complete attributes.
absl::StatusOr<std::vector<DataType>> ArgTypes(const std::vector<ArgDef>& args,
                                               const AttrMap& attrs);

// Whether an output of type `source` may feed an input that wants `wanted`: equal types, and a
// reference where a value is wanted.
bool TypesFit(DataType source, DataType wanted);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_NODE_RESOLUTION_H_
