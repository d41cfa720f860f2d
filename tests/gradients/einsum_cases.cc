// Einsum: every kind of label in either input.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

std::vector<GradientCase> EinsumCases() {
  GradientCases cases;
  struct Case {
    const char* name;
    const char* equation;
    std::vector<Shape> shapes;
  };
  const std::vector<Case> all = {
      {"transposed", "ab->ba", {{2, 3}}},
      {"same", "ab->ab", {{2, 3}}},
      {"summed", "abc->b", {{2, 3, 2}}},
      {"summed_to_a_scalar", "ab->", {{2, 3}}},
      {"trace", "aa->", {{3, 3}}},
      {"diagonal", "aab->ba", {{3, 3, 2}}},
      {"onto_the_diagonal", "ab->aba", {{3, 2}}},
      {"batches_of_traces", "...aa->...", {{2, 3, 3}}},
      {"dots_in_the_middle", "a...b->b...", {{2, 2, 3}}},
      {"product", "ab,bc->ac", {{2, 3}, {3, 4}}},
      {"product_turned", "ab,cb->ca", {{2, 3}, {4, 3}}},
      {"dense_of_heads", "abc,cde->abde", {{2, 2, 3}, {3, 2, 2}}},
      {"attention", "btnh,bsnh->bnts", {{2, 3, 2, 2}, {2, 2, 2, 2}}},
      {"outer", "a,b->ab", {{2}, {3}}},
      {"elements", "ab,ab->ab", {{2, 3}, {2, 3}}},
      {"scalars", ",->", {{}, {}}},
      {"to_a_scalar", "ab,ab->", {{2, 3}, {2, 3}}},
      {"summed_alone", "abc,cd->ad", {{2, 3, 2}, {2, 2}}},
      {"summed_alone_in_both", "ab,cd->ad", {{2, 3}, {3, 2}}},
      {"diagonals_in_both", "aab,bcc->ac", {{2, 2, 3}, {3, 2, 2}}},
      {"dots_broadcast", "...ab,...bc->...ac", {{2, 1, 2, 3}, {3, 3, 2}}},
      {"dots_of_one", "...a,ab->b...", {{2, 2, 3}, {3, 2}}},
      {"dots_at_the_end", "a...,b...->ab...", {{2, 1, 3}, {3, 2, 1}}},
      {"dots_and_a_sum", "...ab,...->b...", {{2, 3, 2}, {2}}},
      {"dots_of_nothing", "...a,a...->...", {{3}, {3}}},
      {"nothing_to_add", "ab,bc->ac", {{2, 0}, {0, 3}}},
  };
  for (const Case& c : all) {
    std::vector<Tensor> inputs;
    std::vector<Tensor> complex;
    for (const Shape& shape : c.shapes) {
      const int seed = static_cast<int>(inputs.size()) + 1;
      inputs.push_back(Spread(shape, -1, 1, seed));
      complex.push_back(Complex(shape, -1, 1, seed));
    }
    cases.Op("Einsum", c.name, inputs, {{"equation", c.equation}});
    cases.Op("Einsum", absl::StrCat(c.name, "_complex"), complex, {{"equation", c.equation}})
        .WithTolerance(1e-5, 1e-6);
  }
  return cases.Take();
}

}  // namespace tandem::testing
