// Combine: makes the arguments of one update out of those of several pushes (Combination).
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_COMBINE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_COMBINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

// InvalidArgument: arguments of this type cannot be combined so, or there is no such combination.
absl::Status CheckCombination(Combination combination, DataType dtype);

// InvalidArgument: `argument` cannot be combined with `other`, which says how; `where` begins the
// message. REQUIRES: CheckCombination is OK for the type of `other`.
absl::Status CheckFits(Combination combination, const Tensor& other, const Tensor& argument,
                       absl::string_view where);

// Combines `values`, one of each push, in their order. Floats and complex numbers of SUM and CONCAT
// are scaled by `scale`, unless it is 1; integers never are, since they count or name something.
// Half floats are added in float32 and rounded once. A sum may be written over the first value, if
// nobody else holds that. REQUIRES: at least one value, and all fit the first.
//
// ResourceExhausted: no memory. InvalidArgument: too many rows.
absl::StatusOr<Tensor> Combine(Combination combination, std::vector<Tensor> values, double scale);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_COMBINE_H_
