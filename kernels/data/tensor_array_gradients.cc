#include "kernels/data/tensor_array_gradients.h"

#include <string>
#include <vector>

namespace tandem::data {
namespace {

// The array of the gradients of input 0, and its flow; empty after an error.
std::vector<Output> Gradients(GradientContext& g, const Output& flow) {
  std::vector<Output> array =
      g.CallMulti("TensorArrayGradV3", {g.input(0), flow}, {{"source", std::string("gradients")}});
  if (array.size() != 2) array.clear();
  return array;
}

DataType ValueType(GradientContext& g) { return g.Attr<DataType>("T"); }

}  // namespace

absl::Status ArrayWriteGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output flow = g.OutputGradient(0);
  const std::vector<Output> array = Gradients(g, flow);
  if (array.empty()) return absl::OkStatus();
  g.SetInputGradient(
      2, g.Call("TensorArrayReadV3", {array[0], g.input(1), array[1]}, {{"dtype", ValueType(g)}}));
  g.SetInputGradient(3, flow);
  return absl::OkStatus();
}

absl::Status ArrayReadGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const std::vector<Output> array = Gradients(g, g.input(2));
  if (array.empty()) return absl::OkStatus();
  g.SetInputGradient(
      2, g.Call("TensorArrayWriteV3", {array[0], g.input(1), g.OutputGradient(0), array[1]}));
  return absl::OkStatus();
}

absl::Status ArrayGatherGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const std::vector<Output> array = Gradients(g, g.input(2));
  if (array.empty()) return absl::OkStatus();
  g.SetInputGradient(
      2, g.Call("TensorArrayScatterV3", {array[0], g.input(1), g.OutputGradient(0), array[1]}));
  return absl::OkStatus();
}

absl::Status ArrayScatterGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output flow = g.OutputGradient(0);
  const std::vector<Output> array = Gradients(g, flow);
  if (array.empty()) return absl::OkStatus();
  g.SetInputGradient(2, g.Call("TensorArrayGatherV3", {array[0], g.input(1), array[1]},
                               {{"dtype", ValueType(g)}}));
  g.SetInputGradient(3, flow);
  return absl::OkStatus();
}

absl::Status ArrayConcatGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const std::vector<Output> array = Gradients(g, g.input(1));
  if (array.empty()) return absl::OkStatus();
  g.SetInputGradient(
      1, g.Call("TensorArraySplitV3", {array[0], g.OutputGradient(0), g.output(1), array[1]}));
  return absl::OkStatus();
}

absl::Status ArraySplitGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output flow = g.OutputGradient(0);
  const std::vector<Output> array = Gradients(g, flow);
  if (array.empty()) return absl::OkStatus();
  const std::vector<Output> whole =
      g.CallMulti("TensorArrayConcatV3", {array[0], array[1]}, {{"dtype", ValueType(g)}});
  if (whole.size() != 2) return absl::OkStatus();
  g.SetInputGradient(1, whole[0]);
  g.SetInputGradient(3, flow);
  return absl::OkStatus();
}

}  // namespace tandem::data
