// Numbers written down in a program, as another type.
#ifndef TANDEM_CORE_GRAPH_LITERAL_H_
#define TANDEM_CORE_GRAPH_LITERAL_H_

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace tandem {

// `numbers` as tensor of type `dtype`. Floating types round; an integer type takes whole numbers in
// its range. InvalidArgument: a number that does not fit, or a type that holds no numbers.
absl::StatusOr<Tensor> ConvertLiteral(const Tensor& numbers, DataType dtype);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_LITERAL_H_
