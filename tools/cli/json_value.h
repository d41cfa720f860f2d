// Values that a user types on the command line, as tensors.
#ifndef TANDEM_TOOLS_CLI_JSON_VALUE_H_
#define TANDEM_TOOLS_CLI_JSON_VALUE_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace tandem::cli {

// The tensor that `text` describes in JSON: a number, a boolean, a string, or lists of them, nested
// as deep as the tensor has dimensions. Booleans are the numbers 0 and 1 where numbers are wanted.
// Beyond JSON, floating-point numbers may be nan, inf and -inf (also NaN, Infinity, and quoted, as
// in the output of programs).
//
// Where a string is wanted, a text that begins with neither '"' nor '[' is that string as it
// stands: any bytes, also those of a number or of a JSON object.
//
// InvalidArgument: no JSON; lists of unequal lengths or depths, or more of them in one another than
// a tensor has dimensions; a number that the type does not hold (a fraction for an integer, or one
// out of range), or what is no number. Unimplemented: types that JSON does not know.
absl::StatusOr<Tensor> TensorFromJson(const std::string& text, DataType dtype);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_JSON_VALUE_H_
