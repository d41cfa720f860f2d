#include "tests/gradients/gradient_case.h"

#include <cmath>
#include <complex>
#include <utility>

namespace tandem::testing {
namespace {

bool IsNumber(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

// In [0, 1), without a pattern that a kernel could share.
double Fraction(int64_t i, int seed) {
  const double x = std::sin(static_cast<double>(i) * 12.9898 + seed * 78.233) * 43758.5453;
  return x - std::floor(x);
}

template <typename F>
Tensor Fill(DataType dtype, Shape shape, F value) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const size_t at = static_cast<size_t>(i);
    switch (dtype) {
      case kFloat32:
        tensor.MutableElements<float>()[at] = static_cast<float>(value(i, 0));
        break;
      case kComplex128:
        tensor.MutableElements<std::complex<double>>()[at] = {value(i, 0), value(i, 1)};
        break;
      default:
        tensor.MutableElements<double>()[at] = value(i, 0);
        break;
    }
  }
  return tensor;
}

}  // namespace

GradientCase& GradientCases::Program(const std::string& op, const std::string& name,
                                     std::vector<Tensor> inputs, GradientCase::Build build) {
  GradientCase added;
  added.op = op;
  added.name = name;
  added.inputs = std::move(inputs);
  added.build = std::move(build);
  cases_.push_back(std::move(added));
  return cases_.back();
}

GradientCase& GradientCases::Op(const std::string& op, const std::string& name,
                                std::vector<Tensor> inputs, AttrMap attrs) {
  return Program(
      op, name, std::move(inputs),
      [op, attrs = std::move(attrs)](const Scope& scope, std::vector<Output>& xs) {
        std::vector<Output> ys;
        for (const Output& y : scope.CallMulti(op, InputList(xs.begin(), xs.end()), attrs)) {
          if (IsNumber(y.dtype())) ys.push_back(y);
        }
        return ys;
      });
}

Tensor Spread(Shape shape, double low, double high, int seed, DataType dtype) {
  return Fill(dtype, std::move(shape), [&](int64_t i, int part) {
    return low + (high - low) * Fraction(i + 1, seed + 100 * part);
  });
}

Tensor Complex(Shape shape, double low, double high, int seed) {
  return Spread(std::move(shape), low, high, seed, kComplex128);
}

Tensor AwayFromZero(Shape shape, double low, double high, int seed, DataType dtype) {
  return Fill(dtype, std::move(shape), [&](int64_t i, int part) {
    const double size = low + (high - low) * Fraction(i + 1, seed + 100 * part);
    return Fraction(i + 1, seed + 1000) < 0.5 ? size : -size;
  });
}

Tensor Distinct(Shape shape, int seed, DataType dtype) {
  const int64_t n = shape.num_elements();
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(0.05 + 0.1 * static_cast<double>(i - n / 2));
  for (int64_t i = n - 1; i > 0; --i) {
    const auto j = static_cast<int64_t>(Fraction(i, seed) * static_cast<double>(i + 1));
    std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(j)]);
  }
  return Fill(dtype, std::move(shape),
              [&](int64_t i, int) { return values[static_cast<size_t>(i)]; });
}

}  // namespace tandem::testing
