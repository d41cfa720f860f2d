// Compares cuda_driver_calls.h with the toolkit's header. Compiled where that is installed; nothing
// of it runs.
#include <cuda.h>

#include <type_traits>

#include "runtime/device/cuda/cuda_driver_calls.h"

namespace tandem {
namespace {

// Two types that a call passes in the same way: the driver's handles and enumerations are other
// types than ours.
template <typename A, typename B>
constexpr bool kSame = sizeof(A) == sizeof(B) &&
                       std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                           std::is_floating_point_v<B>;

template <typename A, typename B>
constexpr bool kSameCall = false;
template <typename... A, typename RB, typename... B>
constexpr bool kSameCall<cuda::Result (*)(A...), RB(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return sizeof(RB) == sizeof(cuda::Result) && (kSame<A, B> && ...);
  }
  return false;
}();

// The header's names carry their version by a macro, as ours do by hand.
#define TANDEM_CUDA_CHECK(name, parameters) \
  static_assert(kSameCall<decltype(CudaCalls::name), decltype(::name)>, #name);
TANDEM_CUDA_CALLS(TANDEM_CUDA_CHECK)
#undef TANDEM_CUDA_CHECK

static_assert(cuda::kSuccess == CUDA_SUCCESS);
static_assert(cuda::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cuda::kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(cuda::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(cuda::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(cuda::kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(cuda::kCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cuda::kCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda::kEventBlockingSync == CU_EVENT_BLOCKING_SYNC);
static_assert(cuda::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);

}  // namespace
}  // namespace tandem
