// Einsum: sums of products of one or two tensors by the labels of their dimensions
// (einsum_equation.h).
#include <algorithm>
#include <complex>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/linalg/einsum_equation.h"
#include "kernels/linalg/einsum_product.h"

namespace tandem {
namespace {

using einsum::Axes;
using einsum::Axis;
using einsum::Operand;

constexpr char kDots = EinsumEquation::kEllipsis;

absl::Status Shapes(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const EinsumEquation equation,
                          EinsumEquation::Parse(c.Attr<std::string>("equation")));
  std::vector<PartialShape> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, EinsumShape(equation, inputs));
  return c.SetOutput(0, std::move(output));
}

// The axes of a dense tensor with these labels. An axis of size 1 is left out: it moves nowhere,
// and against a larger one of the other input it broadcasts, which is what a missing axis does. One
// label twice is one axis, along the diagonal. Dimensions of an ellipsis are numbered from the
// last, -1, on, as they broadcast.
Axes AxesOf(const std::string& labels, const Shape& shape) {
  const int dots = shape.rank() - static_cast<int>(labels.size()) + 1;  // With an ellipsis.
  std::vector<int> expanded;
  for (const char label : labels) {
    if (label != kDots) {
      expanded.push_back(label);
      continue;
    }
    for (int i = dots; i > 0; --i) expanded.push_back(-i);
  }
  Axes axes;
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const int label = expanded[static_cast<size_t>(d)];
    const int64_t size = shape.dim(d);
    if (size != 1) {
      const auto same = std::find_if(axes.begin(), axes.end(),
                                     [label](const Axis& axis) { return axis.label == label; });
      if (same != axes.end()) {
        same->stride += stride;
      } else {
        axes.push_back({label, size, stride});
      }
    }
    stride *= size;
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

// Whether each element has a place of its own and all are reached.
bool IsDense(const std::string& labels) {
  for (const char label : labels) {
    if (std::count(labels.begin(), labels.end(), label) > 1) return false;
  }
  return true;
}

bool SameAxes(const Axes& a, const Axes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Axis& x, const Axis& y) {
    return x.label == y.label && x.size == y.size && x.stride == y.stride;
  });
}

template <typename T>
class EinsumKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(equation_, EinsumEquation::Parse(init.Attr<std::string>("equation")));
    if (equation_.inputs.size() != static_cast<size_t>(init.num_inputs())) {
      return errors::InvalidArgument("the equation '", init.Attr<std::string>("equation"),
                                     "' is for ", equation_.inputs.size(), " inputs, not ",
                                     init.num_inputs());
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    std::vector<PartialShape> shapes;
    bool has_elements = true;
    for (int i = 0; i < c.num_inputs(); ++i) {
      shapes.push_back(c.input(i).shape());
      has_elements = has_elements && c.input(i).num_elements() > 0;
    }
    TANDEM_ASSIGN_OR_RETURN(const PartialShape partial, EinsumShape(equation_, shapes));
    TANDEM_ASSIGN_OR_RETURN(Shape shape, partial.ToShape());
    Operand output;
    output.axes = AxesOf(equation_.output, shape);
    if (c.num_inputs() == 1 && has_elements && IsDense(equation_.output) &&
        IsDense(equation_.inputs[0]) &&
        SameAxes(output.axes, AxesOf(equation_.inputs[0], c.input(0).shape()))) {
      TANDEM_ASSIGN_OR_RETURN(Tensor same, c.TakeInput(0).Reshaped(std::move(shape)));
      c.SetOutput(0, std::move(same));
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const result, c.AllocateOutput(0, std::move(shape)));
    if (result->num_elements() == 0) return absl::OkStatus();
    output.tensor = *result;
    if (!has_elements || !IsDense(equation_.output)) {
      const absl::Span<T> all = output.tensor.MutableElements<T>();
      std::fill(all.begin(), all.end(), T(0));
    }
    // A sum of nothing.
    if (!has_elements) return absl::OkStatus();
    std::vector<Operand> inputs;
    for (int i = 0; i < c.num_inputs(); ++i) {
      const std::string& labels = equation_.inputs[static_cast<size_t>(i)];
      inputs.push_back({c.input(i), AxesOf(labels, c.input(i).shape())});
    }
    if (inputs.size() == 1) return einsum::SumInto<T>(c, inputs[0], output);
    return einsum::MultiplyInto<T>(c, inputs[0], inputs[1], output);
  }

 private:
  EinsumEquation equation_;
};

// --- Gradient ------------------------------------------------------------------------------------

std::string WithoutRepeats(const std::string& labels) {
  std::string once;
  for (const char label : labels) {
    if (once.find(label) == std::string::npos) once.push_back(label);
  }
  return once;
}

// Elements [begin, end) of a vector, counted from its end where negative; an `end` of 0 is the end.
Output Part(GradientContext& g, Output vector, int begin, int end) {
  const auto index = [&](int i) { return g.Constant(Tensor::Vector<int32_t>({i})); };
  return g.Call("StridedSlice", {vector, index(begin), index(end), index(1)},
                {{"end_mask", end == 0 ? 1 : 0}});
}

Output Joined(GradientContext& g, const std::vector<Output>& vectors) {
  if (vectors.size() == 1) return vectors[0];
  std::vector<Output> inputs = vectors;
  inputs.push_back(g.Scalar(kInt32, 0));
  return g.Call("ConcatV2", std::move(inputs));
}

// The sizes in `shape` of the dimensions with the given labels (no ellipsis among them).
Output SizesOf(GradientContext& g, Output shape, const std::string& labels,
               const std::string& wanted) {
  const size_t dots = std::min(labels.find(kDots), labels.size());
  std::vector<Output> sizes;
  for (const char label : wanted) {
    const size_t at = labels.find(label);
    const int dim =
        at < dots ? static_cast<int>(at) : static_cast<int>(at) - static_cast<int>(labels.size());
    sizes.push_back(Part(g, shape, dim, dim == -1 ? 0 : dim + 1));
  }
  return Joined(g, sizes);
}

// The gradient of input `i` is the product of the output's gradient and the other input, by the
// same labels with input and output exchanged. Three things are left to do then: what the ellipsis
// broadcast is summed up, labels that were summed over get their dimension back, and labels that
// the input has twice put the gradient on the diagonal.
absl::Status InputGradient(GradientContext& g, const EinsumEquation& equation, int i) {
  const std::string& mine = equation.inputs[static_cast<size_t>(i)];
  const bool has_other = equation.inputs.size() == 2;
  const std::string other = has_other ? equation.inputs[static_cast<size_t>(1 - i)] : "";
  const std::string around = equation.output + other;

  // The labels that the product brings, the ellipsis in front; and those that it cannot.
  std::string kept, summed;
  for (const char label : WithoutRepeats(mine)) {
    if (label == kDots) continue;
    (around.find(label) == std::string::npos ? summed : kept).push_back(label);
  }
  const bool dots = HasEllipsis(equation.output);
  std::string labels = dots ? kDots + kept : kept;

  const Output x = g.input(i);
  Output gradient = g.OutputGradient(0);
  const auto call = [&](std::vector<Output> inputs, const std::string& from,
                        const std::string& to) {
    return g.Call("Einsum", std::move(inputs), {{"equation", EinsumText(from + "->" + to)}});
  };
  if (has_other) {
    gradient = call({gradient, g.Conjugate(g.input(1 - i))}, equation.output + "," + other, labels);
  } else if (labels != equation.output) {
    gradient = call({gradient}, equation.output, labels);
  }
  const Output shape = g.Call("Shape", {x});
  if (dots && has_other) {
    const int named = static_cast<int>(kept.size());
    const Output whole = g.Call("Shape", {gradient});
    Output part = g.Constant(Tensor(kInt32, Shape({0})));
    if (HasEllipsis(mine)) {
      const auto before = static_cast<int>(mine.find(kDots));
      part = Part(g, shape, before, before + 1 - static_cast<int>(mine.size()));
    }
    const Output axes = g.Call("BroadcastGradientArgs", {part, Part(g, whole, 0, -named)});
    Output to = part;
    if (named > 0) to = Joined(g, {part, Part(g, whole, -named, 0)});
    gradient = g.Call("Reshape", {g.Call("Sum", {gradient, axes}), to});
    if (!HasEllipsis(mine)) labels = kept;
  }
  if (!summed.empty()) {
    const Output ones =
        g.Call("Fill", {SizesOf(g, shape, mine, summed), g.Scalar(RemoveReference(x.dtype()), 1)});
    gradient = call({gradient, ones}, labels + "," + summed, mine);
  } else if (labels != mine) {
    gradient = call({gradient}, labels, mine);
  }
  g.SetInputGradient(i, gradient);
  return absl::OkStatus();
}

absl::Status EinsumGradient(GradientContext& g) {
  TANDEM_ASSIGN_OR_RETURN(const EinsumEquation equation,
                          EinsumEquation::Parse(g.Attr<std::string>("equation")));
  for (int i = 0; i < g.num_inputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(InputGradient(g, equation, i));
  }
  return absl::OkStatus();
}

TANDEM_OP("Einsum")
    .Inputs("inputs:N*T")
    .Outputs("output:T")
    .Attrs("equation:string; N:int>=1; T:type")
    .Shape(Shapes)
    .Gradient(EinsumGradient)
    .Cpu(ByType<EinsumKernel, float, double, Float16, Bfloat16, int32_t, int64_t,
                std::complex<float>, std::complex<double>>("T"));

}  // namespace
}  // namespace tandem
