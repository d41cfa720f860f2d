#include "runtime/session/step_stats.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/tensor/tensor_proto.h"

namespace tandem {
namespace {

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

}  // namespace

void FillStepStats(const std::vector<StepTracer::Event>& events, tensorflow::StepStats* stats) {
  // Events carry the monotonic clock, which begins anywhere.
  const int64_t offset = absl::ToUnixNanos(absl::Now()) - MonotonicNanoseconds();
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

}  // namespace tandem
