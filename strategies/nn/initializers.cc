#include <cmath>

#include "strategies/nn/layer.h"

namespace tandem::nn {
namespace {

Tensor DimsTensor(const Shape& shape) { return Tensor::Vector<int64_t>(shape.dims()); }

}  // namespace

int64_t SeedFor(int64_t seed, absl::string_view name) {
  // FNV-1a: simple, and the same everywhere (absl::Hash is salted by the process).
  uint64_t hash = 0xcbf29ce484222325u ^ static_cast<uint64_t>(seed);
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return static_cast<int64_t>(hash >> 1);
}

std::function<Output(const Scope&)> Zeros(DataType dtype, Shape shape) {
  return [dtype, shape](const Scope& scope) {
    return scope.Call("Fill", {DimsTensor(shape), Tensor::Zeros(dtype, Shape())});
  };
}

std::function<Output(const Scope&)> GlorotUniform(Shape shape, int64_t fan_in, int64_t fan_out,
                                                  int64_t seed) {
  return [shape, fan_in, fan_out, seed](const Scope& scope) {
    const float limit = std::sqrt(6.0f / static_cast<float>(fan_in + fan_out));
    const Output uniform =
        scope.Call("StatelessRandomUniform",
                   {DimsTensor(shape), Tensor::Vector<int64_t>({seed, 0})}, {{"dtype", kFloat32}});
    return scope.Call("Sub", {scope.Call("Mul", {uniform, 2.0f * limit}), limit});
  };
}

}  // namespace tandem::nn
