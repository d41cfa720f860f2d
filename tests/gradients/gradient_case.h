// Gradient cases: an op, or a small program around it, with inputs at which the gradients that
// AddGradients builds are compared with numeric differentiation (gradient_check.h). One file of
// cases for each family of ops.
#ifndef TANDEM_TESTS_GRADIENTS_GRADIENT_CASE_H_
#define TANDEM_TESTS_GRADIENTS_GRADIENT_CASE_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"

namespace tandem::testing {

struct GradientCase {
  // Adds what is differentiated to the graph and returns the outputs to sum up. It may replace an
  // input by that with respect to which is differentiated in its place: a variable's handle.
  using Build = std::function<std::vector<Output>(const Scope&, std::vector<Output>& inputs)>;

  std::string op;    // The op that the case is for.
  std::string name;  // Of the case, unique for its op.
  std::vector<Tensor> inputs;
  Build build;

  // Floating inputs that have no gradient although the outputs may depend on them.
  std::vector<int> constants;
  // Inputs whose gradient must be sparse; all others must be dense. Where no shapes and sizes are
  // known, it may be dense.
  std::vector<int> sparse;
  // Nodes to run, with the inputs fed, before the outputs and gradients are.
  std::vector<std::string> first;
  // Of the central differences; and what counts as equal, relative to the larger of 1 and the
  // value. 0: by the narrowest type among the inputs.
  double step = 0;
  double tolerance = 0;

  GradientCase& WithConstants(std::vector<int> inputs_without_gradient) {
    constants = std::move(inputs_without_gradient);
    return *this;
  }
  GradientCase& WithSparse(std::vector<int> inputs_with_rows) {
    sparse = std::move(inputs_with_rows);
    return *this;
  }
  GradientCase& WithFirst(std::vector<std::string> nodes) {
    first = std::move(nodes);
    return *this;
  }
  GradientCase& WithTolerance(double step_size, double equal) {
    step = step_size;
    tolerance = equal;
    return *this;
  }
};

inline std::ostream& operator<<(std::ostream& out, const GradientCase& c) {
  return out << c.op << " " << c.name;
}

class GradientCases {
 public:
  // The op alone; the outputs of floating and complex types count. The reference ends with the next
  // call.
  GradientCase& Op(const std::string& op, const std::string& name, std::vector<Tensor> inputs,
                   AttrMap attrs = {});
  GradientCase& Program(const std::string& op, const std::string& name, std::vector<Tensor> inputs,
                        GradientCase::Build build);

  std::vector<GradientCase> Take() { return std::move(cases_); }

 private:
  std::vector<GradientCase> cases_;
};

// The families.
std::vector<GradientCase> MathCases();
std::vector<GradientCase> ReductionCases();
std::vector<GradientCase> ArrayCases();
std::vector<GradientCase> IndexCases();
std::vector<GradientCase> NnCases();
std::vector<GradientCase> WindowCases();
std::vector<GradientCase> ControlCases();
std::vector<GradientCase> LoopCases();
std::vector<GradientCase> DataCases();
std::vector<GradientCase> EinsumCases();
std::vector<GradientCase> SpecialFunctionCases();
std::vector<GradientCase> ImageCases();
std::vector<GradientCase> VolumeCases();
std::vector<GradientCase> RaggedCases();
std::vector<GradientCase> SpaceCases();
std::vector<GradientCase> TransformCases();

// --- Inputs. All are made of their arguments alone: the same in every run.

// Numbers spread over [low, high]; for complex types, both parts.
Tensor Spread(Shape shape, double low = -1, double high = 1, int seed = 1,
              DataType dtype = kFloat64);
// Numbers of which no two are nearer than 0.1, none nearer to zero than 0.05, in no order: for ops
// that compare.
Tensor Distinct(Shape shape, int seed = 1, DataType dtype = kFloat64);
Tensor Complex(Shape shape, double low = -1, double high = 1, int seed = 1);
// Magnitudes in [low, high] with signs that alternate at random.
Tensor AwayFromZero(Shape shape, double low, double high, int seed = 1, DataType dtype = kFloat64);

inline Tensor Ints(std::initializer_list<int32_t> values) {
  return Tensor::Vector<int32_t>(values);
}
inline Tensor Int(int32_t value) { return Tensor::Scalar<int32_t>(value); }

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_GRADIENTS_GRADIENT_CASE_H_
