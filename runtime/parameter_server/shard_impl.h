// What is behind Shard. Calls go through it like this:
//
//   Push -> Submit -> (a name that is in progress: waits)
//                  -> (a round: waits for its parts)     -> queue -> Run -> Finish -> Answer
//                  -> (no round)                         -> queue -> Run -> Finish -> Answer
//   Pull -> (a version: waits) -> StartPull -> Answer
//
// All decisions are made under one lock; what follows from them (runs, answers) is collected in a
// Todo and done after it was released. A call is counted until it is answered, and what is still
// to be done belongs to calls that are counted, so that this is alive as long as it is needed.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_IMPL_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_IMPL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "runtime/parameter_server/applied_names.h"
#include "runtime/parameter_server/round.h"
#include "runtime/parameter_server/shard.h"
#include "runtime/parameter_server/shard_graph.h"

namespace tandem::parameter_server {

// InvalidArgument: it names no push.
absl::Status CheckPushId(const PushId& id);

class Shard::Impl {
 public:
  Impl(ShardOptions options, std::unique_ptr<ShardGraph> graph)
      : options_(std::move(options)), graph_(std::move(graph)) {}
  ~Impl();

  ShardGraph& graph() { return *graph_; }
  void Pull(const std::string& program, std::vector<Tensor> arguments, int64_t wait_for_version,
            CancellationManager* cancellation, Done done);
  void Push(const PushId& id, const Round* round, const std::string& program,
            std::vector<Tensor> arguments, int64_t pulled_version,
            CancellationManager* cancellation, Done done);
  absl::Status Apply(const AppliedPush& push);
  absl::StatusOr<ShardState> Capture();
  absl::Status Restore(ShardState state);
  absl::StatusOr<std::vector<Tensor>> Read(const std::vector<std::string>& variables);
  absl::Status Write(std::vector<std::pair<std::string, Tensor>> variables);
  int64_t version() const;
  int64_t changes() const;
  ShardStatus status() const;
  std::vector<PushId> newest() const;
  void Close(const absl::Status& reason);

 private:
  // Where a call waits.
  enum class Place { kNowhere, kVersion, kName, kRound, kQueue };

  struct Call {
    int64_t number = 0;
    const ShardProgram* program = nullptr;
    std::vector<Tensor> arguments;
    int64_t bytes = 0;
    bool is_pull = false;
    int64_t version = 0;  // Of a pull: that it waits for, then that it began with.
    PushId id;            // Of a push, as all below.
    absl::optional<Round> round;
    int64_t pulled_version = -1;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = 0;
    Done done;
    // Under mu_.
    Place place = Place::kNowhere;
    bool is_cancelled = false;
  };
  using CallPtr = std::shared_ptr<Call>;

  // One run of a program that updates: of a push, or of a round.
  struct Update {
    const ShardProgram* program = nullptr;
    std::vector<Tensor> arguments;
    std::vector<CallPtr> calls;
    int64_t round = -1;
    std::vector<RoundPart> parts;  // Not combined yet.
  };
  using UpdatePtr = std::shared_ptr<Update>;

  class Todo {
   public:
    void Add(absl::AnyInvocable<void()> item) { items_.push_back(std::move(item)); }
    // REQUIRES: mu_ is not held.
    void Do() {
      for (auto& item : items_) std::exchange(item, nullptr)();
    }

   private:
    std::vector<absl::AnyInvocable<void()>> items_;
  };

  // Counts the call, and lets it be cancelled from here on. Not OK, and all is over: it was
  // answered.
  absl::Status Accept(const CallPtr& call) ABSL_LOCKS_EXCLUDED(mu_);
  void Cancel(const CallPtr& call) ABSL_LOCKS_EXCLUDED(mu_);
  // The last that is done with a call; this may be gone afterwards.
  void Answer(const CallPtr& call, absl::StatusOr<ShardAnswer> answer) ABSL_LOCKS_EXCLUDED(mu_);
  void AnswerLater(CallPtr call, absl::StatusOr<ShardAnswer> answer, Todo& todo);

  // Where calls wait.
  void Put(const CallPtr& call, Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null: it does not wait.
  CallPtr Take(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // ResourceExhausted: a call that was put with others is one too many.
  absl::Status CheckMemory(const Call& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes a call that waits away from there, and gives its name free.
  void Leave(const CallPtr& call, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Pushes.
  void Submit(const CallPtr& call, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitForName(const CallPtr& call, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JoinRound(const CallPtr& call, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enqueue(const CallPtr& call, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Those that waited for a name which was not applied after all.
  void Resubmit(const std::vector<int64_t>& waiters, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Aborts parts of rounds whose steps were given up.
  void GiveUp(const std::vector<int64_t>& calls, const char* why, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts the next round into the queue when it is complete.
  void StartRound(Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts what may run.
  void Pump(Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayStart() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !stopped_ && stopping_ == 0 && (!options_.ordered || running_ == 0);
  }
  void Run(const UpdatePtr& update) ABSL_LOCKS_EXCLUDED(mu_);
  void CombineAndStart(const UpdatePtr& update) ABSL_LOCKS_EXCLUDED(mu_);
  void Start(const UpdatePtr& update) ABSL_LOCKS_EXCLUDED(mu_);
  void Finish(const UpdatePtr& update, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndUpdate(const Update& update, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells on_applied.
  void Report(const UpdatePtr& update, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the names of calls that were applied, and answers them and those that wait for them.
  void AnswerApplied(const std::vector<CallPtr>& calls, const absl::Status& status, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteStaleness(const Update& update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After the version has grown: wakes who waits for it.
  void Advance(Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends all pushes that wait.
  void EndWaitingPushes(const absl::Status& reason, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void StartPull(const CallPtr& call) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `body` while no update runs; `body` may take mu_.
  absl::Status WhileStopped(absl::FunctionRef<absl::Status(Todo& todo)> body)
      ABSL_LOCKS_EXCLUDED(mu_);

  const ShardOptions options_;
  const std::unique_ptr<ShardGraph> graph_;

  mutable Mutex mu_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;     // That were accepted and not answered.
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;   // Updates.
  int64_t stopping_ ABSL_GUARDED_BY(mu_) = 0;  // Who wait in WhileStopped.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t changes_ ABSL_GUARDED_BY(mu_) = 0;

  std::map<int64_t, CallPtr> waiting_ ABSL_GUARDED_BY(mu_);  // By number.
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<std::pair<int64_t, int64_t>> pulls_by_version_ ABSL_GUARDED_BY(mu_);
  AppliedNames names_ ABSL_GUARDED_BY(mu_);
  WaitingRounds rounds_ ABSL_GUARDED_BY(mu_);
  int64_t running_round_ ABSL_GUARDED_BY(mu_) = -1;  // In the queue, or its update runs.
  std::deque<UpdatePtr> queue_ ABSL_GUARDED_BY(mu_);

  ShardStatus counts_ ABSL_GUARDED_BY(mu_);
  int64_t staleness_count_ ABSL_GUARDED_BY(mu_) = 0;
  double staleness_sum_ ABSL_GUARDED_BY(mu_) = 0;
  // How often each was seen; the last one stands for all that are larger.
  std::array<int64_t, ShardStatus::kMostStaleness + 1> staleness_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_IMPL_H_
