// An op of one's own: signature, shape function, gradient and kernel in one place, used in a graph
// and differentiated.
#include <cstdio>
#include <vector>

#include "core/kernel/factories.h"
#include "tandem.h"

namespace {

using tandem::GradientContext;
using tandem::Kernel;
using tandem::KernelContext;
using tandem::Output;
using tandem::Tensor;

// ExampleCube: y = x³, elementwise. Its gradient is 3x² dy.
absl::Status CubeGradient(GradientContext& g) {
  const Output square = g.Call("Square", {g.input(0)});
  const Output slope = g.Call("Mul", {square, g.Scalar(g.input(0).dtype(), 3)});
  g.SetInputGradient(0, g.Call("Mul", {slope, g.OutputGradient(0)}));
  return absl::OkStatus();
}

template <typename T>
class CubeKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, x.shape()));
    const auto in = x.Elements<T>();
    const auto out = y->MutableElements<T>();
    for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] * in[i] * in[i];
    return absl::OkStatus();
  }
};

TANDEM_OP("ExampleCube")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type{float32,float64}")
    .Shape(tandem::UnchangedShape)
    .Gradient(CubeGradient)
    .Cpu(tandem::ByType<CubeKernel, float, double>("T"));

absl::Status Run() {
  tandem::Scope root = tandem::Scope::NewRoot();
  const Output x = root.WithOpName("x").Call(
      "Placeholder", {}, {{"dtype", tandem::kFloat64}, {"shape", tandem::PartialShape({-1})}});
  const Output y = root.WithOpName("y").Call("ExampleCube", {x});
  TANDEM_RETURN_IF_ERROR(root.status());
  TANDEM_ASSIGN_OR_RETURN(const std::vector<tandem::Gradient> gradients,
                          tandem::AddGradients(root.graph(), {y}, {x}));
  TANDEM_ASSIGN_OR_RETURN(const auto session, tandem::Session::Create(*root.graph()));
  TANDEM_ASSIGN_OR_RETURN(
      const std::vector<Tensor> fetched,
      session->Run({{"x", Tensor::Vector<double>({1, 2, -3})}}, {"y", gradients[0].values.name()}));
  std::printf("x³  %s\n3x² %s\n", fetched[0].DebugString().c_str(),
              fetched[1].DebugString().c_str());
  return absl::OkStatus();
}

}  // namespace

int main() { return tandem::Exit(Run()); }
