// Initializers: what variables begin with.
//
//   nn::Dense({.units = 10, .kernel_initializer = "he_normal"})
//   nn::Dense({.units = 10, .bias_initializer = nn::initializer::Constant(0.1)})
//
// By name, as in Keras: zeros, ones; glorot_uniform, glorot_normal (Glorot and Bengio 2010),
// he_uniform, he_normal (He and others 2015), lecun_uniform, lecun_normal; random_normal and
// truncated_normal (deviation 0.05), random_uniform (in ±0.05), orthogonal.
//
// Random ones depend on the model's seed and the variable's name alone: they are the same in every
// process and for every number of replicas.
#ifndef TANDEM_STRATEGIES_NN_INITIALIZER_H_
#define TANDEM_STRATEGIES_NN_INITIALIZER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/scope.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tandem::nn {

// How many values go into, and come out of, each sum that a variable weighs.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
};
// As Keras counts: a matrix is [in, out]; the kernel of a convolution [..., in, out], with all of
// its window; a vector has its size as both.
Fans FansOf(const Shape& shape);

// What VariableSpec::initializer wants.
using InitialValue = std::function<Output(const Scope& scope)>;

class Initializer {
 public:
  // Makes the initial value of a float32 variable, or says what is wrong with itself.
  using Function = std::function<absl::StatusOr<InitialValue>(const Shape& shape, const Fans& fans,
                                                              int64_t seed)>;

  // The one of that name. One that does not exist is an error when it is used.
  Initializer(const char* name) : name_(name) {}             // NOLINT: a name stands for it.
  Initializer(std::string name) : name_(std::move(name)) {}  // NOLINT
  explicit Initializer(Function function) : function_(std::move(function)) {}

  // InvalidArgument: there is none of that name, or its arguments are wrong.
  absl::StatusOr<InitialValue> For(const Shape& shape, const Fans& fans, int64_t seed) const;

 private:
  std::string name_;
  Function function_;
};

namespace initializer {

Initializer Constant(float value);
Initializer RandomUniform(float low, float high);
Initializer RandomNormal(float mean, float deviation);
// Values that are more than two deviations away are drawn again.
Initializer TruncatedNormal(float mean, float deviation);
// These values. The variable must have their shape.
Initializer Values(Tensor values);

}  // namespace initializer

// Zeros of any type, for variables that are no layer's.
InitialValue Zeros(DataType dtype, Shape shape);

// A seed for what is called `name`, from a model's seed: the same in every process.
int64_t SeedFor(int64_t seed, absl::string_view name);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_INITIALIZER_H_
