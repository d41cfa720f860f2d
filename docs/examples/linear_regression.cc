// Linear regression on raw ops: a graph, its gradients, and a training loop by hand.
//
// Finds w and b of y = 3x - 2 from samples, by gradient descent.
#include <cstdio>
#include <vector>

#include "tandem.h"

namespace {

absl::Status Run() {
  using tandem::Output;
  using tandem::Tensor;

  tandem::Scope root = tandem::Scope::NewRoot();
  const Output x = root.WithOpName("x").Call(
      "Placeholder", {}, {{"dtype", tandem::kFloat32}, {"shape", tandem::PartialShape({-1})}});
  const Output y = root.WithOpName("y").Call(
      "Placeholder", {}, {{"dtype", tandem::kFloat32}, {"shape", tandem::PartialShape({-1})}});

  // Variables are handles; reading one gives its value.
  const auto variable = [&](const char* name) {
    return root.WithOpName(name).Call(
        "VarHandleOp", {}, {{"dtype", tandem::kFloat32}, {"shape", tandem::PartialShape({})}});
  };
  const Output w = variable("w");
  const Output b = variable("b");
  const auto read = [&](Output handle) {
    return root.Call("ReadVariableOp", {handle}, {{"dtype", tandem::kFloat32}});
  };
  tandem::Node* const initialize =
      root.WithOpName("initialize")
          .WithControlDependencies({root.AddNode("AssignVariableOp", {w, 0.0f}),
                                    root.AddNode("AssignVariableOp", {b, 0.0f})})
          .AddNode("NoOp", {});

  const Output w_value = root.WithOpName("w_value").Call("Identity", {read(w)});
  const Output b_value = root.WithOpName("b_value").Call("Identity", {read(b)});
  const Output predicted = root.Call("AddV2", {root.Call("Mul", {x, w_value}), b_value});
  const Output loss =
      root.WithOpName("loss").Call("Mean", {root.Call("SquaredDifference", {predicted, y}), 0});
  TANDEM_RETURN_IF_ERROR(root.status());

  TANDEM_ASSIGN_OR_RETURN(const std::vector<tandem::Gradient> gradients,
                          tandem::AddGradients(root.graph(), {loss}, {w_value, b_value}));
  tandem::Node* const train =
      root.WithOpName("train")
          .WithControlDependencies(
              {root.AddNode("ResourceApplyGradientDescent", {w, 0.1f, gradients[0].values}),
               root.AddNode("ResourceApplyGradientDescent", {b, 0.1f, gradients[1].values})})
          .AddNode("NoOp", {});
  TANDEM_RETURN_IF_ERROR(root.status());

  TANDEM_ASSIGN_OR_RETURN(const auto session, tandem::Session::Create(*root.graph()));
  TANDEM_RETURN_IF_ERROR(session->Run({}, {}, {initialize->name()}).status());
  const Tensor xs = Tensor::Vector<float>({-2, -1, 0, 1, 2});
  const Tensor ys = Tensor::Vector<float>({-8, -5, -2, 1, 4});
  for (int step = 0; step < 200; ++step) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                            session->Run({{"x", xs}, {"y", ys}}, {"loss"}, {train->name()}));
    if (step % 50 == 0) std::printf("step %3d  loss %.6f\n", step, fetched[0].ScalarValue<float>());
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> learned,
                          session->Run({}, {"w_value", "b_value"}));
  std::printf("y = %.3f x + %.3f\n", learned[0].ScalarValue<float>(),
              learned[1].ScalarValue<float>());
  return absl::OkStatus();
}

}  // namespace

int main() { return tandem::Exit(Run()); }
