// _TandemPull: what a program of a parameter server's shard reads (runtime/parameter_server). Made
// by strategies only; it is stateful, so that nothing takes one pull for another, or for a
// constant.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/parameter/store_call.h"

namespace tandem {
namespace {

absl::Status PullShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({})));
  const auto& shapes = c.Attr<std::vector<PartialShape>>("output_shapes");
  if (!shapes.empty() && shapes.size() != static_cast<size_t>(c.num_outputs()) - 1) {
    return errors::InvalidArgument("output_shapes has ", shapes.size(), " shapes; there are ",
                                   c.num_outputs() - 1, " outputs besides the version");
  }
  for (int i = 1; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(
        i, shapes.empty() ? PartialShape::Unknown() : shapes[static_cast<size_t>(i) - 1]));
  }
  return absl::OkStatus();
}

class PullKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    call_.Init(init);
    shapes_ = init.Attr<std::vector<PartialShape>>("output_shapes");
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    call_.Start(c, /*pulled_version=*/-1, /*first_argument=*/1,
                [this, &c, done = std::move(done)](absl::StatusOr<ShardAnswer> answer) mutable {
                  done(answer.ok() ? Take(c, *std::move(answer)) : answer.status());
                });
  }

 private:
  // What comes may be of another graph than this one.
  absl::Status Take(KernelContext& c, ShardAnswer answer) const {
    const auto wanted = static_cast<size_t>(c.num_outputs()) - 1;
    if (answer.results.size() != wanted) {
      return errors::InvalidArgument("the shard's program gave ", answer.results.size(),
                                     " results; the node has outputs for ", wanted);
    }
    for (size_t i = 0; i < wanted; ++i) {
      const Tensor& result = answer.results[i];
      const DataType dtype = c.output_dtype(static_cast<int>(i) + 1);
      if (!result.is_valid() || result.dtype() != dtype) {
        return errors::InvalidArgument("result ", i, " of the shard's program is of ",
                                       result.is_valid() ? DataTypeName(result.dtype()) : "no type",
                                       "; the node expects ", DataTypeName(dtype));
      }
      if (!shapes_.empty() && !shapes_[i].IsCompatibleWith(PartialShape(result.shape()))) {
        return errors::InvalidArgument("result ", i, " of the shard's program has the shape ",
                                       result.shape().DebugString(), "; the node expects ",
                                       shapes_[i].DebugString());
      }
    }
    c.SetOutput(0, Tensor::Scalar<int64_t>(answer.version));
    for (size_t i = 0; i < wanted; ++i) {
      c.SetOutput(static_cast<int>(i) + 1, std::move(answer.results[i]));
    }
    return absl::OkStatus();
  }

  StoreCall call_{/*updates=*/false};
  std::vector<PartialShape> shapes_;  // Empty: nothing is known.
};

TANDEM_OP("_TandemPull")
    .Inputs("route:string, inputs:Tin")
    .Outputs("version:int64, outputs:Tout")
    .Attrs(
        "shard:int>=0; program:string; Tin:list(type)>=0; Tout:list(type)>=0; "
        "output_shapes:list(shape)>=0=[]")
    .Stateful()
    .Shape(PullShape)
    .HostMemory({"route", "inputs", "version", "outputs"})
    .Cpu(Make<PullKernel>());

}  // namespace
}  // namespace tandem
