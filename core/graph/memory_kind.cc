#include "core/graph/memory_kind.h"

namespace tandem {
namespace {

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
      for (const std::string& name : node.op().host_memory) {
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
