// Runs a single op on a device, for tests that compare its kernels with known answers.
#ifndef TANDEM_RUNTIME_DEVICE_CONFORMANCE_OP_ON_DEVICE_H_
#define TANDEM_RUNTIME_DEVICE_CONFORMANCE_OP_ON_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"
#include "runtime/device/device.h"

namespace tandem::testing {

// Whether the device's type has a kernel of its own for the op with inputs of these types.
bool HasKernelOn(const Device& device, const std::string& op, const std::vector<Tensor>& inputs,
                 const AttrMap& attrs);

// The outputs of the op, on the host, for inputs on the host: they are copied to where the kernel
// wants them. The shapes of inputs are unknown to shape inference, so that the kernel's own checks
// are met. REQUIRES: no input or output of the op is a reference; the kernel is synchronous.
absl::StatusOr<std::vector<Tensor>> RunOpOn(Device& device, const std::string& op,
                                            const std::vector<Tensor>& inputs,
                                            const AttrMap& attrs);

}  // namespace tandem::testing

#endif  // TANDEM_RUNTIME_DEVICE_CONFORMANCE_OP_ON_DEVICE_H_
