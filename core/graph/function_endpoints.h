// The names that the nodes of a FunctionDef use for each other's outputs, and what they are in a
// graph. Part of function_body.cc.
#ifndef TANDEM_CORE_GRAPH_FUNCTION_ENDPOINTS_H_
#define TANDEM_CORE_GRAPH_FUNCTION_ENDPOINTS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/function_library.h"
#include "core/op/op_def.h"
#include "core/op/registry.h"

namespace tensorflow {
class NodeDef;
}  // namespace tensorflow

namespace tandem {

// How many tensors an argument stands for under complete attributes. InvalidArgument when there are
// more than a node can have.
absl::StatusOr<int> ArgLength(const ArgDef& arg, const AttrMap& attrs);

class FunctionEndpoints {
 public:
  FunctionEndpoints(const FunctionLibrary& functions, const OpRegistry& registry)
      : functions_(functions), registry_(registry) {}

  // Names that are not to be given out by UniqueName.
  void ReserveName(const std::string& name) { names_.insert(name); }
  std::string UniqueName(const std::string& base);

  // An argument, and the names of the _Arg nodes that give its tensors. InvalidArgument when a node
  // has its name.
  absl::Status AddArg(const std::string& name, std::vector<std::string> nodes);
  // A node of the body, its attributes without placeholders. NotFound: its op is neither registered
  // nor a function. InvalidArgument: attributes that its outputs depend on are wrong.
  absl::Status AddNode(const tensorflow::NodeDef& node);
  bool HasNode(const std::string& name) const { return nodes_.count(name) != 0; }

  // Appends what `text` means as inputs of a GraphDef ("node:3", "^node"): one for "arg",
  // "node:output:0" and "^node"; all of a list for an argument or output that is one.
  absl::Status Resolve(const std::string& text, std::vector<std::string>* inputs) const;

 private:
  struct Range {
    std::string name;  // Of the output in the op's signature.
    int first;
    int count;
  };

  absl::StatusOr<const OpDef*> FindOp(const std::string& op);

  const FunctionLibrary& functions_;
  const OpRegistry& registry_;
  std::set<std::string> names_;
  std::map<std::string, std::vector<std::string>> args_;
  std::map<std::string, std::vector<Range>> nodes_;
  std::map<std::string, OpDef> signatures_;  // Of functions that nodes call by their op.
};

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_FUNCTION_ENDPOINTS_H_
