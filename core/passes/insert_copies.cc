#include "core/passes/insert_copies.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/graph/memory_kind.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

TANDEM_OP("_TandemCopy")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type; to_host:bool")
    .Shape(UnchangedShape);

class Inserter {
 public:
  explicit Inserter(Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    for (Node* node : graph_.nodes()) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output source = node->input(i);
        const std::string from = MemoryOf(*source.node, IsHostOutput(*source.node, source.index));
        const std::string to = MemoryOf(*node, IsHostInput(*node, i));
        if (from == to) continue;
        if (IsReference(node->input_dtype(i))) {
          return errors::InvalidArgument("node '", node->name(), "' on ", node->device(),
                                         " wants a reference to '", source.name(), "' on ",
                                         source.node->device(),
                                         "; a reference cannot leave its device");
        }
        Output at = source;
        if (!from.empty()) {
          TANDEM_ASSIGN_OR_RETURN(at, CopyOf(at, from, /*to_host=*/true));
        }
        if (!to.empty()) {
          TANDEM_ASSIGN_OR_RETURN(at, CopyOf(at, to, /*to_host=*/false));
        }
        TANDEM_RETURN_IF_ERROR(graph_.SetInput(node, i, at));
      }
    }
    return absl::OkStatus();
  }

 private:
  // The device whose memory it is; empty for the host's.
  static std::string MemoryOf(const Node& node, bool is_host) {
    if (is_host) return "";
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(node.device());
    return !name.ok() || name->type == kCpu ? "" : node.device();
  }

  // One copy for all consumers in the same memory.
  absl::StatusOr<Output> CopyOf(Output source, const std::string& device, bool to_host) {
    const auto key =
        std::make_pair(std::make_pair(source.node->id(), source.index), to_host ? "" : device);
    const auto found = copies_.find(key);
    if (found != copies_.end()) return found->second;
    NodeSpec spec;
    spec.name = graph_.UniqueName(absl::StrCat("_copy_", source.node->name()));
    spec.op = "_TandemCopy";
    spec.inputs = {source};
    spec.attrs = {{"to_host", to_host}};
    TANDEM_ASSIGN_OR_RETURN(Node * copy, graph_.AddNode(std::move(spec)));
    copy->set_device(device);
    copies_.emplace(key, copy->output(0));
    return copy->output(0);
  }

  Graph& graph_;
  std::map<std::pair<std::pair<int, int>, std::string>, Output> copies_;
};

}  // namespace

absl::Status InsertCopies(Graph& graph) { return Inserter(graph).Run(); }

}  // namespace tandem
