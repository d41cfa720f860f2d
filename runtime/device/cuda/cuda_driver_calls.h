// The calls of the CUDA driver that Tandem makes, by the names and types of its binary interface,
// which is the same since CUDA 4 for those with a version in their name.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_CALLS_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_CALLS_H_

#include <cstddef>

namespace tandem {
namespace cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;  // NOLINT: the driver's own type.
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;

inline constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_…
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;

inline constexpr unsigned kStreamNonBlocking = 1;   // Does not wait for the default stream.
inline constexpr unsigned kEventBlockingSync = 1;   // Who waits for it sleeps.
inline constexpr unsigned kEventDisableTiming = 2;  // Cheaper.

}  // namespace cuda

// name, result type, parameters: of every call.
#define TANDEM_CUDA_CALLS(CALL)                                                                 \
  CALL(cuInit, (unsigned flags))                                                                \
  CALL(cuGetErrorName, (cuda::Result error, const char** name))                                 \
  CALL(cuGetErrorString, (cuda::Result error, const char** text))                               \
  CALL(cuDeviceGetCount, (int* count))                                                          \
  CALL(cuDeviceGet, (cuda::Device * device, int ordinal))                                       \
  CALL(cuDeviceGetName, (char* name, int size, cuda::Device device))                            \
  CALL(cuDeviceTotalMem_v2, (size_t * bytes, cuda::Device device))                              \
  CALL(cuDeviceGetAttribute, (int* value, int attribute, cuda::Device device))                  \
  CALL(cuDevicePrimaryCtxRetain, (cuda::Context * context, cuda::Device device))                \
  CALL(cuDevicePrimaryCtxRelease_v2, (cuda::Device device))                                     \
  CALL(cuCtxSetCurrent, (cuda::Context context))                                                \
  CALL(cuMemAlloc_v2, (cuda::DevicePointer * memory, size_t bytes))                             \
  CALL(cuMemFree_v2, (cuda::DevicePointer memory))                                              \
  CALL(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                           \
  CALL(cuMemFreeHost, (void* memory))                                                           \
  CALL(cuStreamCreate, (cuda::Stream * stream, unsigned flags))                                 \
  CALL(cuStreamDestroy_v2, (cuda::Stream stream))                                               \
  CALL(cuStreamWaitEvent, (cuda::Stream stream, cuda::Event event, unsigned flags))             \
  CALL(cuEventCreate, (cuda::Event * event, unsigned flags))                                    \
  CALL(cuEventDestroy_v2, (cuda::Event event))                                                  \
  CALL(cuEventRecord, (cuda::Event event, cuda::Stream stream))                                 \
  CALL(cuEventQuery, (cuda::Event event))                                                       \
  CALL(cuEventSynchronize, (cuda::Event event))                                                 \
  CALL(cuMemcpyHtoDAsync_v2,                                                                    \
       (cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream stream))           \
  CALL(cuMemcpyDtoHAsync_v2,                                                                    \
       (void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream))                 \
  CALL(cuMemcpyDtoDAsync_v2,                                                                    \
       (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream stream))   \
  CALL(cuMemsetD8Async,                                                                         \
       (cuda::DevicePointer to, unsigned char value, size_t count, cuda::Stream stream))        \
  CALL(cuModuleLoadData, (cuda::Module * module, const void* image))                            \
  CALL(cuModuleUnload, (cuda::Module module))                                                   \
  CALL(cuModuleGetFunction, (cuda::Function * function, cuda::Module module, const char* name)) \
  CALL(cuLaunchKernel,                                                                          \
       (cuda::Function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,       \
        unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,      \
        cuda::Stream stream, void** arguments, void** extra))

struct CudaCalls {
#define TANDEM_CUDA_FIELD(name, parameters) cuda::Result(*name) parameters = nullptr;
  TANDEM_CUDA_CALLS(TANDEM_CUDA_FIELD)
#undef TANDEM_CUDA_FIELD
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_CUDA_DRIVER_CALLS_H_
