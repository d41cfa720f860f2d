// What the Mirrored strategy does, by hand: two devices, a copy of each variable on both, the sum
// of the gradients applied to both copies, so that they stay equal.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tandem.h"

namespace {

using tandem::Output;
using tandem::Tensor;

constexpr int kDevices = 2;
constexpr int64_t kFeatures = 3;

absl::Status Run() {
  // Two virtual devices on one CPU.
  TANDEM_ASSIGN_OR_RETURN(const auto devices, tandem::DeviceSet::Create({{"CPU", kDevices}}));
  const tandem::Scope root = tandem::Scope::NewRoot();
  std::vector<Output> handles;
  std::vector<Output> values;
  std::vector<Output> losses;
  std::vector<Output> gradients;
  std::vector<tandem::Node*> initialized;
  for (int d = 0; d < kDevices; ++d) {
    const std::string suffix = "_" + std::to_string(d);
    const tandem::Scope device = root.WithDevice("/device:CPU:" + std::to_string(d));
    const Output x =
        device.WithOpName("x" + suffix)
            .Call("Placeholder", {},
                  {{"dtype", tandem::kFloat32}, {"shape", tandem::PartialShape({-1, kFeatures})}});
    const Output y =
        device.WithOpName("y" + suffix)
            .Call("Placeholder", {},
                  {{"dtype", tandem::kFloat32}, {"shape", tandem::PartialShape({-1, 1})}});
    handles.push_back(device.WithOpName("w" + suffix)
                          .Call("VarHandleOp", {},
                                {{"dtype", tandem::kFloat32},
                                 {"shape", tandem::PartialShape({kFeatures, 1})},
                                 {"shared_name", "w" + suffix}}));
    initialized.push_back(device.AddNode(
        "AssignVariableOp",
        {handles.back(), Tensor::Zeros(tandem::kFloat32, tandem::Shape({kFeatures, 1}))}));
    values.push_back(device.WithOpName("value" + suffix)
                         .Call("ReadVariableOp", {handles.back()}, {{"dtype", tandem::kFloat32}}));
    // Each device has half of the batch, so that its mean counts half.
    const Output error =
        device.Call("SquaredDifference", {device.Call("MatMul", {x, values.back()}), y});
    losses.push_back(
        device.Call("Mul", {device.Call("Mean", {error, device.Constant({0, 1})}), 0.5f}));
    TANDEM_RETURN_IF_ERROR(root.status());
    TANDEM_ASSIGN_OR_RETURN(const std::vector<tandem::Gradient> mine,
                            tandem::AddGradients(root.graph(), {losses.back()}, {values.back()}));
    gradients.push_back(mine[0].values);
  }

  // The reduction: one sum, which every device applies to its copy, after both have read theirs.
  const Output sum = root.WithDevice("/device:CPU:0").Call("AddN", {gradients[0], gradients[1]});
  std::vector<tandem::Node*> updates;
  for (int d = 0; d < kDevices; ++d) {
    updates.push_back(
        root.WithDevice("/device:CPU:" + std::to_string(d))
            .WithControlDependencies({values[0].node, values[1].node})
            .AddNode("ResourceApplyGradientDescent", {handles[static_cast<size_t>(d)], 0.1f, sum}));
  }
  root.WithOpName("train").WithControlDependencies(updates).AddNode("NoOp", {});
  root.WithOpName("initialize").WithControlDependencies(initialized).AddNode("NoOp", {});
  root.WithOpName("loss").Call("AddN", {losses[0], losses[1]});
  TANDEM_RETURN_IF_ERROR(root.status());

  tandem::SessionOptions options;
  options.devices = devices;
  TANDEM_ASSIGN_OR_RETURN(const auto session, tandem::Session::Create(*root.graph(), options));
  TANDEM_RETURN_IF_ERROR(session->Run({}, {}, {"initialize"}).status());
  // y = 2 x0 - x1 + 0.5 x2
  const Tensor x = Tensor::FromValues<float>(tandem::Shape({4, kFeatures}),
                                             {1, 0, 2, 0, 1, -1, 1, 1, 0, -1, 2, 1});
  const Tensor y = Tensor::FromValues<float>(tandem::Shape({4, 1}), {3, -1.5f, 1, -3.5f});
  for (int step = 0; step <= 300; ++step) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                            session->Run({{"x_0", x.Slice(0, 2)},
                                          {"y_0", y.Slice(0, 2)},
                                          {"x_1", x.Slice(2, 4)},
                                          {"y_1", y.Slice(2, 4)}},
                                         {"loss"}, {"train"}));
    if (step % 100 == 0) {
      std::printf("step %3d  loss %.6f\n", step, fetched[0].ScalarValue<float>());
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> copies,
                          session->Run({}, {"value_0", "value_1"}));
  const auto w = copies[0].Elements<float>();
  const bool equal = std::memcmp(copies[0].data(), copies[1].data(), copies[0].num_bytes()) == 0;
  std::printf("w = %.3f %.3f %.3f, copies are %s\n", w[0], w[1], w[2],
              equal ? "equal" : "different");
  return absl::OkStatus();
}

}  // namespace

int main() { return tandem::Exit(Run()); }
