// LocalRunner: the runner of strategies whose replicas all live in this process: one session runs
// the whole step.
#ifndef TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_
#define TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "strategies/builder.h"
#include "strategies/runner.h"

namespace tandem {

class LocalRunner : public StrategyRunner {
 public:
  // A session over the builder's graph as it is now. `options.collective_groups` is completed with
  // the builder's replicas. Errors: those of Session::Create.
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
  LocalRunner(const StrategyBuilder& builder, std::unique_ptr<Session> session, bool aligned)
      : builder_(builder), session_(std::move(session)), aligned_(aligned) {}

  absl::Status CheckBatch(const std::vector<OutputInfo>& feeds,
                          const std::vector<Tensor>& batch) const;
  absl::StatusOr<std::vector<Tensor>> Feeds(int program, StepInput& input) const;
  // A step that runs. It keeps what cancels it alive.
  std::shared_ptr<CancellationManager> Begin();
  void End();
  static RunOptions Options(const StepInput& input, CancellationManager* cancellation);
  // Adds the nodes that read and assign variables from outside of steps, once.
  absl::Status AddStateNodes();

  const StrategyBuilder& builder_;
  const std::unique_ptr<Session> session_;
  const bool aligned_;
  std::vector<std::unique_ptr<Session::Callable>> programs_;
  std::vector<std::vector<OutputInfo>> feeds_;  // Of each program: what it wants to be fed with.
  bool has_state_nodes_ = false;

  Mutex mu_;
  CondVar ended_;
  // Of the steps that run. Replaced when it is cancelled, so that later steps can run.
  std::shared_ptr<CancellationManager> cancellation_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<CancellationManager>();
  int running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_LOCAL_LOCAL_RUNNER_H_
