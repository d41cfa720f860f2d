// _TandemAllGatherRows: joins the rows of all processes of a strategy. One node a process, after
// what its own replicas bring has been joined. Made by strategies only; never part of an exported
// graph.
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/collective.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status AllGatherRowsShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(i, 1));
    PartialShape shape = c.input(i);
    if (shape.has_rank()) shape.SetDim(0, PartialShape::kUnknownDim);
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, std::move(shape)));
  }
  return absl::OkStatus();
}

class AllGatherRowsKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    request_.group = init.Attr<std::string>("group");
    request_.instance = init.Attr<int64_t>("instance");
    request_.node = std::string(init.node_name());
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    CollectiveRuntime* const collectives = c.step().collectives;
    if (collectives == nullptr) {
      done(errors::FailedPrecondition("this step runs outside a strategy: nobody to join with"));
      return;
    }
    CollectiveRequest request = request_;
    request.step = c.step().collective_step;
    std::vector<Tensor> values;
    for (int i = 0; i < c.num_inputs(); ++i) values.push_back(c.TakeInput(i));
    collectives->AllGatherRows(
        request, std::move(values), c.step().cancellation,
        [&c, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
          if (!results.ok()) {
            done(results.status());
            return;
          }
          for (size_t i = 0; i < results->size(); ++i) {
            c.SetOutput(static_cast<int>(i), std::move((*results)[i]));
          }
          done(absl::OkStatus());
        });
  }

 private:
  CollectiveRequest request_;
};

TANDEM_OP("_TandemAllGatherRows")
    .Inputs("values:T")
    .Outputs("joined:T")
    .Attrs("T:list(type)>=1; group:string; instance:int")
    .Stateful()
    .Shape(AllGatherRowsShape)
    .HostMemory({"values", "joined"})
    .Cpu(Make<AllGatherRowsKernel>());

}  // namespace
}  // namespace tandem
