#include "runtime/rpc/cost_graph.h"

#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/tensor/dtype.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using CostNode = tensorflow::CostGraphDef::Node;

struct Cost {
  int64_t nanoseconds = 0;
  const StepTracer::Event* last = nullptr;
};

// "node:1", "node" or "^node".
void AddInput(absl::string_view input, const absl::flat_hash_map<std::string, int>& ids,
              CostNode* node) {
  const bool is_control = absl::ConsumePrefix(&input, "^");
  int port = 0;
  if (const size_t colon = input.rfind(':');
      colon != absl::string_view::npos && absl::SimpleAtoi(input.substr(colon + 1), &port)) {
    input = input.substr(0, colon);
  }
  const auto source = ids.find(input);
  if (source == ids.end()) return;
  if (is_control) {
    node->add_control_input(source->second);
    return;
  }
  CostNode::InputInfo* const info = node->add_input_info();
  info->set_preceding_node(source->second);
  info->set_preceding_port(port);
}

void AddOutput(const StepTracer::Value& value, CostNode* node) {
  CostNode::OutputInfo* const info = node->add_output_info();
  info->set_alias_input_port(-1);
  if (value.dtype == DataType::kInvalid) return;
  info->set_dtype(static_cast<tensorflow::DataType>(value.dtype));
  info->set_size(value.shape.num_elements() * static_cast<int64_t>(DataTypeSize(value.dtype)));
  for (int i = 0; i < value.shape.rank(); ++i) {
    info->mutable_shape()->add_dim()->set_size(value.shape.dim(i));
  }
}

}  // namespace

void FillCostGraph(const RunMetadata& metadata, tensorflow::CostGraphDef* costs) {
  // Nodes of different tasks may have one name.
  std::map<std::pair<std::string, std::string>, Cost> by_place;
  for (const StepTracer::Event& event : metadata.events) {
    Cost& cost = by_place[{event.device, event.node}];
    cost.nanoseconds += event.end_nanoseconds - event.start_nanoseconds;
    cost.last = &event;
  }
  int next_id = 0;
  for (const auto& graph : metadata.partition_graphs) {
    absl::flat_hash_map<std::string, int> ids;
    for (const tensorflow::NodeDef& def : graph->node()) ids.emplace(def.name(), next_id++);
    for (const tensorflow::NodeDef& def : graph->node()) {
      CostNode* const node = costs->add_node();
      node->set_name(def.name());
      node->set_device(def.device());
      node->set_id(ids[def.name()]);
      node->set_is_final(def.op() == "_Retval" || def.op() == "_Send" || def.op() == "_HostSend");
      for (const std::string& input : def.input()) AddInput(input, ids, node);
      const auto cost = by_place.find({def.device(), def.name()});
      if (cost == by_place.end()) continue;
      node->set_compute_cost(cost->second.nanoseconds / 1000);
      node->set_compute_time(cost->second.nanoseconds / 1000);
      for (const StepTracer::Value& value : cost->second.last->outputs) AddOutput(value, node);
    }
  }
}

}  // namespace tandem
