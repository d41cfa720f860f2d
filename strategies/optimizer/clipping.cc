#include "strategies/optimizer/clipping.h"

#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "strategies/optimizer/forwarding.h"
#include "strategies/optimizer/shared_scalars.h"
#include "strategies/optimizer/sparse.h"

namespace tandem::optimizer {
namespace {

// Norms of small floats are computed in float32, which does not overflow so soon.
DataType NormType(const Output& values) { return values.dtype() == kFloat64 ? kFloat64 : kFloat32; }

// Half the sum of squares.
Output HalfSquares(const Scope& scope, const Output& values) {
  return scope.Call("L2Loss", {CastTo(scope, values, NormType(values))});
}

// √(2 · half_squares)
Output NormOf(const Scope& scope, const Output& half_squares) {
  return scope.Call("Sqrt", {scope.Call("Mul", {half_squares, 2.0})});
}

// Of gradients that name no row twice.
Output NormOfAll(const Scope& scope, const std::vector<Gradient>& gradients) {
  DataType dtype = kFloat32;
  for (const Gradient& gradient : gradients) {
    if (gradient.exists() && NormType(gradient.values) == kFloat64) dtype = kFloat64;
  }
  InputList parts;
  for (const Gradient& gradient : gradients) {
    if (!gradient.exists()) continue;
    parts.emplace_back(CastTo(scope, HalfSquares(scope, gradient.values), dtype));
  }
  return parts.empty() ? Output() : NormOf(scope, scope.Call("AddN", parts));
}

// What brings a gradient of this norm down to the limit; exactly 1 when it is below.
Output Scale(const Scope& scope, const Output& norm, double limit) {
  if (!norm.valid()) return {};
  const Tensor most = FloatingScalar(norm.dtype(), limit);
  return scope.Call("RealDiv", {most, scope.Call("Maximum", {norm, most})});
}

Output Scaled(const Scope& scope, const Output& values, const Output& scale) {
  return scope.Call("Mul", {values, CastTo(scope, scale, values.dtype())});
}

class Clipping : public ForwardingOptimizer {
 public:
  Clipping(OptimizerPtr optimizer, const char* what, double limit)
      : ForwardingOptimizer(std::move(optimizer)), limit_(limit), what_(what) {}

  absl::Status Check() const override {
    if (!(limit_ > 0) || !std::isfinite(limit_)) {
      return errors::InvalidArgument(what_, ": the limit is ", limit_,
                                     "; it must be a finite number above 0");
    }
    return ForwardingOptimizer::Check();
  }

  OptionList DescribeOptions() const override {
    OptionList list = ForwardingOptimizer::DescribeOptions();
    for (auto& option : ListOptions({{what_, limit_}})) list.push_back(std::move(option));
    return list;
  }

  absl::StatusOr<std::vector<Gradient>> Transform(const Scope& scope,
                                                  std::vector<Gradient> gradients) const override {
    TANDEM_RETURN_IF_ERROR(Check());
    const Scope here = scope.SubScope("clip");
    for (Gradient& gradient : gradients) gradient = SumDuplicates(here, gradient);
    TANDEM_RETURN_IF_ERROR(here.status());
    Clip(here, gradients);
    TANDEM_RETURN_IF_ERROR(here.status());
    return ForwardingOptimizer::Transform(scope, std::move(gradients));
  }

 protected:
  // No row is named twice.
  virtual void Clip(const Scope& scope, std::vector<Gradient>& gradients) const = 0;

  const double limit_;

 private:
  const char* const what_;
};

class ValueClipping final : public Clipping {
 public:
  ValueClipping(OptimizerPtr optimizer, double limit)
      : Clipping(std::move(optimizer), "ClipByValue", limit) {}

 private:
  void Clip(const Scope& scope, std::vector<Gradient>& gradients) const override {
    for (Gradient& gradient : gradients) {
      if (!gradient.exists()) continue;
      const DataType dtype = gradient.values.dtype();
      gradient.values = scope.Call("ClipByValue", {gradient.values, FloatingScalar(dtype, -limit_),
                                                   FloatingScalar(dtype, limit_)});
    }
  }
};

class NormClipping final : public Clipping {
 public:
  NormClipping(OptimizerPtr optimizer, double norm)
      : Clipping(std::move(optimizer), "ClipByNorm", norm) {}

 private:
  void Clip(const Scope& scope, std::vector<Gradient>& gradients) const override {
    for (Gradient& gradient : gradients) {
      if (!gradient.exists()) continue;
      const Output norm = NormOf(scope, HalfSquares(scope, gradient.values));
      gradient.values = Scaled(scope, gradient.values, Scale(scope, norm, limit_));
    }
  }
};

class GlobalNormClipping final : public Clipping {
 public:
  GlobalNormClipping(OptimizerPtr optimizer, double norm)
      : Clipping(std::move(optimizer), "ClipByGlobalNorm", norm) {}

 private:
  void Clip(const Scope& scope, std::vector<Gradient>& gradients) const override {
    const Output norm = NormOfAll(scope, gradients);
    if (!norm.valid()) return;
    // norm - norm is 0, or NaN where the norm is not finite.
    const Output scale =
        scope.Call("AddV2", {Scale(scope, norm, limit_), scope.Call("Sub", {norm, norm})});
    for (Gradient& gradient : gradients) {
      if (gradient.exists()) gradient.values = Scaled(scope, gradient.values, scale);
    }
  }
};

}  // namespace

OptimizerPtr ClipByValue(OptimizerPtr optimizer, double limit) {
  return std::make_shared<ValueClipping>(std::move(optimizer), limit);
}

OptimizerPtr ClipByNorm(OptimizerPtr optimizer, double norm) {
  return std::make_shared<NormClipping>(std::move(optimizer), norm);
}

OptimizerPtr ClipByGlobalNorm(OptimizerPtr optimizer, double norm) {
  return std::make_shared<GlobalNormClipping>(std::move(optimizer), norm);
}

Output GlobalNorm(const Scope& scope, std::vector<Gradient> gradients) {
  for (Gradient& gradient : gradients) gradient = SumDuplicates(scope, gradient);
  return NormOfAll(scope, gradients);
}

}  // namespace tandem::optimizer
