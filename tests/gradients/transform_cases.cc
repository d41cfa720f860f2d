// Fourier transforms and systems of equations.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

std::vector<GradientCase> TransformCases() {
  GradientCases cases;
  for (const char* op : {"FFT", "IFFT"}) {
    cases.Op(op, "even", {Complex({2, 4})}).WithTolerance(1e-5, 1e-6);
    cases.Op(op, "odd", {Complex({5})}).WithTolerance(1e-5, 1e-6);
  }
  const AttrMap doubles = {{"Treal", kFloat64}, {"Tcomplex", kComplex128}};
  cases.Op("RFFT", "even", {Spread({2, 4}), Ints({4})}, doubles).WithTolerance(1e-5, 1e-6);
  cases.Op("RFFT", "odd", {Spread({5}), Ints({5})}, doubles).WithTolerance(1e-5, 1e-6);
  cases.Op("RFFT", "of_more", {Spread({2, 6}), Ints({4})}, doubles).WithTolerance(1e-5, 1e-6);
  cases.Op("IRFFT", "even", {Complex({2, 3}), Ints({4})}, doubles).WithTolerance(1e-5, 1e-6);
  cases.Op("IRFFT", "odd", {Complex({3}), Ints({5})}, doubles).WithTolerance(1e-5, 1e-6);
  cases.Op("IRFFT", "of_more", {Complex({2, 5}), Ints({4})}, doubles).WithTolerance(1e-5, 1e-6);
  const Tensor matrices = Tensor::FromValues<double>(
      {2, 3, 3}, {4, 1, -1, 0.5, 3, 1, 1, -2, 5, 2, 0.3, 0, 1, 4, -1, 0.2, 1, 3});
  for (const bool adjoint : {false, true}) {
    cases
        .Op("MatrixSolve", adjoint ? "adjoint" : "plain", {matrices, Spread({2, 3, 2})},
            {{"adjoint", adjoint}})
        .WithTolerance(1e-5, 1e-6);
  }
  return cases.Take();
}

}  // namespace tandem::testing
