#include "strategies/optimizer/shared_scalars.h"

#include "core/tensor/float16.h"

namespace tandem::optimizer {
namespace {

// The type that scalars of `dtype` are computed in.
DataType ComputeType(DataType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

}  // namespace

Tensor FloatingScalar(DataType dtype, double value) {
  switch (dtype) {
    case kFloat64:
      return Tensor::Scalar<double>(value);
    case kFloat16:
      return Tensor::Scalar<Float16>(static_cast<Float16>(static_cast<float>(value)));
    case kBfloat16:
      return Tensor::Scalar<Bfloat16>(static_cast<Bfloat16>(static_cast<float>(value)));
    default:
      return Tensor::Scalar<float>(static_cast<float>(value));
  }
}

double RoundedTo(DataType dtype, double value) {
  const Tensor rounded = FloatingScalar(dtype, value);
  switch (dtype) {
    case kFloat64:
      return value;
    case kFloat16:
      return static_cast<float>(rounded.ScalarValue<Float16>());
    case kBfloat16:
      return static_cast<float>(rounded.ScalarValue<Bfloat16>());
    default:
      return rounded.ScalarValue<float>();
  }
}

Output CastTo(const Scope& scope, const Output& value, DataType dtype) {
  if (!value.valid() || value.dtype() == dtype) return value;
  return scope.Call("Cast", {value}, {{"DstT", dtype}});
}

Output SharedScalars::Once(Kind kind, DataType dtype, double value,
                           absl::FunctionRef<Output()> make) {
  const std::tuple<Kind, DataType, double> key(kind, dtype, value);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  const Output made = make();
  made_.emplace(key, made);
  return made;
}

Output SharedScalars::CastOnce(Kind kind, const Output& value, DataType dtype) {
  if (!value.valid() || value.dtype() == dtype) return value;
  return Once(kind, dtype, 0, [&] { return scope_.Call("Cast", {value}, {{"DstT", dtype}}); });
}

Output SharedScalars::Constant(DataType dtype, double value) {
  return Once(Kind::kConstant, dtype, value,
              [&] { return scope_.Constant(FloatingScalar(dtype, value)); });
}

Output SharedScalars::LearningRate(DataType dtype) {
  return CastOnce(Kind::kLearningRate, learning_rate_, dtype);
}

Output SharedScalars::ScaledRate(DataType dtype, double factor) {
  return Once(Kind::kScaledRate, dtype, factor, [&]() -> Output {
    const DataType compute = ComputeType(dtype);
    if (compute != dtype) {
      return scope_.Call("Cast", {ScaledRate(compute, factor)}, {{"DstT", dtype}});
    }
    return scope_.Call("Mul", {LearningRate(dtype), Constant(dtype, factor)});
  });
}

Output SharedScalars::Power(DataType dtype, double base) {
  return Once(Kind::kPower, dtype, base, [&]() -> Output {
    const DataType compute = ComputeType(dtype);
    if (compute != dtype) {
      return scope_.Call("Cast", {Power(compute, RoundedTo(dtype, base))}, {{"DstT", dtype}});
    }
    return scope_.Call("Pow", {Constant(dtype, base), CastOnce(Kind::kStep, step_, dtype)});
  });
}

}  // namespace tandem::optimizer
