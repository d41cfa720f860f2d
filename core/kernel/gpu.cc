#include "core/kernel/gpu.h"

#include "core/base/status.h"
#include "core/op/registry.h"

namespace tandem {

KernelDef MovesValues(std::vector<std::string> host_memory) {
  KernelDef def;
  def.device = kCuda;
  def.host_memory = std::move(host_memory);
  // The op's own registration may come later than this one: it is looked up when it is needed.
  def.factory = [](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    TANDEM_ASSIGN_OR_RETURN(const KernelDef* cpu,
                            OpRegistry::Global().FindKernel(init.op(), kCpu, init.attrs()));
    return cpu->factory(init);
  };
  return def;
}

}  // namespace tandem
