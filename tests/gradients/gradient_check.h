// The comparison of a case's gradients with numeric differentiation.
#ifndef TANDEM_TESTS_GRADIENTS_GRADIENT_CHECK_H_
#define TANDEM_TESTS_GRADIENTS_GRADIENT_CHECK_H_

#include "absl/status/status.h"
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

// How much of its inputs the graph knows when gradients are added: gradient functions take other
// ways when they know shapes and values.
enum class Knowledge {
  kNothing,  // All inputs are placeholders of unknown shape.
  kShapes,   // Inputs with gradients have their shape, the others are constants.
};

enum class Order {
  kFirst,
  kSecond,  // The gradients are what is differentiated; those that are sparse are left out.
};

// Adds gradients of Σ Re(conj(wᵢ) yᵢ), for weights wᵢ that differ, with respect to all floating and
// complex inputs, and compares each with central differences. The gradient of a complex z = a + bi
// is ∂/∂a + i ∂/∂b. Inputs of other types have no gradient, and are not asked for it.
//
// A status says what is wrong: the graph, a run, or which element of which gradient differs.
absl::Status CheckGradients(const GradientCase& c, Knowledge knowledge,
                            Order order = Order::kFirst);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_GRADIENTS_GRADIENT_CHECK_H_
