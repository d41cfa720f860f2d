#include "core/graph/memory_kind.h"

#include "core/graph/device_name.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

// The names of the node's arguments that lie in host memory: those of the kernel that will run,
// once the node is placed, else those of its op.
const std::vector<std::string>& HostArgs(const Node& node) {
  if (node.device().empty()) return node.op().host_memory;
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(node.device());
  if (!device.ok() || !device->type.has_value() || *device->type == kCpu)
    return node.op().host_memory;
  const absl::StatusOr<const KernelDef*> kernel =
      OpRegistry::Global().FindKernel(node.op(), *device->type, node.attrs());
  return kernel.ok() ? (*kernel)->host_memory : node.op().host_memory;
}

// Whether the `index`-th of a node's inputs or outputs belongs to an argument that is named as
// host memory.
bool IsHostArg(const Node& node, const std::vector<ArgDef>& args, int index) {
  int first = 0;
  for (const ArgDef& arg : args) {
    int count = 1;
    if (!arg.number_attr.empty()) {
      count = static_cast<int>(*node.Attr<int64_t>(arg.number_attr));
    } else if (!arg.type_list_attr.empty()) {
      count = static_cast<int>(node.Attr<std::vector<DataType>>(arg.type_list_attr)->size());
    }
    if (index < first + count) {
      for (const std::string& name : HostArgs(node)) {
        if (name == arg.name) return true;
      }
      return false;
    }
    first += count;
  }
  return false;
}

// Objects of the host (strings, handles, variants) cannot lie in another memory.
bool IsHostType(DataType type) { return !IsTriviallyCopyable(RemoveReference(type)); }

}  // namespace

bool IsHostOutput(const Node& node, int i) {
  return node.Is("Const") || IsHostType(node.output_info(i).dtype) ||
         IsHostArg(node, node.op().outputs, i);
}

bool IsHostInput(const Node& node, int i) {
  return IsHostType(node.input_dtype(i)) || IsHostArg(node, node.op().inputs, i);
}

}  // namespace tandem
