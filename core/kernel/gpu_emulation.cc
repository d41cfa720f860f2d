#include "core/kernel/gpu_emulation.h"

#include <map>

namespace tandem {
namespace {

// Filled before main, read-only from then on.
std::map<std::string, EmulatedGpuFunction>& Functions() {
  static auto* const functions = new std::map<std::string, EmulatedGpuFunction>();
  return *functions;
}

}  // namespace

GpuPosition& EmulatedPosition() {
  static thread_local GpuPosition position;
  return position;
}

const EmulatedGpuFunction* FindEmulatedGpuFunction(const std::string& name) {
  const auto found = Functions().find(name);
  return found == Functions().end() ? nullptr : &found->second;
}

void EmulatedGpuRegistration::Register(const char* name, EmulatedGpuFunction function) {
  Functions().emplace(name, std::move(function));
}

}  // namespace tandem
