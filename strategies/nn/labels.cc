#include "strategies/nn/labels.h"

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tandem::nn {

absl::Status LabelError(absl::string_view who, absl::string_view wanted, Output labels,
                        Output outputs) {
  return errors::InvalidArgument(who, " needs ", wanted, "; labels are ",
                                 DataTypeName(labels.dtype()), labels.shape().DebugString(),
                                 ", outputs ", DataTypeName(outputs.dtype()),
                                 outputs.shape().DebugString());
}

absl::Status CheckClassNumbers(absl::string_view who, Output labels, Output outputs) {
  const PartialShape& shape = outputs.shape();
  const bool fits = RemoveReference(outputs.dtype()) == kFloat32 &&
                    (labels.dtype() == kInt32 || labels.dtype() == kInt64) && shape.has_rank() &&
                    shape.rank() >= 2 && shape.dim(shape.rank() - 1) >= 0 &&
                    labels.shape().IsCompatibleWith(PartialShape(
                        shape.dims().subspan(0, static_cast<size_t>(shape.rank()) - 1)));
  if (fits) return absl::OkStatus();
  return LabelError(who,
                    "labels that are class numbers, int32 or int64 [batch, …], and float32 outputs "
                    "[batch, …, classes]",
                    labels, outputs);
}

absl::StatusOr<Output> LabelsLikeOutputs(const Scope& scope, absl::string_view who, Output labels,
                                         Output outputs) {
  const PartialShape& shape = outputs.shape();
  const DataType dtype = RemoveReference(labels.dtype());
  const bool is_number = dtype == kBool || IsInteger(dtype) || dtype == kFloat32;
  if (RemoveReference(outputs.dtype()) != kFloat32 || !is_number || !shape.has_rank() ||
      shape.rank() < 1 || !labels.shape().has_rank()) {
    return LabelError(who, "labels like outputs, which are float32 [batch, …]", labels, outputs);
  }
  if (dtype != kFloat32) labels = scope.Call("Cast", {labels}, {{"DstT", kFloat32}});
  TANDEM_RETURN_IF_ERROR(scope.status());
  if (labels.shape().IsCompatibleWith(shape)) return labels;
  const int rank = shape.rank();
  if (labels.shape().rank() == rank - 1 && shape.dim(rank - 1) == 1 &&
      labels.shape().IsCompatibleWith(
          PartialShape(shape.dims().subspan(0, static_cast<size_t>(rank) - 1)))) {
    return scope.Call("ExpandDims", {labels, Tensor::Scalar<int32_t>(-1)});
  }
  return LabelError(who, "labels of the shape of the outputs", labels, outputs);
}

Output AsRows(const Scope& scope, Output x) {
  if (x.shape().rank() == 2) return x;
  const int64_t last = x.shape().dim(x.shape().rank() - 1);
  return scope.Call("Reshape", {x, Tensor::Vector<int64_t>({-1, last})});
}

Output AsVector(const Scope& scope, Output x) {
  if (x.shape().has_rank() && x.shape().rank() == 1) return x;
  return scope.Call("Reshape", {x, Tensor::Vector<int64_t>({-1})});
}

}  // namespace tandem::nn
