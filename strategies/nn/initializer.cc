#include "strategies/nn/initializer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::nn {
namespace {

Tensor DimsTensor(const Shape& shape) { return Tensor::Vector<int64_t>(shape.dims()); }

Output Random(const Scope& scope, const char* op, const Shape& shape, int64_t seed) {
  return scope.Call(op, {DimsTensor(shape), Tensor::Vector<int64_t>({seed, 0})},
                    {{"dtype", kFloat32}});
}

InitialValue Uniform(const Shape& shape, float low, float high, int64_t seed) {
  return [=](const Scope& scope) {
    const Output uniform = Random(scope, "StatelessRandomUniform", shape, seed);
    return scope.Call("AddV2", {scope.Call("Mul", {uniform, high - low}), low});
  };
}

InitialValue Normal(const char* op, const Shape& shape, float mean, float deviation, int64_t seed) {
  return [=](const Scope& scope) {
    const Output normal = Random(scope, op, shape, seed);
    return scope.Call("AddV2", {scope.Call("Mul", {normal, deviation}), mean});
  };
}

InitialValue Filled(const Shape& shape, float value) {
  return [=](const Scope& scope) {
    return scope.Call("Fill", {DimsTensor(shape), Tensor::Scalar(value)});
  };
}

// A random matrix (all sizes but the last count as rows) with orthonormal rows or columns,
// whichever are fewer: U V' of a normal random matrix U S V', which is distributed like the Q of
// its QR decomposition (Mezzadri 2007).
//
// It is found by Newton's iteration X <- 1.5 X - 0.5 X X'X (Björck and Bowie 1971), which draws all
// singular values in (0, sqrt 3) to 1, and those that are small by 1.5 a time.
absl::StatusOr<InitialValue> Orthogonal(const Shape& shape, const Fans&, int64_t seed) {
  if (shape.rank() < 2) {
    return errors::InvalidArgument("the initializer 'orthogonal' is for two sizes or more; the ",
                                   "variable has the shape ", shape.DebugString());
  }
  if (shape.num_elements() == 0) return Filled(shape, 0);
  return InitialValue([=](const Scope& scope) {
    const int64_t columns = shape.dim(shape.rank() - 1);
    const int64_t rows = shape.num_elements() / columns;
    const double few = static_cast<double>(std::min(rows, columns));
    const double many = static_cast<double>(std::max(rows, columns));
    // Bounds of the singular values of such a matrix: sqrt(many) ± sqrt(few), and a margin.
    const double greatest = std::sqrt(many) + std::sqrt(few) + 3;
    const double least = std::max(std::sqrt(many) - std::sqrt(few) - 3, 1 / (400 * std::sqrt(few)));
    const int steps = 8 + static_cast<int>(std::log(greatest / least) / std::log(1.5));
    Output x =
        scope.Call("Mul", {Random(scope, "StatelessRandomNormal", Shape({rows, columns}), seed),
                           static_cast<float>(1 / greatest)});
    const bool wide = rows < columns;
    for (int i = 0; i < steps; ++i) {
      const Output gram =
          scope.Call("MatMul", {x, x}, {{wide ? "transpose_b" : "transpose_a", true}});
      const Output cube = scope.Call("MatMul", wide ? InputList{gram, x} : InputList{x, gram});
      x = scope.Call("Sub", {scope.Call("Mul", {x, 1.5f}), scope.Call("Mul", {cube, 0.5f})});
    }
    return scope.Call("Reshape", {x, DimsTensor(shape)});
  });
}

enum class Distribution { kUniform, kNormal };
enum class FanMode { kIn, kAverage };

// Values of variance scale / fan.
Initializer::Function Scaled(double scale, FanMode mode, Distribution distribution) {
  return [=](const Shape& shape, const Fans& fans, int64_t seed) -> absl::StatusOr<InitialValue> {
    const double in = static_cast<double>(fans.in);
    const double fan = mode == FanMode::kIn ? in : (in + static_cast<double>(fans.out)) / 2;
    const double variance = scale / std::max(1.0, fan);
    if (distribution == Distribution::kUniform) {
      const float limit = static_cast<float>(std::sqrt(3 * variance));
      return Uniform(shape, -limit, limit, seed);
    }
    // The deviation of a normal distribution that was cut at two deviations.
    constexpr double kTruncated = 0.87962566103423978;
    return Normal("StatelessTruncatedNormal", shape, 0,
                  static_cast<float>(std::sqrt(variance) / kTruncated), seed);
  };
}

// A normal distribution, whole or truncated.
Initializer::Function NormalFunction(const char* op, float mean, float deviation) {
  return [=](const Shape& shape, const Fans&, int64_t seed) -> absl::StatusOr<InitialValue> {
    if (!(deviation >= 0) || !std::isfinite(mean) || !std::isfinite(deviation)) {
      return errors::InvalidArgument("an initializer has the mean ", mean, " and the deviation ",
                                     deviation,
                                     "; both must be finite and the latter not negative");
    }
    return Normal(op, shape, mean, deviation, seed);
  };
}

Initializer::Function UniformFunction(float low, float high) {
  return [=](const Shape& shape, const Fans&, int64_t seed) -> absl::StatusOr<InitialValue> {
    if (!(low <= high) || !std::isfinite(high - low)) {
      return errors::InvalidArgument("an initializer is to be uniform between ", low, " and ", high,
                                     "; the bounds must be finite and in order");
    }
    return Uniform(shape, low, high, seed);
  };
}

Initializer::Function ConstantFunction(float value) {
  return [=](const Shape& shape, const Fans&, int64_t) -> absl::StatusOr<InitialValue> {
    return Filled(shape, value);
  };
}

const std::map<std::string, Initializer::Function>& ByName() {
  using D = Distribution;
  static const auto& table = *new std::map<std::string, Initializer::Function>({
      {"zeros", ConstantFunction(0)},
      {"ones", ConstantFunction(1)},
      {"glorot_uniform", Scaled(1, FanMode::kAverage, D::kUniform)},
      {"glorot_normal", Scaled(1, FanMode::kAverage, D::kNormal)},
      {"he_uniform", Scaled(2, FanMode::kIn, D::kUniform)},
      {"he_normal", Scaled(2, FanMode::kIn, D::kNormal)},
      {"lecun_uniform", Scaled(1, FanMode::kIn, D::kUniform)},
      {"lecun_normal", Scaled(1, FanMode::kIn, D::kNormal)},
      {"random_uniform", UniformFunction(-0.05f, 0.05f)},
      {"random_normal", NormalFunction("StatelessRandomNormal", 0, 0.05f)},
      {"truncated_normal", NormalFunction("StatelessTruncatedNormal", 0, 0.05f)},
      {"orthogonal", Orthogonal},
  });
  return table;
}

}  // namespace

Fans FansOf(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {shape.dim(0), shape.dim(0)};
  int64_t window = 1;
  for (int i = 0; i < rank - 2; ++i) window *= shape.dim(i);
  return {window * shape.dim(rank - 2), window * shape.dim(rank - 1)};
}

absl::StatusOr<InitialValue> Initializer::For(const Shape& shape, const Fans& fans,
                                              int64_t seed) const {
  if (function_) return function_(shape, fans, seed);
  const auto found = ByName().find(name_);
  if (found == ByName().end()) {
    return errors::InvalidArgument(
        "there is no initializer '", name_, "'; there are ",
        absl::StrJoin(ByName(), ", ",
                      [](std::string* out, const auto& entry) { out->append(entry.first); }));
  }
  return found->second(shape, fans, seed);
}

namespace initializer {

Initializer Constant(float value) { return Initializer(ConstantFunction(value)); }
Initializer RandomUniform(float low, float high) { return Initializer(UniformFunction(low, high)); }
Initializer RandomNormal(float mean, float deviation) {
  return Initializer(NormalFunction("StatelessRandomNormal", mean, deviation));
}
Initializer TruncatedNormal(float mean, float deviation) {
  return Initializer(NormalFunction("StatelessTruncatedNormal", mean, deviation));
}

Initializer Values(Tensor values) {
  return Initializer([values = std::move(values)](const Shape& shape, const Fans&,
                                                  int64_t) -> absl::StatusOr<InitialValue> {
    if (!values.is_valid() || values.dtype() != kFloat32 || values.shape() != shape) {
      return errors::InvalidArgument("the variable is to begin with values of the shape ",
                                     values.is_valid() ? values.shape().DebugString() : "<none>",
                                     " and type ", DataTypeName(values.dtype()), "; it is float32",
                                     shape.DebugString());
    }
    return InitialValue([values](const Scope& scope) { return scope.Constant(values); });
  });
}

}  // namespace initializer

InitialValue Zeros(DataType dtype, Shape shape) {
  return [dtype, shape](const Scope& scope) {
    return scope.Call("Fill", {DimsTensor(shape), Tensor::Zeros(dtype, Shape())});
  };
}

int64_t SeedFor(int64_t seed, absl::string_view name) {
  // FNV-1a: simple, and the same everywhere (absl::Hash is salted by the process).
  uint64_t hash = 0xcbf29ce484222325u ^ static_cast<uint64_t>(seed);
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return static_cast<int64_t>(hash >> 1);
}

}  // namespace tandem::nn
