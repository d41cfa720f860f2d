// NumPy's .npy files: one array each, in both directions.
//
// Read are versions 1 to 3, C and Fortran order (the latter is converted), little-endian. The
// types:
//   b1  i1 i2 i4 i8  u1 u2 u4 u8  f2 f4 f8  c8 c16     as themselves
//   S<n>  U<n>   strings; trailing NULs are padding and go, U becomes UTF-8
// Objects, records, dates, void and big-endian data are Unimplemented.
//
// Written is version 1.0 in C order. Strings become S<longest>. NumPy has no bfloat16: such a
// tensor is written as float32, which holds the same values.
//
// Errors: InvalidArgument for a file that is no .npy file or is damaged, with its name, the offset,
// what was expected there and what was found; NotFound, PermissionDenied and so on from the system.
//
// Threads: all functions may be called from any thread. Tensors lie in host memory.
#ifndef TANDEM_CORE_IO_NPY_H_
#define TANDEM_CORE_IO_NPY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace tandem {

// `path` may be a pipe.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// Parses the bytes of a whole file; `name` stands for it in messages.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes, absl::string_view name);

// Creates or replaces the file. InvalidArgument: there is no tensor, or a string ends with a NUL,
// which the format cannot tell from padding. Unimplemented: handles and variants. After another
// error (a full disk) the file may be there in part.
absl::Status WriteNpy(const std::string& path, const Tensor& tensor);

// The bytes of a whole file.
absl::StatusOr<std::string> SerializeNpy(const Tensor& tensor);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_NPY_H_
