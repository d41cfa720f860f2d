// What the summary ops share: their result is a serialized Summary, in a scalar string.
#ifndef TANDEM_KERNELS_IO_SUMMARY_KERNEL_H_
#define TANDEM_KERNELS_IO_SUMMARY_KERNEL_H_

#include <climits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "proto/summary.pb.h"

namespace tandem::io {

// InvalidArgument: it is larger than a message can be.
inline absl::Status OutputSummary(KernelContext& c, const tensorflow::Summary& summary) {
  const size_t size = summary.ByteSizeLong();
  if (size > INT_MAX) {
    return errors::InvalidArgument("the summary has ", size,
                                   " bytes; a message can have 2 GiB at most");
  }
  c.SetOutput(0, Tensor::Scalar<std::string>(summary.SerializeAsString()));
  return absl::OkStatus();
}

// The value of a scalar string input. InvalidArgument: it is no scalar.
inline absl::StatusOr<std::string> ScalarText(const KernelContext& c, int i,
                                              absl::string_view name) {
  if (!c.input(i).shape().IsScalar()) {
    return errors::InvalidArgument(name, " must be a scalar; found the shape ",
                                   c.input(i).shape().DebugString());
  }
  return c.input(i).ScalarValue<std::string>();
}

// The same of a number.
template <typename T>
absl::StatusOr<T> ScalarNumber(const KernelContext& c, int i, absl::string_view name) {
  if (!c.input(i).shape().IsScalar()) {
    return errors::InvalidArgument(name, " must be a scalar; found the shape ",
                                   c.input(i).shape().DebugString());
  }
  return c.input(i).ScalarValue<T>();
}

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_SUMMARY_KERNEL_H_
