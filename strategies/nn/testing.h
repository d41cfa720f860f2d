// For tests of layers: a model under a mirrored strategy with numbers made by formulas, and what
// Keras gives for the same numbers (testdata/make_keras_values.py).
#ifndef TANDEM_STRATEGIES_NN_TESTING_H_
#define TANDEM_STRATEGIES_NN_TESTING_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/session/session.h"
#include "strategies/builder.h"
#include "strategies/nn/layer.h"

namespace tandem::nn {

// Input `number` of a model: waves, and whole numbers in [0, limit).
Tensor FloatInput(int number, Shape shape, float factor = 1);
Tensor IntInput(int number, Shape shape, int limit);
// What a variable of that name holds in tests that compare with Keras.
Tensor VariableValue(const std::string& name, const Shape& shape);
// What weighs output i in the loss of TestModel: cos(i / 2 + 1).
float LossWeight(int64_t i);

// The numbers of testdata/keras_values.txt: by array ("output"), those of a case ("dense").
struct KerasArray {
  Shape shape;
  std::vector<float> values;
};
std::map<std::string, KerasArray> KerasCase(const std::string& name);

// Fails the test unless `actual` has the shape and, to rounding, the values of `expected`.
void ExpectNear(const Tensor& actual, const KerasArray& expected, const std::string& what,
                float tolerance = 2e-5f);
void ExpectNear(const Tensor& actual, const Tensor& expected, const std::string& what,
                float tolerance = 2e-5f);

struct TestModelOptions {
  std::string device = "CPU";  // The type of the replicas' devices.
  int replicas = 1;
  bool training = false;
  bool fused = false;
  int64_t seed = 1;
  bool numbered_steps = true;  // The step has a number.
};

// A step that computes a model, a loss that weighs its outputs, and all gradients.
class TestModel {
 public:
  // A model for inputs like `examples`, whose first sizes may change.
  static absl::StatusOr<std::unique_ptr<TestModel>> Create(LayerPtr model,
                                                           const std::vector<Tensor>& examples,
                                                           TestModelOptions options = {});

  struct Result {
    std::vector<Tensor> outputs;              // Of each replica.
    std::map<std::string, Tensor> gradients;  // Of each trained variable, summed over replicas.
    std::vector<std::vector<Tensor>> input_gradients;  // [replica][input]; only of float ones.
  };
  // Runs a step on [replica][input].
  absl::StatusOr<Result> Run(const std::vector<std::vector<Tensor>>& inputs, int64_t step = 0);

  // Gives every variable its VariableValue.
  absl::Status SetVariables();
  absl::StatusOr<Tensor> Read(const std::string& name, int copy = 0);
  // In order of creation; those that are trained.
  std::vector<std::string> VariableNames() const;
  std::vector<std::string> TrainedNames() const;
  // Whether the gradient of the variable is sparse.
  bool IsSparse(const std::string& name) const;

 private:
  struct Replica {
    std::vector<Output> inputs;
    Output weights;
    Output outputs;
    std::vector<Gradient> gradients;  // Of variables, then of float inputs.
  };

  TestModel() = default;
  absl::Status Build(const Layer& model, const std::vector<Tensor>& examples);

  TestModelOptions options_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::vector<Replica> replicas_;
  std::vector<StrategyVariable*> trained_;
  size_t num_float_inputs_ = 0;
  std::string done_;
  std::unique_ptr<Session> session_;
};

// The error with which the model refuses such inputs. OK: it does not.
absl::Status ErrorOf(LayerPtr model, const std::vector<Tensor>& inputs,
                     TestModelOptions options = {});
// The same where not all sizes are known.
absl::Status ErrorOf(LayerPtr model, DataType dtype, const PartialShape& shape);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_TESTING_H_
