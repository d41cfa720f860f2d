#include "kernels/ragged/splits.h"

#include "core/base/status.h"
#include "kernels/common/arguments.h"

namespace tandem::ragged {

absl::StatusOr<RowSplits> ReadSplits(const Tensor& tensor, absl::string_view name) {
  TANDEM_ASSIGN_OR_RETURN(const SmallInts values, VectorArgument(tensor, name));
  if (values.empty() || values.front() != 0) {
    return errors::InvalidArgument(
        name, " must begin with 0; ",
        values.empty() ? "they are empty" : absl::StrCat("they begin with ", values.front()));
  }
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] >= values[i - 1]) continue;
    return errors::InvalidArgument(name, " must not fall; number ", i, " is ", values[i], " after ",
                                   values[i - 1]);
  }
  return RowSplits(values.begin(), values.end());
}

absl::Status CheckEnd(const RowSplits& splits, absl::string_view name, int64_t values) {
  if (splits.back() == values) return absl::OkStatus();
  return errors::InvalidArgument(name, " end with ", splits.back(), "; there are ", values,
                                 " values");
}

absl::Status WriteSplits(const RowSplits& splits, Tensor* tensor) {
  for (size_t i = 0; i < splits.size(); ++i) {
    if (tensor->dtype() == kInt64) {
      tensor->MutableElements<int64_t>()[i] = splits[i];
    } else if (splits[i] <= INT32_MAX) {
      tensor->MutableElements<int32_t>()[i] = static_cast<int32_t>(splits[i]);
    } else {
      return errors::InvalidArgument("row split ", splits[i],
                                     " does not fit into int32; ask for Tsplits int64");
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::ragged
