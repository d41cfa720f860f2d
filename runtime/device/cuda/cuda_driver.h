// The CUDA driver, opened when it is first asked for: a program that was built with CUDA starts on
// every machine.
//
// No header of the toolkit is needed: the functions of the driver's interface that are used are
// declared here once more (cuda_driver_calls.h), and cuda_driver_check.cc, which is compiled where
// the toolkit is installed, compares them with its header.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_driver_calls.h"
#include "runtime/device/cuda/gpu_context.h"

namespace tandem {

// The driver of this machine, opened once. Unavailable: there is no driver, or it is too old, with
// what the system's loader said.
absl::StatusOr<GpuPlatform*> CudaPlatform();

// The calls of a driver library. Unavailable: it cannot be opened, or lacks a call.
absl::StatusOr<const CudaCalls*> OpenCudaCalls(const std::string& library);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_
