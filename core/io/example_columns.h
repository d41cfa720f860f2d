// The second half of parsing examples: tensors from the values that were found. No interface for
// others than example_parser.cc.
//
// A column holds one feature of a batch, a WireValues for each row. In examples and contexts a row
// is an example; in feature lists it is a step, and `steps` says how many each example has.
#ifndef TANDEM_CORE_IO_EXAMPLE_COLUMNS_H_
#define TANDEM_CORE_IO_EXAMPLE_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/io/example_parser.h"
#include "core/io/example_wire.h"

namespace tandem {
namespace example_columns {

struct Column {
  const FeatureSpec* spec = nullptr;
  size_t max_tensor_bytes = 0;
  std::vector<example_wire::WireValues> rows;
  // Feature lists only: of each example.
  std::vector<int64_t> steps;
};

absl::StatusOr<ParsedFeature> FeatureOfExamples(const Column& column);
absl::StatusOr<ParsedFeature> FeatureOfSteps(const Column& column);

}  // namespace example_columns
}  // namespace tandem

#endif  // TANDEM_CORE_IO_EXAMPLE_COLUMNS_H_
