// TestTraining: trains variables with gradients that a test gives, through a builder and a session.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_TESTING_H_
#define TANDEM_STRATEGIES_OPTIMIZER_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/session/session.h"
#include "strategies/builder.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {

// Tensors of any floating type from and to doubles.
Tensor FromDoubles(DataType dtype, const Shape& shape, const std::vector<double>& values);
std::vector<double> ToDoubles(const Tensor& tensor);

struct TestVariable {
  std::string name;
  Shape shape;
  std::vector<double> initial;
  bool is_sparse = false;  // Its gradients are.
};

struct TestGradient {
  std::vector<double> values;
  std::vector<int64_t> rows = {};  // Of a sparse one.
};

struct TestTrainingOptions {
  DataType dtype = kFloat64;
  // One copy of the variables on each; all get the same gradients.
  std::vector<std::string> devices = {"/device:CPU:0"};
};

class TestTraining {
 public:
  static absl::StatusOr<std::unique_ptr<TestTraining>> Create(
      OptimizerPtr optimizer, const std::vector<TestVariable>& variables,
      const TestTrainingOptions& options = {});

  // Runs the next step: adds to the accumulators or updates, as the optimizer says.
  absl::Status Step(const std::vector<TestGradient>& gradients);
  // The value of a variable or slot.
  absl::StatusOr<std::vector<double>> Read(const std::string& name, int copy = 0);

  // How many nodes of the graph have this op.
  int CountNodes(absl::string_view op) const;
  const Graph& graph() const { return *builder_->graph(); }

 private:
  TestTraining(OptimizerPtr optimizer, std::vector<TestVariable> variables,
               const TestTrainingOptions& options)
      : optimizer_(std::move(optimizer)),
        test_variables_(std::move(variables)),
        options_(options) {}
  absl::Status Build();

  const OptimizerPtr optimizer_;
  const std::vector<TestVariable> test_variables_;
  const TestTrainingOptions options_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::string accumulate_;
  std::string train_;
  int64_t step_ = 0;
  std::unique_ptr<Session> session_;
};

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_TESTING_H_
