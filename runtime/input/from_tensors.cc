// FromTensors: the rows of tensors in memory. Attributes: tensors.
#include "core/base/status.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

absl::StatusOr<OpenedStagePtr> OpenFromTensors(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const attr, stage.List("tensors"));
  if (attr->tensors.empty()) {
    return errors::InvalidArgument("FromTensors: the data set is empty: no tensors were given");
  }
  std::vector<Column> columns;
  for (size_t i = 0; i < attr->tensors.size(); ++i) {
    const Tensor& tensor = attr->tensors[i];
    const std::string found =
        absl::StrCat(DataTypeName(tensor.dtype()), tensor.shape().DebugString());
    if (tensor.dtype() != kString && !(tensor.is_valid() && IsTriviallyCopyable(tensor.dtype()))) {
      return errors::InvalidArgument("FromTensors: tensor ", i, " is ", found,
                                     "; expected numbers or strings");
    }
    if (tensor.shape().rank() == 0) {
      return errors::InvalidArgument("FromTensors: tensor ", i, " is a scalar, ", found,
                                     "; expected a first dimension whose rows are the elements");
    }
    const Tensor& first = attr->tensors[0];
    if (tensor.shape().dim(0) != first.shape().dim(0)) {
      return errors::InvalidArgument("FromTensors: tensor ", i, ", ", found, ", has ",
                                     tensor.shape().dim(0), " rows, tensor 0 has ",
                                     first.shape().dim(0), "; all must have as many");
    }
    if (tensor.shape().dim(0) == 0) {
      return errors::InvalidArgument("FromTensors: the data set is empty: tensor ", i, " is ",
                                     found, "; expected at least one row");
    }
    Shape row = tensor.shape();
    row.RemoveDim(0);
    columns.push_back({tensor, std::move(row)});
  }
  return MakeTableStage("FromTensors", std::make_unique<ColumnRows>(std::move(columns)));
}

const bool registered = RegisterStage("FromTensors", /*inputs=*/0, OpenFromTensors);

}  // namespace
}  // namespace tandem::data
