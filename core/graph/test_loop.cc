#include "core/graph/test_loop.h"

#include <utility>

namespace tandem::testing {

std::vector<Output> AddLoop(
    const Scope& scope, const std::string& frame, const std::vector<Output>& start,
    const std::function<Output(const std::vector<Output>&)>& condition,
    const std::function<std::vector<Output>(const std::vector<Output>&)>& body,
    int parallel_iterations) {
  const Scope s = scope.WithoutControlDependencies();
  std::vector<Output> values;
  for (const Output& value : start) {
    const Output enter = scope.Call(
        "Enter", {value}, {{"frame_name", frame}, {"parallel_iterations", parallel_iterations}});
    if (!s.ok()) return {};
    NodeSpec merge;
    merge.name = s.graph()->UniqueName(s.NodeName("Merge"));
    merge.op = "Merge";
    merge.inputs = {enter};
    merge.attrs = {{"N", 2}, {"T", enter.dtype()}};
    merge.device = s.device();
    merge.first_missing_input = 1;
    const absl::StatusOr<Node*> node = s.graph()->AddNode(std::move(merge));
    s.UpdateStatus(node.status());
    if (!s.ok()) return {};
    values.push_back((*node)->output(0));
  }
  const Output goes_on = s.Call("LoopCond", {condition(values)});
  std::vector<Output> inside;
  std::vector<Output> outside;
  for (const Output& value : values) {
    const std::vector<Output> ways = s.CallMulti("Switch", {value, goes_on});
    if (!s.ok()) return {};
    outside.push_back(s.Call("Exit", {ways[0]}));
    inside.push_back(s.Call("Identity", {ways[1]}));
  }
  const std::vector<Output> next = body(inside);
  for (size_t i = 0; i < values.size() && s.ok(); ++i) {
    const Output back = s.Call("NextIteration", {next[i]});
    if (s.ok()) s.UpdateStatus(s.graph()->SetInput(values[i].node, 1, back));
  }
  return s.ok() ? outside : std::vector<Output>();
}

Output EnterLoop(const Scope& scope, const std::string& frame, const Output& value,
                 int parallel_iterations) {
  return scope.Call(
      "Enter", {value},
      {{"frame_name", frame}, {"is_constant", true}, {"parallel_iterations", parallel_iterations}});
}

}  // namespace tandem::testing
