// _TandemAllReduce: adds values over the replicas of a strategy, or reduces them otherwise. Made by
// strategies and passes only; never part of an exported graph.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/collective.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

// Strategies number their operations by multiples of this (strategies/builder.h).
constexpr int64_t kInstances = 1024;

absl::Status AllReduceShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(i)));
  return absl::OkStatus();
}

// The op's definition lets no other name through.
Reduction ReductionOf(const std::string& name) {
  if (name == "mean") return Reduction::kMean;
  if (name == "min") return Reduction::kMin;
  if (name == "max") return Reduction::kMax;
  if (name == "product") return Reduction::kProduct;
  return Reduction::kSum;
}

class AllReduceKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    request_.group = init.Attr<std::string>("group");
    request_.member = static_cast<int>(init.Attr<int64_t>("member"));
    request_.instance = init.Attr<int64_t>("instance");
    request_.reduction = ReductionOf(init.Attr<std::string>("reduction"));
    request_.node = std::string(init.node_name());
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    CollectiveRuntime* const collectives = c.step().collectives;
    if (collectives == nullptr) {
      done(errors::FailedPrecondition("this step runs outside a strategy: nobody to reduce with"));
      return;
    }
    CollectiveRequest request = request_;
    request.step = c.step().collective_step;
    std::vector<Tensor> values;
    for (int i = 0; i < c.num_inputs(); ++i) values.push_back(c.TakeInput(i));
    collectives->AllReduce(
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

// y = sum over replicas of x: the gradient of the sum of all replicas' losses with respect to x is
// the sum of all replicas' gradients with respect to y; the same holds for means. The instance of
// the backward operation follows from that of the forward one, so that all members agree on it:
// each forward operation has kInstances of its own, and gradients take the next that is free (one
// may be asked for several, of two losses or of a gradient).
absl::Status AllReduceGradient(GradientContext& g) {
  const std::string reduction = g.Attr<std::string>("reduction");
  if (reduction != "sum" && reduction != "mean") {
    return errors::Unimplemented("a reduction over replicas by '", reduction,
                                 "' has no gradient; sums and means have one. Put StopGradient "
                                 "before it where none is wanted");
  }
  AttrMap attrs = g.node().attrs();
  const int64_t first = g.Attr<int64_t>("instance") / kInstances * kInstances;
  int64_t next = first;
  for (const Node* node : g.graph().nodes()) {
    if (!node->Is("_TandemAllReduce") ||
        *node->Attr<int64_t>("member") != g.Attr<int64_t>("member") ||
        *node->Attr<std::string>("group") != g.Attr<std::string>("group")) {
      continue;
    }
    const int64_t instance = *node->Attr<int64_t>("instance");
    if (instance / kInstances * kInstances == first) next = std::max(next, instance + 1);
  }
  if (next >= first + kInstances) {
    return errors::ResourceExhausted("the all-reduce has ", kInstances - 1, " gradients already");
  }
  attrs["instance"] = next;
  std::vector<Output> gradients;
  for (int i = 0; i < g.num_outputs(); ++i) gradients.push_back(g.OutputGradient(i));
  const std::vector<Output> reduced =
      g.CallMulti("_TandemAllReduce", std::move(gradients), std::move(attrs));
  if (!g.status().ok()) return absl::OkStatus();
  for (int i = 0; i < g.num_inputs(); ++i) {
    g.SetInputGradient(i, reduced[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

TANDEM_OP("_TandemAllReduce")
    .Inputs("values:T")
    .Outputs("reduced:T")
    .Attrs(
        "T:list(type)>=1; group:string; member:int>=0; instance:int; "
        "reduction:string{sum,mean,min,max,product}=\"sum\"")
    .Stateful()
    .Shape(AllReduceShape)
    .Gradient(AllReduceGradient)
    .HostMemory({"values", "reduced"})
    .Cpu(Make<AllReduceKernel>());

}  // namespace
}  // namespace tandem
