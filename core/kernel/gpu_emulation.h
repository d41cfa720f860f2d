// Functions for GPUs, compiled for the host: what gpu_code.h's macros become under g++, and how the
// emulated GPU calls them. For tests.
#ifndef TANDEM_CORE_KERNEL_GPU_EMULATION_H_
#define TANDEM_CORE_KERNEL_GPU_EMULATION_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem {

// Where the calling thread of the host is in the grid that it runs.
struct GpuPosition {
  int64_t block = 0;
  int64_t blocks = 1;
  int64_t thread = 0;
  int64_t threads = 1;
};
GpuPosition& EmulatedPosition();

inline int64_t GpuBlock() { return EmulatedPosition().block; }
inline int64_t GpuBlocks() { return EmulatedPosition().blocks; }
inline int GpuThreads() { return static_cast<int>(EmulatedPosition().threads); }
inline int64_t GpuFirst() {
  const GpuPosition& at = EmulatedPosition();
  return at.block * at.threads + at.thread;
}
inline int64_t GpuStride() {
  const GpuPosition& at = EmulatedPosition();
  return at.blocks * at.threads;
}

// A function of a NAME_gpu.cu.cc.
struct EmulatedGpuFunction {
  // Runs one thread (or one block, for functions in phases) with the arguments at these addresses.
  std::function<void(const std::vector<const void*>& arguments)> call;
  std::vector<uint32_t> argument_sizes;
  bool in_phases = false;
};

// Registers a function when the program starts. Two of one name do not link.
class EmulatedGpuRegistration {
 public:
  template <typename... Args>
  EmulatedGpuRegistration(const char* name, void (*function)(Args...), bool in_phases) {
    EmulatedGpuFunction emulated;
    emulated.argument_sizes = {static_cast<uint32_t>(sizeof(Args))...};
    emulated.in_phases = in_phases;
    emulated.call = [function](const std::vector<const void*>& arguments) {
      Call(function, arguments, std::index_sequence_for<Args...>());
    };
    Register(name, std::move(emulated));
  }

 private:
  static void Register(const char* name, EmulatedGpuFunction function);

  template <typename... Args, size_t... kIndex>
  static void Call(void (*function)(Args...), const std::vector<const void*>& arguments,
                   std::index_sequence<kIndex...>) {
    std::tuple<Args...> values;
    (std::memcpy(&std::get<kIndex>(values), arguments[kIndex], sizeof(Args)), ...);
    std::apply(function, values);
  }
};

// Null: no such function in this program.
const EmulatedGpuFunction* FindEmulatedGpuFunction(const std::string& name);

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_GPU_EMULATION_H_
