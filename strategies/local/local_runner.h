// LocalRunner: the runner of strategies whose replicas are devices: one session runs the step of
// all replicas of this process.
//
// Where other processes take part (SessionOptions::between_processes) each has a runner of its own
// for a graph of the same program, and all run the same programs in the same order. A step ends
// with Aborted when one of them is lost. State is captured and restored by each alone: nobody waits
// for others in it.
#ifndef TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_
#define TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/in_process.h"
#include "runtime/session/session.h"
#include "strategies/builder.h"
#include "strategies/runner.h"

namespace tandem {

class LocalRunner : public StrategyRunner {
 public:
  // A session over the builder's graph as it is now. `options.collective_groups` is completed with
  // the builder's replicas; `options.between_processes` is given if the builder's graph is one of
  // several processes. Errors: those of Session::Create.
  static absl::StatusOr<std::unique_ptr<LocalRunner>> Create(const StrategyBuilder& builder,
                                                             SessionOptions options);
  ~LocalRunner() override;

  absl::Status Initialize() override;
  absl::StatusOr<int> AddProgram(const RunSignature& signature) override;
  void Start(int program, StepInput input, Done done) override;
  // On the calling thread, which costs no hand-over.
  Result Run(int program, StepInput input) override;
  void CancelSteps(const absl::Status& reason) override;

  absl::StatusOr<StrategyState> CaptureState() override;
  absl::Status RestoreState(const StrategyState& state) override { return TakeState(state); }
  absl::Status TakeState(StrategyState state) override;
  absl::StatusOr<StrategyState> CaptureDetails() override;
  absl::StatusOr<std::vector<std::string>> RestoreDetails(const StrategyState& details) override;
  absl::StatusOr<Tensor> ReadVariable(const std::string& name) override;

  Session& session() { return *session_; }

 private:
  LocalRunner(const StrategyBuilder& builder, std::shared_ptr<BetweenProcesses> between,
              std::unique_ptr<Session> session, bool aligned)
      : builder_(builder),
        between_(std::move(between)),
        session_(std::move(session)),
        aligned_(aligned) {}

  absl::Status CheckBatch(const std::vector<OutputInfo>& feeds,
                          const std::vector<Tensor>& batch) const;
  absl::StatusOr<std::vector<Tensor>> Feeds(int program, StepInput& input) const;
  // The replicas of all processes, as they are now.
  CollectiveGroup Replicas() const;
  // Before a step: if members came or went, or a state was restored, copies become what their
  // aggregate was, so that nothing of it is lost or counted twice.
  absl::Status SpreadAggregates();
  // Whether single copies of the variable are part of what CaptureDetails gives.
  bool HasOwnCopies(const StrategyVariable& variable) const;
  // A step that runs. It keeps what cancels it alive.
  std::shared_ptr<CancellationManager> Begin();
  void NoteResult(const Result& result);
  void End();
  RunOptions Options(const StepInput& input, CancellationManager* cancellation) const;
  // Adds the nodes that read and assign variables from outside of steps, once.
  absl::Status AddStateNodes();

  const StrategyBuilder& builder_;
  const std::shared_ptr<BetweenProcesses> between_;  // Null: there is one process.
  const std::unique_ptr<Session> session_;
  const bool aligned_;
  std::vector<std::unique_ptr<Session::Callable>> programs_;
  std::vector<std::vector<OutputInfo>> feeds_;  // Of each program: what it wants to be fed with.
  bool has_state_nodes_ = false;

  // What the copies of variables are whose aggregate goes over several processes
  // (StrategyVariable::aggregate).
  enum class Copies {
    kInitial,     // No step has been taken.
    kOfLastStep,  // As the replicas of a generation of the group assigned them.
    kRestored,    // The aggregate counts: it was restored.
  };

  Mutex mu_;
  CondVar ended_;
  // Of the steps that run. Replaced when it is cancelled, so that later steps can run.
  std::shared_ptr<CancellationManager> cancellation_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<CancellationManager>();
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  Copies copies_ ABSL_GUARDED_BY(mu_) = Copies::kInitial;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;  // In which the last step began.
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_
