#include "strategies/parameter_server/combination.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "strategies/parameter_server/parameter_builder.h"

namespace tandem::parameter_server {
namespace {

constexpr const char* kReads[] = {"ReadVariableOp", "ResourceGather", "VarIsInitializedOp",
                                  "VariableShape"};
constexpr const char* kScatters[] = {"ResourceScatterAdd", "ResourceScatterSub"};
constexpr const char* kAdditions[] = {"AssignAddVariableOp", "AssignSubVariableOp"};

bool IsDenseApply(const Node& node) {
  return absl::StartsWith(node.type(), "ResourceApply") || node.Is("_TandemApplyAdamW");
}

bool IsSparseApply(const Node& node) {
  return absl::StartsWith(node.type(), "ResourceSparseApply");
}

bool IsAnyOf(const Node& node, absl::Span<const char* const> ops) {
  return absl::c_any_of(ops, [&](const char* op) { return node.Is(op); });
}

bool IsScalar(const Output& value) { return value.shape().has_rank() && value.shape().rank() == 0; }

// REQUIRES: IsUpdate(node). None of these ops has a list among its arguments.
absl::StatusOr<Combination> OfUpdate(const Node& node, int input) {
  const std::string& name = node.op().inputs[static_cast<size_t>(input)].name;
  if (IsAnyOf(node, kAdditions)) return SUM;
  if (IsAnyOf(node, kScatters)) return CONCAT;
  if (IsDenseApply(node)) return name == "grad" || name == "delta" ? SUM : FIRST;
  if (IsSparseApply(node)) return name == "grad" || name == "indices" ? CONCAT : FIRST;
  const auto* said = node.Attr<std::string>(kCombinationAttr);
  if (said == nullptr) return MEAN;
  Combination combination = MEAN;
  if (Combination_Parse(*said, &combination)) return combination;
  return errors::InvalidArgument("node '", node.name(), "': the attribute ", kCombinationAttr,
                                 " is '", *said, "', which is no combination of values");
}

// What the way through one node means. None: as what the node gives out.
absl::StatusOr<absl::optional<Combination>> OnTheWay(const Node& node, int input) {
  using Result = absl::optional<Combination>;
  if (node.Is("_TandemSumDuplicates")) return Result(CONCAT);
  if (node.Is("UnsortedSegmentSum")) return Result(input < 2 ? CONCAT : FIRST);
  if (node.Is("Identity") || node.Is("Cast") || node.Is("Neg") || node.Is("AddV2") ||
      node.Is("Sub")) {
    return Result();
  }
  if (node.Is("Mul") || node.Is("RealDiv")) {
    const bool divides = node.Is("RealDiv") && input == 1;
    const bool scales = IsScalar(node.input(input)) && !IsScalar(node.input(1 - input));
    return divides || scales ? Result(FIRST) : Result();
  }
  if (node.Is("Reshape")) return input == 0 ? Result() : Result(FIRST);
  return errors::InvalidArgument(
      "node '", node.name(), "' (", node.type(),
      ") is computed by a parameter server from what workers push, and it is not known what the "
      "values of several workers become for its input ",
      input, "; compute it on the worker");
}

}  // namespace

bool IsRead(const Node& node) { return IsAnyOf(node, kReads); }

bool IsUpdate(const Node& node) {
  return node.num_outputs() == 0 &&
         (IsDenseApply(node) || IsSparseApply(node) || IsAnyOf(node, kScatters) ||
          IsAnyOf(node, kAdditions) || node.Is("AssignVariableOp"));
}

absl::StatusOr<Combination> CombinationFor(const Output& value,
                                           absl::FunctionRef<bool(const Node&)> is_taken) {
  absl::optional<Combination> result;
  const Node* decided_by = nullptr;
  for (const Consumer& consumer : value.node->consumers()) {
    if (consumer.input == Consumer::kControl || consumer.output != value.index) continue;
    const Node& node = *consumer.node;
    if (!is_taken(node)) continue;
    absl::optional<Combination> wanted;
    if (IsUpdate(node)) {
      TANDEM_ASSIGN_OR_RETURN(wanted, OfUpdate(node, consumer.input));
    } else {
      TANDEM_ASSIGN_OR_RETURN(wanted, OnTheWay(node, consumer.input));
      if (!wanted.has_value()) {
        TANDEM_ASSIGN_OR_RETURN(wanted, CombinationFor(consumer.node->output(0), is_taken));
      }
    }
    if (!result.has_value()) {
      result = wanted;
      decided_by = &node;
    } else if (*result != *wanted) {
      return errors::InvalidArgument("the values of several workers for '", value.name(),
                                     "' would become two things: ", Combination_Name(*result),
                                     " for node '", decided_by->name(), "' and ",
                                     Combination_Name(*wanted), " for node '", node.name(), "'");
    }
  }
  // Nobody looks at it: any of them will do.
  return result.value_or(FIRST);
}

}  // namespace tandem::parameter_server
