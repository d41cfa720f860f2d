#include "runtime/saved_model/variable_paths.h"

#include <deque>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/meta_graph.pb.h"
#include "runtime/saved_model/graph_part.h"

namespace tandem {
namespace {

// The shortest path to each object, by its number.
std::map<int, std::string> PathsOf(const tensorflow::SavedObjectGraph& objects) {
  std::map<int, std::string> paths;
  if (objects.nodes_size() == 0) return paths;
  paths.emplace(0, "");
  std::deque<int> queue = {0};
  while (!queue.empty()) {
    const int number = queue.front();
    queue.pop_front();
    for (const auto& child : objects.nodes(number).children()) {
      if (child.node_id() < 0 || child.node_id() >= objects.nodes_size()) continue;
      const std::string name = absl::StrReplaceAll(child.local_name(), {{".", ".."}, {"/", ".S"}});
      const std::string& path = paths.at(number);
      if (paths.emplace(child.node_id(), absl::StrCat(path, path.empty() ? "" : "/", name))
              .second) {
        queue.push_back(child.node_id());
      }
    }
  }
  return paths;
}

}  // namespace

std::map<std::string, std::string> VariablePaths(const tensorflow::MetaGraphDef& meta_graph) {
  const tensorflow::SavedObjectGraph& objects = meta_graph.object_graph_def();
  const std::map<int, std::string> paths = PathsOf(objects);
  std::map<std::string, std::string> result;
  for (const tensorflow::NodeDef& node : meta_graph.graph_def().node()) {
    const auto called = node.attr().find("f");
    if (called == node.attr().end()) continue;
    const auto function = objects.concrete_functions().find(called->second.func().name());
    if (function == objects.concrete_functions().end()) continue;
    std::vector<std::string> inputs;
    for (const std::string& input : node.input()) {
      if (!absl::StartsWith(input, "^")) inputs.push_back(input);
    }
    // What is captured comes last.
    const auto& bound = function->second.bound_inputs();
    const size_t count = static_cast<size_t>(bound.size());
    if (count > inputs.size()) continue;
    for (size_t i = 0; i < count; ++i) {
      const int object = bound[static_cast<int>(i)];
      const auto path = paths.find(object);
      if (path == paths.end() || !objects.nodes(object).has_variable()) continue;
      result.emplace(NodeOfInput(inputs[inputs.size() - count + i]), path->second);
    }
  }
  return result;
}

}  // namespace tandem
