// Random numbers that depend on their arguments alone: the first version takes two seeds, the
// second a key, a counter and the number of an algorithm.
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/random/distributions.h"
#include "kernels/random/philox.h"

namespace tandem::random {
namespace {

// TensorFlow's numbers of algorithms. Number 2, ThreeFry, is not one of its CPU's.
constexpr int64_t kAlgorithmPhilox = 1;
constexpr int64_t kAlgorithmAutomatic = 3;

// --- Arguments

// Two seeds become a key and a counter: they are the counter of a block whose key is fixed.
absl::StatusOr<Philox> FromSeedArgument(const Tensor& seed) {
  TANDEM_ASSIGN_OR_RETURN(const SmallInts seeds, VectorArgument(seed, "seed"));
  if (seeds.size() != 2) {
    return errors::InvalidArgument("seed must hold two numbers; it has shape ",
                                   seed.shape().DebugString());
  }
  constexpr uint64_t kScrambleKey = 0x02461e293ec8f720;
  const Philox::Block mix = Philox::FromKeyAndCounter(kScrambleKey, static_cast<uint64_t>(seeds[0]),
                                                      static_cast<uint64_t>(seeds[1]))
                                .Here();
  return Philox{{0, 0, mix[2], mix[3]}, {mix[0], mix[1]}};
}

// Inputs first … first + 2 are key, counter and algorithm.
absl::StatusOr<Philox> FromKeyArguments(KernelContext& c, int first) {
  const Tensor& key = c.input(first);
  const Tensor& counter = c.input(first + 1);
  TANDEM_ASSIGN_OR_RETURN(const int64_t algorithm, ScalarArgument(c.input(first + 2), "alg"));
  if (algorithm != kAlgorithmPhilox && algorithm != kAlgorithmAutomatic) {
    return errors::InvalidArgument("alg is ", algorithm, "; there are ", kAlgorithmPhilox,
                                   " (Philox) and ", kAlgorithmAutomatic, " (automatic)");
  }
  if (key.shape() != Shape({1})) {
    return errors::InvalidArgument("key must have shape [1]; it has ", key.shape().DebugString());
  }
  if (!counter.shape().IsVector() || counter.shape().dim(0) < 2) {
    return errors::InvalidArgument("counter must be a vector of two numbers; it has shape ",
                                   counter.shape().DebugString());
  }
  const auto words = counter.Elements<uint64_t>();
  return Philox::FromKeyAndCounter(key.Elements<uint64_t>()[0], words[0], words[1]);
}

// --- Shape functions

absl::Status OutputFromShapeInput(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(0));
  return c.SetOutput(0, std::move(shape));
}

absl::Status RequireVector(const ShapeContext& c, int i, int64_t size) {
  if (c.input(i).IsCompatibleWith(PartialShape({size}))) return absl::OkStatus();
  return errors::InvalidArgument("'", c.op().inputs[static_cast<size_t>(i)].name,
                                 "' must have shape [", size, "]; it has ",
                                 c.input(i).DebugString());
}

absl::Status SeedShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireVector(c, 1, 2));
  return OutputFromShapeInput(c);
}

absl::Status KeyShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireVector(c, 1, 1));
  TANDEM_RETURN_IF_ERROR(RequireVector(c, 2, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(3, 0));
  return OutputFromShapeInput(c);
}

absl::Status SeedRangeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(3, 0));
  return SeedShape(c);
}

absl::Status KeyRangeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(4, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(5, 0));
  return KeyShape(c);
}

absl::Status KeyCounterShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireVector(c, 0, 2));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({1})));
  return c.SetOutput(1, PartialShape({2}));
}

// --- Kernels

using FillFunction = void (*)(ParallelRunner& parallel, const Philox& from, DataType dtype,
                              void* to, int64_t count);

absl::Status FillOutput(KernelContext& c, const Philox& from, FillFunction fill) {
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  fill(c.parallel(), from, output->dtype(), output->mutable_data(), output->num_elements());
  return absl::OkStatus();
}

template <FillFunction kFill>
absl::Status BySeed(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Philox from, FromSeedArgument(c.input(1)));
  return FillOutput(c, from, kFill);
}

template <FillFunction kFill>
absl::Status ByKey(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Philox from, FromKeyArguments(c, 1));
  return FillOutput(c, from, kFill);
}

// The bounds are inputs `first` and first + 1.
absl::Status FillRange(KernelContext& c, const Philox& from, int first) {
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t low, ScalarArgument(c.input(first), "minval"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t high, ScalarArgument(c.input(first + 1), "maxval"));
  if (low >= high) {
    return errors::InvalidArgument("minval is ", low, " and maxval ", high,
                                   "; minval must be less");
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  FillUniformInt(c.parallel(), from, output->dtype(), low, high, output->mutable_data(),
                 output->num_elements());
  return absl::OkStatus();
}

absl::Status RangeBySeed(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Philox from, FromSeedArgument(c.input(1)));
  return FillRange(c, from, 2);
}

absl::Status RangeByKey(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Philox from, FromKeyArguments(c, 1));
  return FillRange(c, from, 4);
}

absl::Status GetKeyCounter(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Philox from, FromSeedArgument(c.input(0)));
  TANDEM_ASSIGN_OR_RETURN(Tensor * key, c.AllocateOutput(0, Shape({1})));
  TANDEM_ASSIGN_OR_RETURN(Tensor * counter, c.AllocateOutput(1, Shape({2})));
  const auto join = [](uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; };
  key->MutableElements<uint64_t>()[0] = join(from.key[0], from.key[1]);
  counter->MutableElements<uint64_t>()[0] = join(from.counter[0], from.counter[1]);
  counter->MutableElements<uint64_t>()[1] = join(from.counter[2], from.counter[3]);
  return absl::OkStatus();
}

absl::Status GetAlgorithm(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape()));
  output->MutableElements<int32_t>()[0] = static_cast<int32_t>(kAlgorithmPhilox);
  return absl::OkStatus();
}

constexpr char kSeedAttrs[] =
    "dtype:type{float16,bfloat16,float32,float64}=float32; T:type{int32,int64}=int32; "
    "Tseed:type{int32,int64}=int64";
constexpr char kKeyAttrs[] =
    "dtype:type{float16,bfloat16,float32,float64}=float32; Tshape:type{int32,int64}=int32";

TANDEM_OP("StatelessRandomUniform")
    .Inputs("shape:T, seed:Tseed")
    .Outputs("output:dtype")
    .Attrs(kSeedAttrs)
    .Shape(SeedShape)
    .NotDifferentiable()
    .HostMemory({"shape", "seed"})
    .Cpu(Function(BySeed<FillUniform>));

TANDEM_OP("StatelessRandomNormal")
    .Inputs("shape:T, seed:Tseed")
    .Outputs("output:dtype")
    .Attrs(kSeedAttrs)
    .Shape(SeedShape)
    .NotDifferentiable()
    .HostMemory({"shape", "seed"})
    .Cpu(Function(BySeed<FillNormal>));

TANDEM_OP("StatelessTruncatedNormal")
    .Inputs("shape:T, seed:Tseed")
    .Outputs("output:dtype")
    .Attrs(kSeedAttrs)
    .Shape(SeedShape)
    .NotDifferentiable()
    .HostMemory({"shape", "seed"})
    .Cpu(Function(BySeed<FillTruncatedNormal>));

TANDEM_OP("StatelessRandomUniformInt")
    .Inputs("shape:T, seed:Tseed, minval:dtype, maxval:dtype")
    .Outputs("output:dtype")
    .Attrs("dtype:type{int32,int64}; T:type{int32,int64}; Tseed:type{int32,int64}=int64")
    .Shape(SeedRangeShape)
    .NotDifferentiable()
    .HostMemory({"shape", "seed", "minval", "maxval"})
    .Cpu(Function(RangeBySeed));

TANDEM_OP("StatelessRandomUniformV2")
    .Inputs("shape:Tshape, key:uint64, counter:uint64, alg:int32")
    .Outputs("output:dtype")
    .Attrs(kKeyAttrs)
    .Shape(KeyShape)
    .NotDifferentiable()
    .HostMemory({"shape", "key", "counter", "alg"})
    .Cpu(Function(ByKey<FillUniform>));

TANDEM_OP("StatelessRandomNormalV2")
    .Inputs("shape:Tshape, key:uint64, counter:uint64, alg:int32")
    .Outputs("output:dtype")
    .Attrs(kKeyAttrs)
    .Shape(KeyShape)
    .NotDifferentiable()
    .HostMemory({"shape", "key", "counter", "alg"})
    .Cpu(Function(ByKey<FillNormal>));

TANDEM_OP("StatelessTruncatedNormalV2")
    .Inputs("shape:Tshape, key:uint64, counter:uint64, alg:int32")
    .Outputs("output:dtype")
    .Attrs(kKeyAttrs)
    .Shape(KeyShape)
    .NotDifferentiable()
    .HostMemory({"shape", "key", "counter", "alg"})
    .Cpu(Function(ByKey<FillTruncatedNormal>));

TANDEM_OP("StatelessRandomUniformIntV2")
    .Inputs("shape:Tshape, key:uint64, counter:uint64, alg:int32, minval:dtype, maxval:dtype")
    .Outputs("output:dtype")
    .Attrs("dtype:type{int32,int64,uint32,uint64}; Tshape:type{int32,int64}=int32")
    .Shape(KeyRangeShape)
    .NotDifferentiable()
    .HostMemory({"shape", "key", "counter", "alg", "minval", "maxval"})
    .Cpu([] {
      KernelDef def = Function(RangeByKey);
      def.types = {{"dtype", {kInt32, kInt64}}};
      return def;
    }());

TANDEM_OP("StatelessRandomGetKeyCounter")
    .Inputs("seed:Tseed")
    .Outputs("key:uint64, counter:uint64")
    .Attrs("Tseed:type{int32,int64}=int64")
    .Shape(KeyCounterShape)
    .HostMemory({"seed", "key", "counter"})
    .Cpu(Function(GetKeyCounter));

TANDEM_OP("StatelessRandomGetAlg")
    .Outputs("alg:int32")
    .Stateful()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"alg"})
    .Cpu(Function(GetAlgorithm));

}  // namespace
}  // namespace tandem::random
