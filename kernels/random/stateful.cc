// Random numbers from generators that move on from run to run.
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/common/arguments.h"
#include "kernels/random/distributions.h"
#include "kernels/random/generator.h"

namespace tandem::random {
namespace {

absl::Status ShapeFromInput(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(0));
  return c.SetOutput(0, std::move(shape));
}

using FillFunction = void (*)(ParallelRunner& parallel, const Philox& from, DataType dtype,
                              void* to, int64_t count);

template <FillFunction kFill>
class RandomKernel : public GeneratorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    const int64_t count = output->num_elements();
    kFill(c.parallel(), generator_.Reserve(ReservedBlocks(count)), output->dtype(),
          output->mutable_data(), count);
    return absl::OkStatus();
  }
};

absl::Status UniformIntShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  return ShapeFromInput(c);
}

class UniformIntKernel : public GeneratorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
    TANDEM_ASSIGN_OR_RETURN(const int64_t low, ScalarArgument(c.input(1), "minval"));
    TANDEM_ASSIGN_OR_RETURN(const int64_t high, ScalarArgument(c.input(2), "maxval"));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    const int64_t count = output->num_elements();
    if (count == 0) return absl::OkStatus();
    if (low >= high) {
      return errors::InvalidArgument("minval is ", low, " and maxval ", high,
                                     "; minval must be less");
    }
    FillUniformInt(c.parallel(), generator_.Reserve(ReservedBlocks(count)), output->dtype(), low,
                   high, output->mutable_data(), count);
    return absl::OkStatus();
  }
};

constexpr char kFloatAttrs[] =
    "seed:int=0; seed2:int=0; dtype:type{float16,bfloat16,float32,float64}; T:type{int32,int64}";

TANDEM_OP("RandomUniform")
    .Inputs("shape:T")
    .Outputs("output:dtype")
    .Attrs(kFloatAttrs)
    .Stateful()
    .Shape(ShapeFromInput)
    .NotDifferentiable()
    .HostMemory({"shape"})
    .Cpu(Make<RandomKernel<FillUniform>>());

TANDEM_OP("RandomStandardNormal")
    .Inputs("shape:T")
    .Outputs("output:dtype")
    .Attrs(kFloatAttrs)
    .Stateful()
    .Shape(ShapeFromInput)
    .NotDifferentiable()
    .HostMemory({"shape"})
    .Cpu(Make<RandomKernel<FillNormal>>());

TANDEM_OP("TruncatedNormal")
    .Inputs("shape:T")
    .Outputs("output:dtype")
    .Attrs(kFloatAttrs)
    .Stateful()
    .Shape(ShapeFromInput)
    .NotDifferentiable()
    .HostMemory({"shape"})
    .Cpu(Make<RandomKernel<FillTruncatedNormal>>());

TANDEM_OP("RandomUniformInt")
    .Inputs("shape:T, minval:Tout, maxval:Tout")
    .Outputs("output:Tout")
    .Attrs("seed:int=0; seed2:int=0; Tout:type{int32,int64}; T:type{int32,int64}")
    .Stateful()
    .Shape(UniformIntShape)
    .HostMemory({"shape", "minval", "maxval"})
    .Cpu(Make<UniformIntKernel>());

}  // namespace
}  // namespace tandem::random
