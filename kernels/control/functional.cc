// Functions as nodes: calls, conditionals and loops whose bodies are functions of the library.
//
// Nothing here waits or nests: a function that a kernel calls runs on the step's own threads, and
// the kernel goes on when it is done. A loop goes round without recursion, whether its functions
// end at once, on the thread that started them, or later.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/function_runner.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/control/function_gradient.h"
#include "kernels/control/loop_gradient.h"
#include "kernels/control/truth.h"

namespace tandem {
namespace {

using Results = absl::StatusOr<std::vector<Tensor>>;

// --- What the kernels share

// A function that a node names, and its compiled forms. Threads: any.
class Callee {
 public:
  explicit Callee(FunctionRef function, bool host_results = false)
      : function_(std::move(function)), host_results_(host_results) {}

  const std::string& name() const { return function_.name; }

  absl::StatusOr<std::shared_ptr<FunctionHandle>> Get(const KernelContext& c) {
    const KernelDevice* device = &c.device();
    FunctionRunner* runner = c.step().functions;
    {
      MutexLock lock(mu_);
      for (const Compiled& compiled : compiled_) {
        if (compiled.device != device || compiled.runner != runner) continue;
        if (std::shared_ptr<FunctionHandle> handle = compiled.handle.lock()) return handle;
      }
    }
    // Outside the lock, since compiling may run kernels.
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<FunctionHandle> handle,
                            runner->Instantiate(function_, c, host_results_));
    MutexLock lock(mu_);
    for (size_t i = compiled_.size(); i-- > 0;) {
      if (compiled_[i].handle.expired()) compiled_.erase(compiled_.begin() + static_cast<int>(i));
    }
    compiled_.push_back({device, runner, handle});
    return handle;
  }

 private:
  struct Compiled {
    const KernelDevice* device;
    const FunctionRunner* runner;
    // The runner keeps what it compiled. A function that calls itself holds the kernel that holds
    // this: it must not own it.
    std::weak_ptr<FunctionHandle> handle;
  };

  const FunctionRef function_;
  const bool host_results_;
  Mutex mu_;
  std::vector<Compiled> compiled_ ABSL_GUARDED_BY(mu_);
};

absl::Status SetOutputs(KernelContext& c, const std::string& function, Results results) {
  if (!results.ok()) return results.status();
  if (static_cast<int>(results->size()) != c.num_outputs()) {
    return errors::InvalidArgument("function '", function, "' has ", results->size(),
                                   " results; the node that calls it has ", c.num_outputs(),
                                   " outputs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    Tensor& result = (*results)[static_cast<size_t>(i)];
    if (result.dtype() != c.output_dtype(i)) {
      return errors::InvalidArgument(
          "function '", function, "': result ", i, " is ", DataTypeName(result.dtype()),
          "; the node that calls it wants ", DataTypeName(c.output_dtype(i)));
    }
    c.SetOutput(i, std::move(result));
  }
  return absl::OkStatus();
}

std::vector<Tensor> TakeInputs(KernelContext& c, int first) {
  std::vector<Tensor> values;
  values.reserve(static_cast<size_t>(c.num_inputs() - first));
  for (int i = first; i < c.num_inputs(); ++i) values.push_back(c.TakeInput(i));
  return values;
}

// Runs the function with the inputs from `first` on; its results become the outputs.
void CallAndFinish(Callee& callee, KernelContext& c, int first, AsyncKernel::Done done) {
  absl::StatusOr<std::shared_ptr<FunctionHandle>> handle = callee.Get(c);
  if (!handle.ok()) {
    done(handle.status());
    return;
  }
  c.step().functions->Run(*handle, c, TakeInputs(c, first),
                          [&c, &callee, done = std::move(done)](Results results) mutable {
                            done(SetOutputs(c, callee.name(), std::move(results)));
                          });
}

// --- The kernels

class CallKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    callee_ = std::make_unique<Callee>(init.Attr<FunctionRef>("f"));
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    CallAndFinish(*callee_, c, 0, std::move(done));
  }

 private:
  std::unique_ptr<Callee> callee_;
};

class IfKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    then_ = std::make_unique<Callee>(init.Attr<FunctionRef>("then_branch"));
    else_ = std::make_unique<Callee>(init.Attr<FunctionRef>("else_branch"));
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    const absl::StatusOr<bool> condition = Truth(c.input(0));
    if (!condition.ok()) {
      done(condition.status());
      return;
    }
    CallAndFinish(*condition ? *then_ : *else_, c, 1, std::move(done));
  }

 private:
  std::unique_ptr<Callee> then_;
  std::unique_ptr<Callee> else_;
};

class CaseKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    for (const FunctionRef& branch : init.Attr<std::vector<FunctionRef>>("branches")) {
      branches_.push_back(std::make_unique<Callee>(branch));
    }
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    const Tensor& index = c.input(0);
    if (!index.shape().IsScalar()) {
      done(errors::InvalidArgument("the branch index must be a scalar; it has shape ",
                                   index.shape().DebugString()));
      return;
    }
    // What is out of range takes the last branch.
    const int32_t wished = index.ScalarValue<int32_t>();
    const int32_t last = static_cast<int32_t>(branches_.size()) - 1;
    const int32_t taken = wished < 0 || wished > last ? last : wished;
    CallAndFinish(*branches_[static_cast<size_t>(taken)], c, 1, std::move(done));
  }

 private:
  std::vector<std::unique_ptr<Callee>> branches_;
};

// One run of a loop. Owns itself until the loop ends.
class LoopRun {
 public:
  LoopRun(Callee* condition_callee, Callee* body_callee, KernelContext* c, AsyncKernel::Done done)
      : body_callee_(body_callee),
        condition_callee_(condition_callee),
        c_(*c),
        done_(std::move(done)) {}

  void Start() {
    absl::StatusOr<std::shared_ptr<FunctionHandle>> condition = condition_callee_->Get(c_);
    if (!condition.ok()) return End(condition.status());
    absl::StatusOr<std::shared_ptr<FunctionHandle>> body = body_callee_->Get(c_);
    if (!body.ok()) return End(body.status());
    condition_ = *std::move(condition);
    body_ = *std::move(body);
    values_ = TakeInputs(c_, 0);
    GoRound();
  }

 private:
  // Where the function that was started last stands.
  enum class Call { kStarted, kEnded, kLeftAlone };

  // Starts functions as long as they end at once; else leaves, and their end comes back here.
  void GoRound() {
    for (;;) {
      // Functions that end at once look at nothing, not even at this.
      if (c_.step().cancellation->IsCancelled()) return End(c_.step().cancellation->status());
      call_.store(Call::kStarted, std::memory_order_relaxed);
      std::vector<Tensor> args = in_body_ ? std::move(values_) : values_;
      c_.step().functions->Run(in_body_ ? body_ : condition_, c_, std::move(args),
                               [this](Results results) { OnEnd(std::move(results)); });
      // Who comes second goes on; if that is the function's end, `this` may be gone already.
      if (call_.exchange(Call::kLeftAlone, std::memory_order_acq_rel) == Call::kStarted) return;
      if (!Advance()) return;
    }
  }

  void OnEnd(Results results) {
    results_ = std::move(results);
    if (call_.exchange(Call::kEnded, std::memory_order_acq_rel) == Call::kStarted) return;
    if (Advance()) GoRound();
  }

  // Takes the results of the function that has ended. False: so has the loop.
  bool Advance() {
    absl::StatusOr<bool> goes_on = in_body_ ? TakeValues() : TakeCondition();
    if (goes_on.ok() && *goes_on) {
      in_body_ = !in_body_;
      return true;
    }
    if (goes_on.ok()) {
      End(SetOutputs(c_, body_callee_->name(), std::move(values_)));
    } else {
      End(goes_on.status());
    }
    return false;
  }

  absl::StatusOr<bool> TakeCondition() {
    if (!results_.ok()) return results_.status();
    if (results_->size() != 1) {
      return errors::InvalidArgument("function '", condition_callee_->name(),
                                     "', the condition of a loop, must have one result; it has ",
                                     results_->size());
    }
    return Truth(results_->front());
  }

  absl::StatusOr<bool> TakeValues() {
    if (!results_.ok()) return results_.status();
    if (static_cast<int>(results_->size()) != c_.num_outputs()) {
      return errors::InvalidArgument("function '", body_callee_->name(),
                                     "', the body of a loop of ", c_.num_outputs(), " values, has ",
                                     results_->size(), " results");
    }
    values_ = *std::move(results_);
    return true;
  }

  void End(const absl::Status& status) {
    AsyncKernel::Done done = std::move(done_);
    delete this;
    done(status);
  }

  Callee* const body_callee_;
  Callee* const condition_callee_;
  KernelContext& c_;
  AsyncKernel::Done done_;
  std::shared_ptr<FunctionHandle> condition_;
  std::shared_ptr<FunctionHandle> body_;
  std::vector<Tensor> values_;
  bool in_body_ = false;
  std::atomic<Call> call_{Call::kStarted};
  Results results_;
};

class WhileKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    condition_ = std::make_unique<Callee>(init.Attr<FunctionRef>("cond"), /*host_results=*/true);
    body_ = std::make_unique<Callee>(init.Attr<FunctionRef>("body"));
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    (new LoopRun(condition_.get(), body_.get(), &c, std::move(done)))->Start();
  }

 private:
  std::unique_ptr<Callee> condition_;
  std::unique_ptr<Callee> body_;
};

// --- Shapes and gradients

absl::Status DeclaredShapes(ShapeContext& c) {
  const auto& shapes = c.Attr<std::vector<PartialShape>>("output_shapes");
  if (shapes.empty()) return UnknownShape(c);
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return errors::InvalidArgument("output_shapes has ", shapes.size(), " shapes; the node has ",
                                   c.num_outputs(), " outputs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, shapes[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

absl::Status CaseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  return DeclaredShapes(c);
}

absl::Status CallGradient(GradientContext& g) {
  return AddCallGradient(g, {g.Attr<FunctionRef>("f")}, 0, [](const std::vector<FunctionRef>& f) {
    return AttrMap{{"f", f[0]}};
  });
}

absl::Status IfGradient(GradientContext& g) {
  return AddCallGradient(g,
                         {g.Attr<FunctionRef>("then_branch"), g.Attr<FunctionRef>("else_branch")},
                         1, [](const std::vector<FunctionRef>& f) {
                           return AttrMap{{"then_branch", f[0]}, {"else_branch", f[1]}};
                         });
}

absl::Status CaseGradient(GradientContext& g) {
  return AddCallGradient(g, g.Attr<std::vector<FunctionRef>>("branches"), 1,
                         [](const std::vector<FunctionRef>& f) {
                           return AttrMap{{"branches", f}};
                         });
}

TANDEM_OP("PartitionedCall")
    .Inputs("args:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; f:func; config:string=\"\"; "
        "config_proto:string=\"\"; executor_type:string=\"\"")
    .Shape(UnknownShape)
    .Gradient(CallGradient)
    .Cpu(Make<CallKernel>());

TANDEM_OP("StatefulPartitionedCall")
    .Inputs("args:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; f:func; config:string=\"\"; "
        "config_proto:string=\"\"; executor_type:string=\"\"")
    .Stateful()
    .Shape(UnknownShape)
    .Gradient(CallGradient)
    .Cpu(Make<CallKernel>());

TANDEM_OP("If")
    .Inputs("cond:Tcond, input:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tcond:type; Tin:list(type)>=0; Tout:list(type)>=0; then_branch:func; else_branch:func; "
        "output_shapes:list(shape)=[]")
    .Stateful()
    .Shape(DeclaredShapes)
    .Gradient(IfGradient)
    .HostMemory({"cond"})
    .Cpu(Make<IfKernel>());

TANDEM_OP("StatelessIf")
    .Inputs("cond:Tcond, input:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tcond:type; Tin:list(type)>=0; Tout:list(type)>=0; then_branch:func; else_branch:func; "
        "output_shapes:list(shape)=[]")
    .Shape(DeclaredShapes)
    .Gradient(IfGradient)
    .HostMemory({"cond"})
    .Cpu(Make<IfKernel>());

TANDEM_OP("Case")
    .Inputs("branch_index:int32, input:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; branches:list(func)>=1; "
        "output_shapes:list(shape)=[]")
    .Stateful()
    .Shape(CaseShape)
    .Gradient(CaseGradient)
    .HostMemory({"branch_index"})
    .Cpu(Make<CaseKernel>());

TANDEM_OP("StatelessCase")
    .Inputs("branch_index:int32, input:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; branches:list(func)>=1; "
        "output_shapes:list(shape)=[]")
    .Shape(CaseShape)
    .Gradient(CaseGradient)
    .HostMemory({"branch_index"})
    .Cpu(Make<CaseKernel>());

TANDEM_OP("While")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(
        "T:list(type)>=0; cond:func; body:func; output_shapes:list(shape)=[]; "
        "parallel_iterations:int=10")
    .Stateful()
    .Shape(DeclaredShapes)
    .Gradient(AddLoopGradient)
    .Cpu(Make<WhileKernel>());

TANDEM_OP("StatelessWhile")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(
        "T:list(type)>=0; cond:func; body:func; output_shapes:list(shape)=[]; "
        "parallel_iterations:int=10")
    .Shape(DeclaredShapes)
    .Gradient(AddLoopGradient)
    .Cpu(Make<WhileKernel>());

}  // namespace
}  // namespace tandem
