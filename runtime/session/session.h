// Session: runs parts of a graph.
//
//   TANDEM_ASSIGN_OR_RETURN(auto session, Session::Create(*scope.graph()));
//   TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> out,
//                           session->Run({{"x", x}}, {"loss"}, {"train"}));
//
// For each signature of feeds, fetches and targets the graph is pruned, placed and compiled
// to a plan, once; a run then takes a recycled state and costs microseconds. The calling thread
// runs the step itself.
//
// State (variables, queues, the position of random ops) belongs to the session's devices and nodes:
// it is shared by all its plans and lives as long as the session.
//
// Threads: any thread may call any method; any number of runs may go on at once.
// Lifetime: REQUIRES: no run goes on when the session is destroyed.
#ifndef TANDEM_RUNTIME_SESSION_SESSION_H_
#define TANDEM_RUNTIME_SESSION_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/graph/graph.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/rendezvous.h"
#include "core/passes/optimize.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor.h"
#include "runtime/device/session_devices.h"
#include "runtime/executor/trace.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace tandem {

class BetweenProcesses;
class ParameterStore;

// The kernels of stateful nodes, which hold the nodes' state (the position of a random op).
class SharedKernelCache;
std::shared_ptr<SharedKernelCache> NewSharedKernelCache();

struct SessionOptions {
  // Null: as the environment says (DeviceSet::FromEnvironment). May be shared with other sessions.
  std::shared_ptr<DeviceSet> devices;
  // Given by another session (session_devices()), its variables and queues are this one's too.
  // Null: the session has its own. `devices` is then not looked at.
  std::shared_ptr<SessionDevices> session_devices;
  // Given to several sessions on the same `session_devices`, a stateful node of one name is the
  // same node in all of them. Null: the session's nodes are its own.
  std::shared_ptr<SharedKernelCache> shared_kernels;
  // Groups of replicas in this process that reduce values with each other: name and members.
  std::vector<std::pair<std::string, int>> collective_groups;
  // A step whose replicas wait longer for one of them ends with DeadlineExceeded, naming it.
  absl::Duration collective_timeout = absl::Seconds(60);
  // For groups that have members in other processes (runtime/collective/group_runtime.h); all of
  // them do then. Null: there are no others.
  std::shared_ptr<BetweenProcesses> between_processes;
  // How steps reach parameter servers (core/kernel/parameter_store.h). Null: they do not.
  std::shared_ptr<ParameterStore> parameter_store;
  // See PlaceOptions.
  bool soft_placement = false;
  std::string default_device;
  // Threads that inner loops of the process may use. 0: as many as there are run tokens. 1: every
  // kernel computes with one thread (deterministic mode).
  int inner_parallelism = 0;
  // What a run ends with that fetches a value of a branch that was not taken. Servers of TensorFlow
  // say INTERNAL.
  absl::StatusCode dead_fetch_code = absl::StatusCode::kInvalidArgument;
  // Which passes run on every graph; the environment's TANDEM_PASSES switches them on top of it
  // (core/passes/optimize.h). The evaluator is the session's own when none is given.
  OptimizeOptions optimize;
};

struct RunOptions {
  // The run ends with DeadlineExceeded, naming the nodes that wait, when it takes longer.
  absl::Duration timeout = absl::InfiniteDuration();
  bool trace = false;  // Fills RunMetadata::events.
  // The number by which collectives of this run find those of the same step in other processes.
  // Negative: no other process takes part.
  int64_t collective_step = -1;
  // Cancelling it ends the run with its reason. May be null; outlives the run.
  CancellationManager* cancellation = nullptr;
  // Where the _Send and _Recv nodes of a step of several tasks meet; outlives the run. Null: the
  // graph has none.
  Rendezvous* rendezvous = nullptr;
  bool partition_graphs = false;  // Fills RunMetadata::partition_graphs.
};

struct RunMetadata {
  std::vector<StepTracer::Event> events;
  // What ran, as passes left it, for people to look at: nodes that only the runtime makes are among
  // them. One for each task.
  std::vector<std::shared_ptr<const tensorflow::GraphDef>> partition_graphs;
};

class Session {
 public:
  using Feeds = std::vector<std::pair<std::string, Tensor>>;

  // A run with names resolved ahead, for tight loops. Threads and lifetime as the session's, which
  // it must not outlive.
  class Callable {
   public:
    using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

    virtual ~Callable() = default;
    // `feeds` in the order of the signature. Results in the order of its fetches.
    virtual absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> feeds,
                                                    const RunOptions& options = {},
                                                    RunMetadata* metadata = nullptr) = 0;
    // As Run, but returns at once: threads of the process run the step. `done` is called once, on
    // one of them, also when the arguments do not fit. `metadata` may be null; it is filled before
    // `done` is called. Deadlines are the caller's affair, who cancels the run: InvalidArgument
    // when `options` has one. The session may not be destroyed before `done` has been called.
    virtual void Start(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
                       Done done) = 0;
  };

  // One step that is given its feeds, and asked for its results, bit by bit, in any number of
  // calls. It begins with the first call, and is over when all feeds and fetches were named and the
  // step has ended, or with its first error.
  //
  // Threads: any. Lifetime: must not outlive the session.
  class PartialRun {
   public:
    // REQUIRES: no call goes on. Ends the step, if it runs, and waits for it.
    virtual ~PartialRun() = default;

    // Results in the order of `fetches`. Of the options the trace counts in the first call, whose
    // events are in the metadata of the last one.
    //
    // InvalidArgument, and the run goes on: a name that the signature does not have, or that an
    // earlier call named; a feed that does not fit; a fetch that depends on a feed that is still
    // missing. InvalidArgument, too, when it is over. All other errors, Cancelled and
    // DeadlineExceeded among them, are the step's, and end it.
    virtual absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                                    const std::vector<std::string>& fetches,
                                                    RunMetadata* metadata) = 0;
    absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds,
                                            const std::vector<std::string>& fetches) {
      return Run(RunOptions(), feeds, fetches, nullptr);
    }
    // As Run, but returns at once; otherwise as Callable::Start.
    virtual void Start(const RunOptions& options, Feeds feeds, std::vector<std::string> fetches,
                       RunMetadata* metadata, Callable::Done done) = 0;
    virtual bool is_over() const = 0;
    // Cancels the step with `reason`, which is no success. `ended` is called once, on any thread,
    // when nothing of it runs any more.
    virtual void End(const absl::Status& reason, absl::AnyInvocable<void()> ended) = 0;
  };

  virtual ~Session() = default;

  // A session over a copy of `graph`. Errors: those of DeviceSet::FromEnvironment, and of
  // SwitchPassesFromEnvironment.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph,
                                                         SessionOptions options = {});

  // A session on the server of a target, "grpc://host:port"; see runtime/rpc/remote_session.h,
  // whose library defines this.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const std::string& target,
                                                         const Graph& graph);

  // Runs `targets` and what `fetches` need. Feeds replace the values of outputs.
  //
  // InvalidArgument or NotFound: a name or a feed does not fit (type, shape), or the graph cannot
  // be compiled for this signature. Otherwise the first error of a kernel, with the node's name, op
  // and device. Cancelled, DeadlineExceeded: see RunOptions.
  absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets = {}) {
    return Run(RunOptions(), feeds, fetches, targets, nullptr);
  }
  virtual absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                                  const std::vector<std::string>& fetches,
                                                  const std::vector<std::string>& targets,
                                                  RunMetadata* metadata) = 0;

  virtual absl::StatusOr<std::unique_ptr<Callable>> MakeCallable(const RunSignature& signature) = 0;

  // A run of this signature in several calls. Errors: those of MakeCallable; Unimplemented where a
  // session has no such runs.
  virtual absl::StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(
      const RunSignature& /*signature*/) {
    return absl::UnimplementedError("this session has no partial runs");
  }

  // Changes the session's graph: `extend` adds nodes. What exists already may not be changed or
  // removed. When it fails the graph and its functions are as they were.
  virtual absl::Status Extend(const std::function<absl::Status(Graph& graph)>& extend) = 0;

  // Where the random ops stand that go on from run to run, by node, sorted: those that were
  // compiled so far; those inside functions by "<function>@<device> <node>". Of a node that several
  // plans place differently, one of them. REQUIRES, for a state that belongs
  // together: no run goes on.
  virtual std::vector<std::pair<std::string, Tensor>> RandomPositions() = 0;
  // NotFound: no such op was compiled. InvalidArgument: no position.
  virtual absl::Status SetRandomPosition(const std::string& node, const Tensor& position) = 0;

  virtual DeviceSet& devices() = 0;
  virtual const std::shared_ptr<SessionDevices>& session_devices() const = 0;

  // Cancels the runs that go on with `reason`, which is no success, and refuses new ones with it.
  virtual void Close(const absl::Status& reason) = 0;
  void Close() { Close(absl::CancelledError("the session was closed")); }
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_SESSION_H_
