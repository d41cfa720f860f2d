#include "core/passes/fuse_elementwise.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/passes/rewrite.h"

namespace tandem {
namespace {

constexpr char kFusedOp[] = "_TandemElementwise";

// Ops whose attributes are T alone and whose kernels show their loops
// (kernels/common/elementwise_kernel.h). Not those that compute for long at each element: a pass
// through memory less is nothing to them.
constexpr absl::string_view kOps[] = {
    // Of one argument.
    "Neg", "Abs", "Sign", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Floor", "Ceil", "Rint",
    "Round", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Relu",
    "Relu6", "Elu", "Selu", "Softplus", "Softsign",
    // Of two.
    "Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum",
    "SquaredDifference",
    // Gradients, of two of one shape.
    "ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad", "ReluGrad",
    "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"};

// A longer chain is cut: the blocks of all its values shall fit into a first-level cache.
constexpr size_t kMaxOps = 24;

bool IsScalar(const PartialShape& shape) { return shape.has_rank() && shape.rank() == 0; }

// As far as is known, tensors of these shapes have as many elements. A size of 1 beside one that is
// not known may be one that broadcasts.
bool SeemEqual(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return true;
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dim(i) == b.dim(i)) continue;
    if ((a.dim(i) >= 0 && b.dim(i) >= 0) || a.dim(i) == 1 || b.dim(i) == 1) return false;
  }
  return true;
}

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.TopologicalOrder());
    group_of_.assign(static_cast<size_t>(graph_.id_limit()), -1);
    // From the results back: when a node's turn comes, all its consumers are in their groups.
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (IsCandidate(**node)) Assign(*node);
    }
    std::vector<Node*> replaced;
    for (std::vector<Node*>& group : groups_) {
      if (group.size() < 2) continue;
      std::reverse(group.begin(), group.end());
      TANDEM_RETURN_IF_ERROR(Fuse(group));
      replaced.insert(replaced.end(), group.begin(), group.end());
    }
    graph_.RemoveNodes(replaced);
    return absl::OkStatus();
  }

 private:
  bool IsCandidate(const Node& node) const {
    static const auto& ops =
        *new absl::flat_hash_set<absl::string_view>(std::begin(kOps), std::end(kOps));
    if (!ops.contains(node.type())) return false;
    const DataType* const dtype = node.Attr<DataType>("T");
    if (dtype == nullptr || (*dtype != kFloat32 && *dtype != kFloat64)) return false;
    const PartialShape& shape = node.output_info(0).shape;
    if (IsScalar(shape)) return false;
    for (const Output& input : node.inputs()) {
      if (!IsScalar(input.shape()) && !SeemEqual(input.shape(), shape)) return false;
    }
    return HasKernelBeside(node, graph_, kFusedOp, {{"T", *dtype}});
  }

  // -1: none. Nodes that were put in the place of a group are new, and in none.
  int GroupOf(const Node& node) const {
    const auto id = static_cast<size_t>(node.id());
    return id < group_of_.size() ? group_of_[id] : -1;
  }

  // Puts the node into the group of its consumers, if they are all in one that it fits into, else
  // into a new one.
  void Assign(Node* node) {
    int group = -1;
    for (const Consumer& consumer : node->consumers()) {
      const int its = consumer.input == Consumer::kControl ? -1 : GroupOf(*consumer.node);
      if (its < 0 || (group >= 0 && group != its)) {
        group = -1;
        break;
      }
      group = its;
    }
    if (group < 0 || !Fits(*node, groups_[static_cast<size_t>(group)])) {
      group = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    group_of_[static_cast<size_t>(node->id())] = group;
    groups_[static_cast<size_t>(group)].push_back(node);
  }

  static bool Fits(const Node& node, const std::vector<Node*>& group) {
    const Node& result = *group.front();
    return group.size() < kMaxOps && node.device() == result.device() &&
           *node.Attr<DataType>("T") == *result.Attr<DataType>("T") &&
           SeemEqual(node.output_info(0).shape, result.output_info(0).shape);
  }

  // `members` in topological order; the last one gives the result.
  absl::Status Fuse(const std::vector<Node*>& members) {
    NodeSpec spec;
    spec.op = kFusedOp;
    absl::flat_hash_map<Output, int64_t> number;
    const int group = GroupOf(*members.front());
    const auto is_member = [&](const Output& value) { return GroupOf(*value.node) == group; };
    for (const Node* member : members) {
      for (const Output& input : member->inputs()) {
        if (is_member(input) || !number.emplace(input, spec.inputs.size()).second) continue;
        spec.inputs.push_back(input);
      }
    }
    std::vector<std::string> ops;
    std::vector<int64_t> operands;
    for (Node* member : members) {
      ops.push_back(member->type());
      for (const Output& input : member->inputs()) operands.push_back(number[input]);
      number[member->output(0)] = static_cast<int64_t>(spec.inputs.size() + ops.size() - 1);
    }
    spec.attrs = {{"T", *members.front()->Attr<DataType>("T")},
                  {"N", static_cast<int64_t>(spec.inputs.size())},
                  {"ops", std::move(ops)},
                  {"operands", std::move(operands)}};
    return PutInPlaceOf(members, members.back(), std::move(spec), graph_).status();
  }

  Graph& graph_;
  std::vector<int> group_of_;               // By node id.
  std::vector<std::vector<Node*>> groups_;  // Results first.
};

}  // namespace

absl::Span<const absl::string_view> ElementwiseOps() { return kOps; }

absl::Status FuseElementwise(Graph& graph) { return Fuser(graph).Run(); }

}  // namespace tandem
