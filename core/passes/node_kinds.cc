#include "core/passes/node_kinds.h"

#include "absl/algorithm/container.h"
#include "core/op/op_def.h"

namespace tandem {
namespace {

// Handles and variants are objects with a life of their own; who shares one may matter.
bool IsPlainType(DataType type) { return type != kResource && type != kVariant; }

bool CallsFunctions(const Node& node) {
  return absl::c_any_of(node.op().attrs, [](const AttrDef& attr) {
    return attr.kind == AttrKind::kFunction || attr.kind == AttrKind::kFunctionList;
  });
}

// Stateless by TensorFlow's book, but what they give is not a matter of their inputs alone.
bool ReadsTheWorld(const Node& node) {
  return node.Is("ReadFile") || node.Is("MatchingFiles") || node.Is("Empty") ||
         node.Is("Placeholder") || node.Is("PlaceholderV2");
}

}  // namespace

bool IsControlFlow(const Node& node) {
  static constexpr const char* kOps[] = {
      "Switch",        "RefSwitch", "_SwitchN", "Merge",         "RefMerge",         "Enter",
      "RefEnter",      "Exit",      "RefExit",  "NextIteration", "RefNextIteration", "LoopCond",
      "ControlTrigger"};
  return absl::c_any_of(kOps, [&](const char* op) { return node.Is(op); });
}

bool IsPure(const Node& node) {
  if (!node.op().MayBeMerged() || IsControlFlow(node) || CallsFunctions(node) ||
      ReadsTheWorld(node)) {
    return false;
  }
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!IsPlainType(node.input_dtype(i))) return false;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!IsPlainType(node.output_info(i).dtype)) return false;
  }
  return true;
}

bool IsFreeConstant(const Node& node) {
  if (!node.control_inputs().empty()) return false;
  if (node.Is("_TandemCopy")) {
    return !*node.Attr<bool>("to_host") && IsFreeConstant(*node.input(0).node);
  }
  return node.Is("Const");
}

}  // namespace tandem
