// Updates of a shard: how they are run, told to a replica, and answered.
#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "runtime/parameter_server/shard_impl.h"
#include "runtime/threads/thread_pool.h"

namespace tandem::parameter_server {
namespace {

// Parts with more than so many bytes are not added up on the thread that brought the last one.
constexpr int64_t kBytesAddedAtOnce = int64_t{64} << 10;

}  // namespace

void Shard::Impl::StartRound(Todo& todo) {
  if (running_round_ == version_) return;
  std::vector<RoundPart> parts = rounds_.TakeComplete(version_);
  if (parts.empty()) return;
  running_round_ = version_;
  const auto update = std::make_shared<Update>();
  update->round = version_;
  for (const RoundPart& part : parts) {
    update->calls.push_back(Take(part.call));
    update->program = update->calls.back()->program;
  }
  update->parts = std::move(parts);
  queue_.push_back(update);
  Pump(todo);
}

void Shard::Impl::Pump(Todo& todo) {
  while (!queue_.empty() && MayStart()) {
    UpdatePtr update = std::move(queue_.front());
    queue_.pop_front();
    for (const CallPtr& call : update->calls) Take(call->number);
    ++running_;
    todo.Add([this, update = std::move(update)] { Run(update); });
  }
}

void Shard::Impl::Run(const UpdatePtr& update) {
  int64_t bytes = 0;
  for (const CallPtr& call : update->calls) bytes += call->bytes;
  if (update->round < 0) {
    Start(update);
  } else if (bytes <= kBytesAddedAtOnce) {
    CombineAndStart(update);
  } else {
    ExecutorPool().Schedule([this, update] { CombineAndStart(update); });
  }
}

void Shard::Impl::CombineAndStart(const UpdatePtr& update) {
  absl::StatusOr<std::vector<Tensor>> arguments =
      CombineParts(update->program->combinations, std::move(update->parts));
  update->parts.clear();
  if (!arguments.ok()) {
    Finish(update, arguments.status());
    return;
  }
  update->arguments = *std::move(arguments);
  Start(update);
}

void Shard::Impl::Start(const UpdatePtr& update) {
  std::vector<Tensor> arguments;
  if (options_.on_applied != nullptr) {
    arguments = update->arguments;
  } else {
    arguments = std::move(update->arguments);
  }
  update->program->callable->Start(std::move(arguments), RunOptions(), nullptr,
                                   [this, update](absl::StatusOr<std::vector<Tensor>> results) {
                                     Finish(update, results.status());
                                   });
}

void Shard::Impl::Finish(const UpdatePtr& update, const absl::Status& status) {
  const bool reported = status.ok() && options_.on_applied != nullptr;
  Todo todo;
  int64_t version = 0;
  {
    MutexLock lock(mu_);
    if (status.ok()) {
      NoteStaleness(*update);
      version = ++version_;
      ++changes_;
      for (const CallPtr& call : update->calls) names_.MarkApplied(call->id);
      if (!reported) AnswerApplied(update->calls, status, todo);
      Advance(todo);
    } else {
      for (const CallPtr& call : update->calls) {
        const std::vector<int64_t> waiters = names_.End(call->id);
        AnswerLater(call, status, todo);
        Resubmit(waiters, todo);
      }
    }
    if (!reported) EndUpdate(*update, todo);
  }
  if (reported) {
    Report(update, version);
    MutexLock lock(mu_);
    EndUpdate(*update, todo);
  }
  todo.Do();
}

void Shard::Impl::EndUpdate(const Update& update, Todo& todo) {
  if (update.round >= 0 && running_round_ == update.round) running_round_ = -1;
  --running_;
  changed_.NotifyAll();
  StartRound(todo);
  Pump(todo);
}

void Shard::Impl::Report(const UpdatePtr& update, int64_t version) {
  // Answers its calls once, also when it is let go.
  class Answering {
   public:
    Answering(Impl* impl, std::vector<CallPtr> calls) : impl_(impl), calls_(std::move(calls)) {}
    ~Answering() { Answer(errors::Internal("a push was applied, and then nobody answered it")); }
    void Answer(const absl::Status& status) {
      const std::vector<CallPtr> calls = std::exchange(calls_, {});
      if (calls.empty()) return;
      Todo todo;
      {
        MutexLock lock(impl_->mu_);
        impl_->AnswerApplied(calls, status, todo);
      }
      todo.Do();
    }

   private:
    Impl* const impl_;
    std::vector<CallPtr> calls_;
  };

  AppliedPush push;
  push.version = version;
  push.program = update->program->name();
  for (const CallPtr& call : update->calls) push.ids.push_back(call->id);
  push.arguments = std::move(update->arguments);
  options_.on_applied(std::move(push),
                      [answering = std::make_unique<Answering>(this, update->calls)](
                          const absl::Status& status) { answering->Answer(status); });
}

void Shard::Impl::AnswerApplied(const std::vector<CallPtr>& calls, const absl::Status& status,
                                Todo& todo) {
  const int64_t version = version_;
  const auto answer = [&](CallPtr call) {
    if (status.ok()) {
      AnswerLater(std::move(call), ShardAnswer{version, {}}, todo);
    } else {
      AnswerLater(std::move(call), status, todo);
    }
  };
  for (const CallPtr& call : calls) {
    for (const int64_t number : names_.End(call->id)) {
      CallPtr waiter = Take(number);
      if (waiter == nullptr) continue;
      ++counts_.repeated;
      answer(std::move(waiter));
    }
    answer(call);
  }
}

void Shard::Impl::NoteStaleness(const Update& update) {
  for (const CallPtr& call : update.calls) {
    if (call->pulled_version < 0) continue;
    const int64_t staleness = std::max<int64_t>(version_ - call->pulled_version, 0);
    counts_.last_staleness = staleness;
    counts_.max_staleness = std::max(counts_.max_staleness, staleness);
    staleness_sum_ += static_cast<double>(staleness);
    ++staleness_count_;
    ++staleness_[static_cast<size_t>(std::min(staleness, ShardStatus::kMostStaleness))];
    counts_.mean_staleness = staleness_sum_ / static_cast<double>(staleness_count_);
  }
}

void Shard::Impl::Advance(Todo& todo) {
  while (!pulls_by_version_.empty() && pulls_by_version_.begin()->first <= version_) {
    const CallPtr call = Take(pulls_by_version_.begin()->second);
    call->version = version_;
    todo.Add([this, call] { StartPull(call); });
  }
  for (const int64_t number : rounds_.RemoveBefore(version_)) {
    const CallPtr call = Take(number);
    if (call == nullptr) continue;
    ++counts_.dropped;
    const std::vector<int64_t> waiters = names_.End(call->id);
    AnswerLater(call, ShardAnswer{version_, {}}, todo);
    Resubmit(waiters, todo);
  }
  StartRound(todo);
}

void Shard::Impl::EndWaitingPushes(const absl::Status& reason, Todo& todo) {
  for (const UpdatePtr& update : queue_) {
    if (update->round < 0) continue;  // Its call is among those below.
    if (running_round_ == update->round) running_round_ = -1;
    for (const CallPtr& call : update->calls) {
      names_.End(call->id);
      AnswerLater(call, reason, todo);
    }
  }
  queue_.clear();
  rounds_.Clear();
  std::vector<int64_t> numbers;
  for (const auto& [number, call] : waiting_) {
    if (!call->is_pull) numbers.push_back(number);
  }
  for (const int64_t number : numbers) {
    const Place place = waiting_.at(number)->place;
    const CallPtr call = Take(number);
    // Those that wait for its name end here, too.
    if (place == Place::kName) {
      names_.StopWaiting(call->id, number);
    } else {
      names_.End(call->id);
    }
    AnswerLater(call, reason, todo);
  }
}

}  // namespace tandem::parameter_server
