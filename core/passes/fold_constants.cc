#include "core/passes/fold_constants.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/known_values.h"
#include "core/passes/node_kinds.h"

namespace tandem {
namespace {

// Results up to this size are kept as constants, whatever the inputs.
constexpr size_t kMaxBytes = size_t{1} << 20;

bool IsConstant(const Output& output) { return output.node->Is("Const"); }
const Tensor& ValueOf(const Output& constant) { return *constant.node->Attr<Tensor>("value"); }

bool AsksForShape(const Node& node) {
  return node.Is("Shape") || node.Is("ShapeN") || node.Is("Size") || node.Is("Rank");
}

bool HandsOn(const Node& node) {
  return node.Is("Identity") || node.Is("StopGradient") || node.Is("PreventGradient");
}

// State without an effect on whoever runs after it.
bool IsQuiet(const Node& node) {
  return node.Is("_Arg") || node.Is("VarHandleOp") || node.Is("ReadVariableOp") ||
         node.Is("VariableV2") || node.Is("Variable") || absl::StartsWith(node.type(), "Random") ||
         node.Is("TruncatedNormal");
}

// Whether all elements are `wanted`, with its sign.
template <typename T>
bool AllAre(const Tensor& tensor, T wanted) {
  return absl::c_all_of(tensor.Elements<T>(), [&](T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return value == wanted && std::signbit(value) == std::signbit(wanted);
    } else {
      return value == wanted;
    }
  });
}

bool AllAre(const Tensor& tensor, double wanted) {
  switch (tensor.dtype()) {
    case kFloat32:
      return AllAre<float>(tensor, static_cast<float>(wanted));
    case kFloat64:
      return AllAre<double>(tensor, wanted);
    case kInt32:
      return AllAre<int32_t>(tensor, static_cast<int32_t>(wanted));
    case kInt64:
      return AllAre<int64_t>(tensor, static_cast<int64_t>(wanted));
    default:
      return false;
  }
}

// Whether an elementwise op on `shape` and `constant` gives `shape`.
bool BroadcastsInto(const Shape& constant, const PartialShape& shape) {
  if (constant.rank() == 0) return true;
  if (!shape.has_rank() || shape.rank() < constant.rank()) return false;
  for (int i = 0; i < constant.rank(); ++i) {
    const int64_t size = constant.dim(i);
    if (size != 1 && size != shape.dim(shape.rank() - constant.rank() + i)) return false;
  }
  return true;
}

class Folder {
 public:
  Folder(Evaluator* evaluator, Graph& graph) : evaluator_(evaluator), graph_(graph) {}

  absl::Status Run() {
    if (graph_.registry().Find("Const") == nullptr) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    for (Node* node : order) {
      Learn(*node);
      if (!IsFoldable(*node)) continue;
      if (AsksForShape(*node)) {
        TANDEM_RETURN_IF_ERROR(FoldShape(node));
      } else if (absl::c_all_of(node->inputs(), IsConstant) && node->num_inputs() > 0) {
        TANDEM_RETURN_IF_ERROR(FoldNode(node));
      } else {
        TANDEM_RETURN_IF_ERROR(FoldNeutral(node));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Facts {
    bool in_control_flow = false;  // May be dead, or run once an iteration.
    bool after_effects = false;    // Runs after something that others may see.
  };

  static bool HasDataConsumers(const Node& node) {
    return absl::c_any_of(node.consumers(),
                          [](const Consumer& c) { return c.input != Consumer::kControl; });
  }

  static bool IsFoldable(const Node& node) {
    return !node.Is("Const") && HasDataConsumers(node) &&
           (IsPure(node) || (AsksForShape(node) && node.op().MayBeMerged()));
  }

  void Learn(const Node& node) {
    Facts facts;
    facts.in_control_flow = IsControlFlow(node) || node.Is("_Recv") || node.Is("_HostRecv");
    facts.after_effects = node.op().is_stateful && !IsQuiet(node);
    const auto add = [&](const Node* source) {
      const size_t i = static_cast<size_t>(source->id());
      if (i >= facts_.size()) return;  // The end of a back edge, not seen yet.
      facts.in_control_flow |= facts_[i].in_control_flow;
      facts.after_effects |= facts_[i].after_effects;
    };
    for (const Output& input : node.inputs()) add(input.node);
    for (const Node* control : node.control_inputs()) add(control);
    if (facts_.size() <= static_cast<size_t>(node.id())) {
      facts_.resize(static_cast<size_t>(node.id()) + 1);
    }
    facts_[static_cast<size_t>(node.id())] = facts;
  }

  absl::StatusOr<Node*> AddConstant(const Node& replaced, Tensor value,
                                    std::vector<Node*> control_inputs) {
    NodeSpec spec;
    spec.name = graph_.UniqueName(absl::StrCat(replaced.name(), "/_folded"));
    spec.op = "Const";
    spec.attrs = {{"dtype", value.dtype()}, {"value", std::move(value)}};
    spec.control_inputs = std::move(control_inputs);
    TANDEM_ASSIGN_OR_RETURN(Node * constant, graph_.AddNode(std::move(spec)));
    constant->set_device(replaced.device());
    Learn(*constant);
    return constant;
  }

  // What a constant in place of `node` has to run after: what the node and its inputs, all
  // constants, ran after.
  static std::vector<Node*> ControlInputs(const Node& node) {
    std::vector<Node*> controls;
    const auto add = [&](absl::Span<Node* const> more) {
      for (Node* control : more) {
        if (!absl::c_linear_search(controls, control)) controls.push_back(control);
      }
    };
    add(node.control_inputs());
    for (const Output& input : node.inputs()) {
      if (IsConstant(input)) add(input.node->control_inputs());
    }
    return controls;
  }

  absl::Status FoldShape(Node* node) {
    std::vector<Tensor> values;
    for (int i = 0; i < node->num_outputs(); ++i) {
      const PartialShape& shape = node->input(i).shape();
      // KnownValue also looks through constants, which is not meant here.
      if (node->Is("Rank") ? !shape.has_rank() : !shape.IsFullyDefined()) return absl::OkStatus();
      absl::optional<Tensor> value = KnownValue(node->output(i));
      if (!value || !Fits(shape, *value)) return absl::OkStatus();
      values.push_back(*std::move(value));
    }
    std::vector<Node*> controls = ControlInputs(*node);
    for (const Output& input : node->inputs()) {
      // An Assign may give a variable another shape than it was declared with.
      if (IsReference(input.dtype())) return absl::OkStatus();
      if (IsConstant(input)) continue;  // Its control inputs are there already.
      const Facts& facts = facts_[static_cast<size_t>(input.node->id())];
      if (!facts.in_control_flow && !facts.after_effects) continue;
      // A control edge says nothing of which output of a Switch is dead.
      if (IsControlFlow(*input.node)) return absl::OkStatus();
      if (!absl::c_linear_search(controls, input.node)) controls.push_back(input.node);
    }
    // Who runs after the node by a control edge may mean to run after its inputs.
    return Replace(node, std::move(values), controls, /*move_control_consumers=*/false);
  }

  // The kernel of a shape that is too large for int32 reports it.
  static bool Fits(const PartialShape& shape, const Tensor& value) {
    if (value.dtype() == kInt64) return true;
    if (!shape.IsFullyDefined()) return true;  // Rank.
    int64_t count = 1;
    for (const int64_t size : shape.dims()) {
      if (size > std::numeric_limits<int32_t>::max()) return false;
      count *= size;
      if (count > std::numeric_limits<int32_t>::max()) return false;
    }
    return true;
  }

  absl::Status FoldNode(Node* node) {
    std::vector<Tensor> inputs;
    size_t input_bytes = 0;
    for (const Output& input : node->inputs()) {
      inputs.push_back(ValueOf(input));
      input_bytes += inputs.back().num_bytes();
    }
    if (HandsOn(*node)) {
      return Replace(node, std::move(inputs), ControlInputs(*node),
                     /*move_control_consumers=*/true);
    }
    if (evaluator_ == nullptr) return absl::OkStatus();
    std::vector<DataType> input_types;
    std::vector<DataType> output_types;
    for (int i = 0; i < node->num_inputs(); ++i) input_types.push_back(node->input_dtype(i));
    for (int i = 0; i < node->num_outputs(); ++i) {
      output_types.push_back(node->output_info(i).dtype);
    }
    Evaluator::Request request;
    request.node_name = node->name();
    request.op = &node->op();
    request.attrs = &node->attrs();
    request.input_types = input_types;
    request.output_types = output_types;
    request.device = node->device();
    request.functions = &graph_.functions();
    request.inputs = inputs;
    request.max_bytes = std::max(kMaxBytes, input_bytes);
    absl::StatusOr<std::vector<Tensor>> values = evaluator_->Evaluate(request);
    if (!values.ok()) return absl::OkStatus();  // The run will say so, if it gets there.
    return Replace(node, *std::move(values), ControlInputs(*node),
                   /*move_control_consumers=*/true);
  }

  absl::Status Replace(Node* node, std::vector<Tensor> values, const std::vector<Node*>& controls,
                       bool move_control_consumers) {
    Node* first = nullptr;
    for (size_t i = 0; i < values.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(Node * constant, AddConstant(*node, std::move(values[i]), controls));
      TANDEM_RETURN_IF_ERROR(
          graph_.ReplaceOutput(node->output(static_cast<int>(i)), constant->output(0)));
      if (first == nullptr) first = constant;
    }
    if (move_control_consumers && first != nullptr) graph_.MoveControlConsumers(node, first);
    return absl::OkStatus();
  }

  // x * 1 and its like.
  absl::Status FoldNeutral(Node* node) {
    if (node->num_inputs() != 2 || !node->control_inputs().empty()) return absl::OkStatus();
    for (const int i : {0, 1}) {
      const Output kept = node->input(i);
      const Output constant = node->input(1 - i);
      if (!IsConstant(constant) || !constant.node->control_inputs().empty() ||
          IsReference(kept.dtype()) || kept.node->device() != node->device() ||
          !IsNeutral(*node, /*on_the_right=*/i == 0, ValueOf(constant)) ||
          !BroadcastsInto(ValueOf(constant).shape(), kept.shape())) {
        continue;
      }
      // Control consumers stay with the node, which then stays, too.
      return graph_.ReplaceOutput(node->output(0), kept);
    }
    return absl::OkStatus();
  }

  static bool IsNeutral(const Node& node, bool on_the_right, const Tensor& constant) {
    const bool integer = IsInteger(constant.dtype());
    if (node.Is("Mul")) return AllAre(constant, 1.0);
    if (node.Is("RealDiv") || node.Is("Div")) return on_the_right && AllAre(constant, 1.0);
    if (node.Is("Sub")) return on_the_right && AllAre(constant, 0.0);
    // 0.0 + -0.0 is 0.0: only -0.0 is neutral.
    if (node.Is("Add") || node.Is("AddV2")) return AllAre(constant, integer ? 0.0 : -0.0);
    return false;
  }

  Evaluator* const evaluator_;
  Graph& graph_;
  std::vector<Facts> facts_;  // By node id.
};

}  // namespace

absl::Status FoldConstants(Evaluator* evaluator, Graph& graph) {
  return Folder(evaluator, graph).Run();
}

}  // namespace tandem
