#include "runtime/session/step_stats.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "core/tensor/tensor_proto.h"

namespace tandem {
namespace {

// Events carry the monotonic clock, which begins anywhere: how far since 1970 is ahead of it.
int64_t ClockOffset() { return absl::ToUnixNanos(absl::Now()) - MonotonicNanoseconds(); }

void FillOutputs(const std::vector<StepTracer::Value>& outputs, tensorflow::NodeExecStats* node) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == DataType::kInvalid) continue;
    tensorflow::NodeOutput* const output = node->add_output();
    output->set_slot(static_cast<int32_t>(i));
    tensorflow::TensorDescription* const tensor = output->mutable_tensor_description();
    tensor->set_dtype(static_cast<tensorflow::DataType>(outputs[i].dtype));
    ShapeToProto(outputs[i].shape, tensor->mutable_shape());
  }
}

std::vector<StepTracer::Value> ValuesOf(const tensorflow::NodeExecStats& node) {
  constexpr int kMostOutputs = 1 << 16;
  std::vector<StepTracer::Value> values;
  for (const tensorflow::NodeOutput& output : node.output()) {
    if (output.slot() < 0 || output.slot() >= kMostOutputs) continue;
    const auto slot = static_cast<size_t>(output.slot());
    const absl::StatusOr<Shape> shape = ShapeFromProto(output.tensor_description().shape());
    if (!shape.ok()) continue;
    if (values.size() <= slot) values.resize(slot + 1);
    values[slot] = {static_cast<DataType>(output.tensor_description().dtype()), *shape};
  }
  return values;
}

// Of "node = Op(inputs)"; any other label as it is.
std::string OpOfLabel(absl::string_view label) {
  constexpr absl::string_view kEquals = " = ";
  const size_t equals = label.find(kEquals);
  if (equals == absl::string_view::npos) return std::string(label);
  label.remove_prefix(equals + kEquals.size());
  return std::string(label.substr(0, label.find('(')));
}

}  // namespace

void FillStepStats(const std::vector<StepTracer::Event>& events, tensorflow::StepStats* stats) {
  const int64_t offset = ClockOffset();
  std::map<std::string, std::vector<const StepTracer::Event*>> by_device;
  for (const StepTracer::Event& event : events) by_device[event.device].push_back(&event);
  for (const auto& [device, list] : by_device) {
    tensorflow::DeviceStepStats* const device_stats = stats->add_dev_stats();
    device_stats->set_device(device);
    for (const StepTracer::Event* event : list) {
      tensorflow::NodeExecStats* const node = device_stats->add_node_stats();
      const int64_t start = event->start_nanoseconds + offset;
      const int64_t took = event->end_nanoseconds - event->start_nanoseconds;
      node->set_node_name(event->node);
      node->set_timeline_label(absl::StrCat(event->node, " = ", event->op, "()"));
      node->set_all_start_micros(start / 1000);
      node->set_op_start_rel_micros(0);
      node->set_op_end_rel_micros(took / 1000);
      node->set_all_end_rel_micros(took / 1000);
      node->set_scheduled_micros(start / 1000);
      node->set_all_start_nanos(start);
      node->set_op_end_rel_nanos(took);
      node->set_all_end_rel_nanos(took);
      node->set_scheduled_nanos(start);
      const auto thread = static_cast<uint32_t>(event->thread);
      node->set_thread_id(thread);
      (*device_stats->mutable_thread_names())[thread] = event->thread_name;
      FillOutputs(event->outputs, node);
    }
  }
}

void AppendEvents(const tensorflow::StepStats& stats, std::vector<StepTracer::Event>* events) {
  const int64_t offset = ClockOffset();
  for (const tensorflow::DeviceStepStats& device : stats.dev_stats()) {
    for (const tensorflow::NodeExecStats& node : device.node_stats()) {
      StepTracer::Event event;
      event.node = node.node_name();
      event.op = OpOfLabel(node.timeline_label());
      event.device = device.device();
      const int64_t start =
          node.all_start_nanos() != 0 ? node.all_start_nanos() : node.all_start_micros() * 1000;
      const int64_t took = node.all_end_rel_nanos() != 0 ? node.all_end_rel_nanos()
                                                         : node.all_end_rel_micros() * 1000;
      event.start_nanoseconds = start - offset;
      event.end_nanoseconds = event.start_nanoseconds + took;
      event.thread = node.thread_id();
      const auto name = device.thread_names().find(node.thread_id());
      if (name != device.thread_names().end()) event.thread_name = name->second;
      event.outputs = ValuesOf(node);
      events->push_back(std::move(event));
    }
  }
}

}  // namespace tandem
