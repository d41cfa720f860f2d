// Tensors for people and for programs, and how two of them differ.
#ifndef TANDEM_TOOLS_CLI_TENSOR_TEXT_H_
#define TANDEM_TOOLS_CLI_TENSOR_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "nlohmann/json.hpp"

namespace tandem::cli {

// Lines, each with its end: the elements, a line for each row of the last dimension, which begins
// with the row's position where there are several. At most `max_values` elements, and then "…".
std::string TensorText(const Tensor& tensor, int64_t max_values);

// Lists in lists, as deep as the tensor has dimensions. NaN and infinities are "NaN", "Infinity"
// and "-Infinity", complex numbers [real, imaginary]; strings need not be UTF-8.
nlohmann::json TensorJson(const Tensor& tensor);

struct TensorDifference {
  int64_t elements = 0;  // That differ in a bit.
  // The largest difference of two numbers; nothing: they are no real numbers. Infinity where only
  // one is finite.
  absl::optional<double> largest;
};
// REQUIRES: equal types and shapes.
TensorDifference CompareTensors(const Tensor& a, const Tensor& b);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_TENSOR_TEXT_H_
