// Element: what a pipeline is a sequence of, a fixed number of tensors (its components).
#ifndef TANDEM_RUNTIME_INPUT_ELEMENT_H_
#define TANDEM_RUNTIME_INPUT_ELEMENT_H_

#include <vector>

#include "absl/types/optional.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// The tensors lie in host memory and may share it with other elements and with the source: nobody
// writes into them unless Tensor::OwnsBufferAlone() says that nobody else would see it.
using Element = std::vector<Tensor>;

// Nothing: the end of the sequence.
using MaybeElement = absl::optional<Element>;

// Sizes of sequences that are no number. The values are TensorFlow's.
inline constexpr int64_t kInfiniteCardinality = -1;
inline constexpr int64_t kUnknownCardinality = -2;

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_ELEMENT_H_
