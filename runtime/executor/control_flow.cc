#include "runtime/executor/control_flow.h"

namespace tandem {

FrameLayout::Role RoleOf(const Node& node) {
  using Role = FrameLayout::Role;
  if (node.Is("Merge") || node.Is("RefMerge")) return Role::kMerge;
  if (node.Is("Switch") || node.Is("RefSwitch") || node.Is("_SwitchN")) return Role::kSwitch;
  if (IsEnter(node)) return IsConstantEnter(node) ? Role::kConstantEnter : Role::kEnter;
  if (IsExit(node)) return Role::kExit;
  if (IsNextIteration(node)) return Role::kNextIteration;
  if (node.Is("LoopCond")) return Role::kLoopCond;
  if (node.Is("ControlTrigger")) return Role::kControlTrigger;
  if (node.Is("_Send") || node.Is("_HostSend")) return Role::kSend;
  return Role::kNormal;
}

bool NeedsFrames(const Node& node) {
  using Role = FrameLayout::Role;
  const Role role = RoleOf(node);
  // A ControlTrigger and a send make nothing dead themselves; what is received may be dead.
  if (node.Is("_Recv") || node.Is("_HostRecv")) {
    const bool* const alive = node.Attr<bool>("_alive");  // See core/passes/partition.h.
    return alive == nullptr || !*alive;
  }
  return role != Role::kNormal && role != Role::kControlTrigger && role != Role::kSend;
}

}  // namespace tandem
