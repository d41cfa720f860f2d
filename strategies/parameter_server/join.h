// What a step's parts at several workers, and a variable's parts at several servers, are together.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_JOIN_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_JOIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "strategies/parameter_server/parameter_builder.h"

namespace tandem::parameter_server {

// Unimplemented: values of the type are not joined so.
absl::Status CheckJoin(Join join, DataType dtype);

// Joins the results of a step's parts, in their order. Sums are multiplied by `scale`, for parts
// that are missing; those of whole numbers are rounded. InvalidArgument: their shapes do not fit.
absl::StatusOr<Tensor> JoinResults(Join join, const std::vector<Tensor>& parts, double scale);

// A part's rows in the whole: those from `offset` on, in steps of `stride`.
struct RowRange {
  int64_t offset = 0;
  int64_t stride = 1;
};

// Copies the part's rows to where they are in the whole. InvalidArgument: they are not in it.
absl::Status PutRows(const Tensor& part, const RowRange& rows, Tensor* whole);
// A tensor of `shape` with rows of the whole; shares its memory where they lie together.
absl::StatusOr<Tensor> TakeRows(const Tensor& whole, const RowRange& rows, const Shape& shape);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_JOIN_H_
