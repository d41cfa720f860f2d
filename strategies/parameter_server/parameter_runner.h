// ParameterRunner: the run-time half of the parameter-server strategy, in the process of the
// program (the coordinator). It cuts each kind of step (cut.h), has the shards defined (servers.h)
// and gives the steps to workers (fleet.h).
//
// In a synchronous training a step is cut into a part a worker. The parts' updates are one at each
// shard; a step may begin while the one before it has not ended, and reads when that one has
// written. Otherwise each step is run by one worker, and updates when it is done.
//
// Steps end in any order. Whatever is lost meanwhile, a step is run until it has ended, counts once
// at each shard, and does not end with Aborted. Programs that update nothing (evaluation,
// prediction) begin when all updates that were started before have ended.
//
// Threads and lifetime as StrategyRunner.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_RUNNER_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "proto/parameter_server.pb.h"
#include "runtime/cluster/status_page.h"
#include "strategies/parameter_server/cut.h"
#include "strategies/parameter_server/fleet.h"
#include "strategies/parameter_server/note_keeper.h"
#include "strategies/parameter_server/parameter_builder.h"
#include "strategies/parameter_server/servers.h"
#include "strategies/parameter_server/servers_page.h"
#include "strategies/runner.h"

namespace tandem::parameter_server {

struct ParameterRunnerOptions {
  enum class Mode { kAsynchronous, kBoundedStaleness, kSynchronous };
  Mode mode = Mode::kAsynchronous;
  int staleness = 4;
  int backup_workers = 0;
  FleetOptions fleet;      // Without on_trouble.
  ServersOptions servers;  // Of the callbacks only on_refused.
  absl::Duration step_timeout = absl::Seconds(60);
  // A page over HTTP that says how the servers are (servers_page.h): its port, 0 for one that is
  // free. None: there is none.
  absl::optional<int> status_port;
  // Called once, when the runner ends after a step, or the servers, had failed for good. The
  // servers then keep what they have.
  std::function<void()> on_failed;
};

class ParameterRunner final : public StrategyRunner {
 public:
  // For the graph as it is now. InvalidArgument: as the options say. Waits for nobody.
  static absl::StatusOr<std::unique_ptr<ParameterRunner>> Create(const ParameterBuilder& builder,
                                                                 ParameterRunnerOptions options);
  ~ParameterRunner() override;

  // Waits for the servers. If they have the variables of an earlier life of this job's coordinator
  // these are kept.
  absl::Status Initialize() override { return InitializeUnless({}); }
  absl::Status InitializeUnless(const std::function<bool()>& wants_stop) override;
  absl::StatusOr<int> AddProgram(const RunSignature& signature) override;
  void Start(int program, StepInput input, Done done) override;
  int max_steps_in_flight() const override;
  void CancelSteps(const absl::Status& reason) override;
  std::vector<MemberEvent> TakeMemberEvents() override;

  absl::StatusOr<StrategyState> CaptureState() override;
  absl::Status RestoreState(const StrategyState& state) override;
  absl::StatusOr<Tensor> ReadVariable(const std::string& name) override;

  // With the first shard that has variables.
  bool KeepsNotes() const override { return notes_ != nullptr; }
  bool WantsNote() override;
  void KeepNote(StrategyState note) override;
  absl::StatusOr<StrategyState> TakeNote() override;

  // "http://127.0.0.1:8080/"; empty: there is no page.
  std::string status_address() const { return page_ == nullptr ? "" : page_->address(); }
  // How many of the workers are there now.
  int workers_there() const { return fleet_->num_there(); }
  // What the shards say of themselves now: how old gradients are, how far replicas are behind.
  // Waits for servers that are lost; Unavailable, DeadlineExceeded: one does not come back.
  absl::StatusOr<std::vector<ShardReport>> AskServers() { return servers_->AskReports(); }
  // Updates that a shard has applied.
  int64_t version(int shard) const { return servers_->version(shard); }

 private:
  struct Program {
    int worker_program = 0;
    bool has_route = true;
    bool updates = false;
    std::set<int> shards;  // It calls.
    std::set<int> pushes;  // It updates.
    std::vector<OutputInfo> feeds;
    std::vector<absl::optional<Join>> joins;  // Of each fetch; none: all parts have the same.
  };
  struct Part {
    int64_t sequence = 0;
    int64_t examples = 0;
    std::vector<Tensor> feeds;
    std::vector<Tensor> results;
    bool has_ended = false;
    bool has_results = false;
  };
  struct Step {
    int64_t order = 0;
    const Program* program = nullptr;
    std::vector<Part> parts;
    int enough = 1;  // Parts that have to end.
    int64_t all_examples = 0;
    int64_t update = -1;  // How many updating steps were started before it; -1: it reads.
    std::map<int, int64_t> versions;  // Synchronous: of each shard before it.
    int ended = 0;                    // With results.
    std::set<int> restored;  // Shards that came back while it ran: it may be in their version.
    bool has_begun = false;
    bool is_over = false;  // `done` is being called, or was.
    Done done;
  };
  using StepPtr = std::shared_ptr<Step>;

  ParameterRunner(const ParameterBuilder& builder, ParameterRunnerOptions options);

  bool is_synchronous() const {
    return options_.mode == ParameterRunnerOptions::Mode::kSynchronous;
  }
  absl::Status CheckBatch(const Program& program, const StepInput& input) const;
  absl::StatusOr<StepPtr> MakeStep(const Program& program, StepInput input, Done done);
  // After a synchronous step that failed: waits until nothing runs, and learns where the shards
  // are.
  absl::Status Resynchronize();
  // Starts the steps that may begin now.
  void Pump();
  bool MayBegin(const Step& step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Submit(const StepPtr& step, size_t part);
  absl::optional<Tensor> RouteOf(const Step& step, const Part& part);
  void PartEnded(const StepPtr& step, size_t part, Result result);
  // Ends steps that are not over with `status`.
  void EndSteps(const std::vector<StepPtr>& steps, const absl::Status& status);
  // From here on the step is over; gives the parts that still run, which are to be cancelled.
  std::vector<int64_t> Close(Step& step, bool has_failed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Calls `done` of a step that was closed.
  void CallDone(const StepPtr& step, Result result);
  static Result JoinParts(const Step& step);
  void Restored(int shard, int64_t version);
  void ServersChanged();
  TrainingStatistics Statistics() const;
  absl::Status ServePage(int port);
  // All values of some variables, whole.
  absl::StatusOr<StrategyState> ReadWhole(const std::vector<const StrategyVariable*>& variables);

  const ParameterBuilder& builder_;
  const ParameterRunnerOptions options_;
  const uint64_t client_;
  std::vector<std::unique_ptr<Program>> programs_;
  bool existed_ = false;
  int note_shard_ = -1;
  std::vector<int64_t> slot_bytes_;  // Of each shard, once there is a page.

  mutable Mutex mu_;
  CondVar changed_;
  int64_t next_order_ ABSL_GUARDED_BY(mu_) = 1;
  int64_t next_update_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_sequence_ ABSL_GUARDED_BY(mu_) = 1;
  // Of each shard: what it has when all that was started has ended (synchronous), and what it has
  // at least.
  std::vector<int64_t> next_version_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> acknowledged_ ABSL_GUARDED_BY(mu_);
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool needs_versions_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int64_t, StepPtr> steps_ ABSL_GUARDED_BY(mu_);  // By order; those that have not ended.
  std::set<int64_t> open_sequences_ ABSL_GUARDED_BY(mu_);  // Of parts that have not ended.
  int calls_ ABSL_GUARDED_BY(mu_) = 0;                     // Of `done`, that run.

  std::unique_ptr<StatusPage> page_;   // Null: none was asked for.
  std::unique_ptr<NoteKeeper> notes_;  // Null before Initialize.
  // These call the object on their threads.
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_RUNNER_H_
