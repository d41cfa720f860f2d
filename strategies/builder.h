// StrategyBuilder: the graph-time half of a strategy. It decides where variables live and in how
// many copies, runs the replica function once for each replica, and puts reductions in as nodes.
// The run-time half, which starts steps, is strategies/runner.h.
//
// Terms
//   replica   One run of the model on a part of the global batch. In deterministic mode there are
//             always V of them (virtual replicas, see ReplicaBuilderOptions), several of which
//             share a device.
//             A strategy over several processes builds a graph in each, with the replicas of that
//             process; numbers of replicas below count these. All reductions are over the replicas
//             of all processes.
//   copy      One instance of a mirrored variable: one for each device.
//   part      Some rows of a variable, where those of one copy lie in several places.
//   step      What one run of the graph does. A graph may hold several (training, evaluation).
//
// The rules, for every strategy: the loss is the mean over the global batch, so gradients are
// summed over replicas; no variable is written before all reductions of the step have arrived;
// names of variables do not depend on the strategy; sizes of groups are read when the step runs and
// are no constants of the graph.
//
//   builder.BeginStep("train", step);
//   builder.Run([&](const ReplicaContext& replica) { … });
//   auto reduced = builder.ReduceGradients(gradients);
//   for (…) builder.Update(variable, …);
//   auto done = builder.EndStep();
//
// The graph depends on nothing but the program: three processes that build it get the same, byte
// for byte.
//
// Threads: one. Lifetime: the builder owns the variables; the graph outlives it as long as a Scope
// does.
#ifndef TANDEM_STRATEGIES_BUILDER_H_
#define TANDEM_STRATEGIES_BUILDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/scope.h"
#include "core/kernel/collective.h"
#include "core/op/gradient_context.h"
#include "core/tensor/shape.h"

namespace tandem {

// How the copies of a variable are kept.
enum class Synchronization {
  kMirrored,  // All copies are equal at all times: each gets the same updates.
  kOnRead,  // Each replica has its own, which are aggregated when somebody reads them from outside.
};

// How values that replicas assign, or copies that are read from outside, become one.
enum class Aggregation { kNone, kSum, kMean, kOnlyFirstReplica };

struct VariableSpec {
  std::string name;  // "<layer path>/<role>"; a slot is "<variable>/<optimizer>/<slot>".
  DataType dtype = kFloat32;
  Shape shape;
  // Adds the nodes that compute the initial value, of `dtype` and `shape`.
  std::function<Output(const Scope&)> initializer;
  // Computes some rows alone, those of a part of `shape` whose first one is `first_row`, for
  // variables whose whole is too large. They need not be those that `initializer` gives, but of the
  // same distribution. May be empty; may give an invalid output: it cannot.
  std::function<Output(const Scope&, const Shape& shape, int64_t first_row)> part_initializer =
      nullptr;
  // If it is cut into n parts, part p has rows p, p + n, p + 2n, … and not a range of rows, so that
  // rows with near numbers lie apart.
  bool spread_rows = false;
  bool trainable = true;
  Synchronization synchronization = Synchronization::kMirrored;
  Aggregation aggregation = Aggregation::kMean;
};

// A variable as the strategy keeps it.
class StrategyVariable {
 public:
  struct Part {
    int64_t first = 0;   // Row.
    int64_t stride = 1;  // From one of its rows to the next.
    Shape shape;
  };

  StrategyVariable(VariableSpec spec, std::vector<Output> handles, Output aggregate = Output())
      : spec_(std::move(spec)), handles_(std::move(handles)), aggregate_(aggregate) {}
  // Of one copy, with a handle for each part.
  StrategyVariable(VariableSpec spec, std::vector<Output> handles, std::vector<Part> parts)
      : spec_(std::move(spec)), handles_(std::move(handles)), parts_(std::move(parts)) {}

  const VariableSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  // The parts, where the strategy keeps variables on servers (one at least); empty elsewhere.
  const std::vector<Part>& parts() const { return parts_; }
  // What is updated by itself: copies or, of a variable that has some, parts.
  int num_copies() const { return static_cast<int>(handles_.size()); }
  // Of a copy or part.
  const Shape& shape(int copy) const {
    return parts_.empty() ? spec_.shape : parts_[static_cast<size_t>(copy)].shape;
  }
  // The resource handle of a copy: one a device if mirrored, one a replica if read on demand.
  Output handle(int copy) const { return handles_[static_cast<size_t>(copy)]; }
  // Of one that is synchronized on read, where replicas of other processes have copies, too: the
  // handle of a variable on the host that holds what all copies are together, since the last step
  // that assigned them. So whoever reads it needs nobody. Invalid: there is none.
  Output aggregate() const { return aggregate_; }

 private:
  const VariableSpec spec_;
  const std::vector<Output> handles_;
  const Output aggregate_;
  const std::vector<Part> parts_;
};

class Strategy;
class StrategyBuilder;

// What the replica function sees.
class ReplicaContext {
 public:
  ReplicaContext(StrategyBuilder* builder, int replica, Scope scope)
      : builder_(builder), replica_(replica), scope_(std::move(scope)) {}

  // Among those of this process.
  int replica() const { return replica_; }
  int num_replicas() const;
  // Nodes that are added here run on the replica's device.
  const Scope& scope() const { return scope_; }
  // The number of the step, from 0: int64 scalar, in host memory. REQUIRES: the step has one
  // (StrategyBuilder::BeginStep); has_step tells.
  Output step() const;
  bool has_step() const;
  // A seed, int64 [2], for stateless random ops: another one in each step and replica, the same in
  // every process and however replicas are spread over devices. REQUIRES: has_step().
  Output StepSeed(int64_t seed) const;
  ReplicaContext WithScope(Scope scope) const { return {builder_, replica_, std::move(scope)}; }

  // The variable's value, as this replica sees it: from before the step, or what the replica has
  // assigned in it. Read once in each step and replica.
  Output Read(const StrategyVariable& variable) const;
  // Rows of the variable's value: those that `ids` (int32 or int64, of any shape) says, [ids…,
  // row…]. As GatherV2 of what Read gives; but where the variable is not in this process it is not
  // read, and only these rows travel. The step fails with InvalidArgument when an id is no row.
  // Nodes are added to `scope`, one of this replica's.
  Output Lookup(const StrategyVariable& variable, Output ids, const Scope& scope) const;
  // The gradients of `loss`, one of this step's outputs, with respect to the variables, as this
  // replica has read and looked them up in the step: AddGradients, but it knows of lookups.
  absl::StatusOr<std::vector<Gradient>> Gradients(
      Output loss, const std::vector<StrategyVariable*>& variables) const;
  // The handle of the copy that this replica uses. REQUIRES: the variable has no parts, or one.
  Output Handle(const StrategyVariable& variable) const;
  // Gives the variable a new value at the end of the step, after all of its reductions. A mirrored
  // variable takes the replicas' values, aggregated as its spec says (kNone is an error: which one
  // would it be?), at every copy; one that is synchronized on read takes this replica's value at
  // its own copy. When it is assigned several times in a step the last one counts. Every replica
  // has to make the same calls.
  absl::Status Assign(const StrategyVariable& variable, Output value) const;
  // Reduces values over all replicas, inside the step. Every replica has to make the same calls in
  // the same order; EndStep refuses a step in which their numbers differ. Sums and means can be
  // differentiated. The mean of whole numbers is cut to one. After an error of the scope (which is
  // set when no step has begun, too) what is returned is invalid.
  std::vector<Output> AllReduce(Reduction reduction, const std::vector<Output>& values) const;

  StrategyBuilder& builder() const { return *builder_; }

 private:
  StrategyBuilder* builder_;
  int replica_;
  Scope scope_;
};

// One value for each replica, in order.
using PerReplica = std::vector<Output>;
using PerReplicaGradient = std::vector<Gradient>;

class StrategyBuilder {
 public:
  virtual ~StrategyBuilder() = default;

  // The strategy that made it, which alone can run what it builds; null: none did.
  const Strategy* strategy() const { return strategy_; }
  void set_strategy(const Strategy* strategy) { strategy_ = strategy; }

  // Outside all replicas, on the host.
  virtual Scope host_scope() const = 0;
  Graph* graph() const { return host_scope().graph(); }

  virtual int num_replicas() const = 0;
  // Copies of a mirrored variable.
  virtual int num_copies() const = 0;
  // Which copy a replica uses.
  virtual int copy_of(int replica) const = 0;
  virtual std::string device_of_copy(int copy) const = 0;

  // Creates the variable, or returns the one that has the name already. InvalidArgument: that one
  // has another type or shape, or there is no initializer.
  virtual absl::StatusOr<StrategyVariable*> Variable(const VariableSpec& spec) = 0;
  // All variables, in order of creation.
  virtual std::vector<StrategyVariable*> variables() const = 0;
  // Runs as a target once before the first step: gives every copy its initial value.
  virtual std::string initializer() const = 0;

  // Calls `replica_fn` once for each replica, in order. Stops at the first error.
  absl::Status Run(absl::FunctionRef<absl::Status(const ReplicaContext& replica)> replica_fn);

  // Begins a step: what is added until EndStep belongs to it. `name` must be new to the graph.
  // `step`, int64 scalar, counts the steps from 0; without it nothing in the step may depend on its
  // number, and nothing may be assigned. FailedPrecondition: another step has not ended.
  virtual absl::Status BeginStep(absl::string_view name, Output step = Output()) = 0;
  // The node after which all updates and assignments of the step are done. InvalidArgument: the
  // replicas did not make the same calls of AllReduce and Assign; the step could not run.
  virtual absl::StatusOr<Node*> EndStep() = 0;

  // Reduces one value of each replica to one on the host; for each entry of `values`. What is
  // reduced together travels together between processes. Where there are several, in a step
  // (between BeginStep and EndStep) the updates wait for it, and a step that loses a process then
  // has changed nothing: results that the step shall have belong there, and may not depend on its
  // updates. InvalidArgument: not one valid value of each replica.
  virtual absl::StatusOr<std::vector<Output>> ReduceAllToHost(
      Reduction reduction, const std::vector<PerReplica>& values) = 0;
  // The same of one value.
  absl::StatusOr<Output> ReduceToHost(Reduction reduction, const PerReplica& values);
  // Joins the values of all replicas on the host, in order, along `axis`. Updates wait for it as
  // for ReduceAllToHost. InvalidArgument, between processes: the axis is not the first one, and the
  // number of dimensions is not known.
  virtual absl::StatusOr<Output> GatherToHost(const PerReplica& values, int axis) = 0;
  // Reduces gradients (one list entry a variable) over the replicas; gives for each the gradient at
  // each copy, [variable][copy]. Dense gradients travel in buckets, in reverse order of the list,
  // since the last layers' gradients are ready first. Sparse ones stay sparse: rows of all replicas
  // one after the other. InvalidArgument: a list has not one gradient of each replica, only some of
  // the replicas have one, or some are sparse and others are not.
  virtual absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients) = 0;
  // What each copy or part of the variable is updated with, of a gradient that exists at each copy:
  // the same, or the rows of each part, counted as the part counts them and none named twice.
  virtual absl::StatusOr<std::vector<Gradient>> SplitGradient(const StrategyVariable& variable,
                                                              const std::vector<Gradient>& copies);

  // No variable changes in this step before `node` has run. Reductions and reads are waited for
  // anyway. InvalidArgument: null.
  virtual absl::Status HoldUpdates(Node* node) = 0;
  // Where nodes run that work on what was reduced for a copy, before the updates.
  virtual Scope CopyScope(int copy) = 0;
  // Calls `update` once for each copy, or part, of a mirrored variable. What it adds runs on the
  // device of that, after all reductions of the step; it returns the node after which the update is
  // done.
  // InvalidArgument: the variable is synchronized on read; replicas assign those.
  virtual absl::Status Update(
      const StrategyVariable& variable,
      absl::FunctionRef<absl::StatusOr<Node*>(const Scope& scope, Output handle, int copy)>
          update) = 0;

 protected:
  friend class ReplicaContext;
  virtual Scope ReplicaScope(int replica) = 0;
  virtual Output CurrentStep() const = 0;  // Invalid: the step has no number.
  // How many replicas the processes before this one have: int64 scalar, in host memory. Invalid:
  // none, since there is one process.
  virtual Output FirstReplica() { return {}; }
  virtual absl::Status AssignVariable(int replica, const StrategyVariable& variable,
                                      Output value) = 0;
  virtual Output ReadVariable(int replica, const StrategyVariable& variable,
                              const Scope& scope) = 0;
  // If the whole variable is read, in `read_scope`.
  virtual Output LookUp(int replica, const StrategyVariable& variable, const Output& ids,
                        const Scope& read_scope, const Scope& scope);
  virtual absl::StatusOr<std::vector<Gradient>> GradientsOf(
      int replica, const Output& loss, const std::vector<StrategyVariable*>& variables,
      const Scope& scope);
  virtual std::vector<Output> AllReduce(int replica, Reduction reduction,
                                        const std::vector<Output>& values, const Scope& scope) = 0;

 private:
  const Strategy* strategy_ = nullptr;  // Not looked into.
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_BUILDER_H_
