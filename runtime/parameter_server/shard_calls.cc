// Calls of a shard: how they wait, run and are answered.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "runtime/parameter_server/shard_impl.h"

namespace tandem::parameter_server {
namespace {

// What a call that waits takes beside its arguments.
constexpr int64_t kCallBytes = 1024;
// Far from an overflow of what is computed with them.
constexpr int64_t kLargestSequence = int64_t{1} << 62;

int64_t BytesOf(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += static_cast<int64_t>(tensor.num_bytes());
    if (tensor.dtype() != kString) continue;
    for (const std::string& text : tensor.Elements<std::string>()) {
      bytes += static_cast<int64_t>(text.size());
    }
  }
  return bytes;
}

// What AppliedNames keeps of a push: which part of a round it is, or that it is none.
int64_t TagOf(const absl::optional<Round>& round) { return round.has_value() ? round->part() : -1; }

}  // namespace

absl::Status CheckPushId(const PushId& id) {
  if (id.sequence() >= 1 && id.sequence() <= kLargestSequence && id.finished_below() >= 0 &&
      id.finished_below() <= id.sequence()) {
    return absl::OkStatus();
  }
  return errors::InvalidArgument("a push needs a name: a sequence from 1 on, not ", id.sequence(),
                                 ", that has not ended; its client says that all below ",
                                 id.finished_below(), " have");
}

// --- How a call comes, goes and waits

absl::Status Shard::Impl::Accept(const CallPtr& call) {
  absl::Status status;
  {
    MutexLock lock(mu_);
    status = closed_;
    if (status.ok()) {
      ++calls_;
      call->number = ++last_number_;
    }
  }
  if (!status.ok()) {
    std::exchange(call->done, nullptr)(status);
    return status;
  }
  if (call->cancellation == nullptr) return absl::OkStatus();
  call->token = call->cancellation->NewToken();
  if (call->cancellation->Register(call->token, [this, call] { Cancel(call); })) {
    return absl::OkStatus();
  }
  status = call->cancellation->status();
  Answer(call, status);
  return status;
}

void Shard::Impl::Cancel(const CallPtr& call) {
  Todo todo;
  {
    MutexLock lock(mu_);
    call->is_cancelled = true;
    if (call->place != Place::kNowhere) {
      Leave(call, todo);
      AnswerLater(call, call->cancellation->status(), todo);
    }
  }
  todo.Do();
}

void Shard::Impl::Answer(const CallPtr& call, absl::StatusOr<ShardAnswer> answer) {
  if (call->cancellation != nullptr) call->cancellation->Deregister(call->token);
  Done done = std::move(call->done);
  {
    MutexLock lock(mu_);
    --calls_;
    changed_.NotifyAll();  // Under the lock: this may end as soon as it is released.
  }
  done(std::move(answer));
}

void Shard::Impl::AnswerLater(CallPtr call, absl::StatusOr<ShardAnswer> answer, Todo& todo) {
  todo.Add([this, call = std::move(call), answer = std::move(answer)]() mutable {
    Answer(call, std::move(answer));
  });
}

void Shard::Impl::Put(const CallPtr& call, Place place) {
  call->place = place;
  waiting_.emplace(call->number, call);
  waiting_bytes_ += call->bytes;
  if (place == Place::kVersion) pulls_by_version_.emplace(call->version, call->number);
}

Shard::Impl::CallPtr Shard::Impl::Take(int64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return nullptr;
  CallPtr call = std::move(found->second);
  waiting_.erase(found);
  waiting_bytes_ -= call->bytes;
  call->place = Place::kNowhere;
  if (call->is_pull) pulls_by_version_.erase({call->version, call->number});
  return call;
}

absl::Status Shard::Impl::CheckMemory(const Call& call) const {
  // One that waits alone may always do so.
  if (waiting_bytes_ <= options_.max_waiting_bytes || waiting_bytes_ == call.bytes) {
    return absl::OkStatus();
  }
  return errors::ResourceExhausted("calls with ", waiting_bytes_ - call.bytes,
                                   " bytes wait at the shard, and this one has ", call.bytes,
                                   "; max_waiting_bytes is ", options_.max_waiting_bytes);
}

void Shard::Impl::Leave(const CallPtr& call, Todo& todo) {
  const Place place = call->place;
  Take(call->number);
  switch (place) {
    case Place::kNowhere:
    case Place::kVersion:
      return;
    case Place::kName:
      names_.StopWaiting(call->id, call->number);
      return;
    case Place::kRound:
      rounds_.Remove(call->round->number(), call->number);
      break;
    case Place::kQueue:
      queue_.erase(absl::c_find_if(
          queue_, [&](const UpdatePtr& update) { return update->calls[0] == call; }));
      break;
  }
  Resubmit(names_.End(call->id), todo);
}

// --- Pulls

void Shard::Impl::Pull(const std::string& program, std::vector<Tensor> arguments,
                       int64_t wait_for_version, CancellationManager* cancellation, Done done) {
  const absl::StatusOr<const ShardProgram*> found = graph_->Find(program, /*updates=*/false);
  absl::Status status = found.status();
  if (status.ok()) status = (*found)->CheckArguments(arguments);
  if (!status.ok()) {
    done(std::move(status));
    return;
  }
  const auto call = std::make_shared<Call>();
  call->program = *found;
  call->bytes = BytesOf(arguments) + kCallBytes;
  call->arguments = std::move(arguments);
  call->is_pull = true;
  call->version = wait_for_version;
  call->cancellation = cancellation;
  call->done = std::move(done);
  if (!Accept(call).ok()) return;
  Todo todo;
  {
    MutexLock lock(mu_);
    ++counts_.pulls;
    if (!closed_.ok()) {
      AnswerLater(call, closed_, todo);
    } else if (call->is_cancelled) {
      AnswerLater(call, call->cancellation->status(), todo);
    } else if (wait_for_version <= version_) {
      call->version = version_;
      todo.Add([this, call] { StartPull(call); });
    } else {
      Put(call, Place::kVersion);
      const absl::Status memory = CheckMemory(*call);
      if (!memory.ok()) {
        Leave(call, todo);
        AnswerLater(call, memory, todo);
      }
    }
  }
  todo.Do();
}

void Shard::Impl::StartPull(const CallPtr& call) {
  RunOptions options;
  options.cancellation = call->cancellation;
  call->program->callable->Start(std::move(call->arguments), options, nullptr,
                                 [this, call](absl::StatusOr<std::vector<Tensor>> results) {
                                   if (!results.ok()) {
                                     Answer(call, results.status());
                                     return;
                                   }
                                   {
                                     MutexLock lock(mu_);
                                     counts_.pulled_bytes += BytesOf(*results);
                                   }
                                   Answer(call, ShardAnswer{call->version, *std::move(results)});
                                 });
}

// --- Pushes

void Shard::Impl::Push(const PushId& id, const Round* round, const std::string& program,
                       std::vector<Tensor> arguments, int64_t pulled_version,
                       CancellationManager* cancellation, Done done) {
  const absl::StatusOr<const ShardProgram*> found = graph_->Find(program, /*updates=*/true);
  absl::Status status = found.status();
  if (status.ok()) status = (*found)->CheckArguments(arguments);
  if (status.ok()) status = CheckPushId(id);
  if (status.ok() && round != nullptr) {
    status = CheckRound(*round);
    if (status.ok() && (*found)->combinations.size() != arguments.size()) {
      status = errors::InvalidArgument("program '", program,
                                       "' does not say how its arguments are combined in rounds");
    }
  }
  if (!status.ok()) {
    done(std::move(status));
    return;
  }
  const auto call = std::make_shared<Call>();
  call->program = *found;
  call->bytes = BytesOf(arguments) + kCallBytes;
  call->arguments = std::move(arguments);
  call->id = id;
  if (round != nullptr) call->round = *round;
  call->pulled_version = pulled_version;
  call->cancellation = cancellation;
  call->done = std::move(done);
  if (!Accept(call).ok()) return;
  Todo todo;
  {
    MutexLock lock(mu_);
    counts_.pushed_bytes += call->bytes - kCallBytes;
    if (closed_.ok() && names_.FinishBelow(id)) {
      GiveUp(rounds_.RemoveBelow(id.client(), id.finished_below()),
             "its client has given the step up", todo);
    }
    Submit(call, todo);
  }
  todo.Do();
}

void Shard::Impl::Submit(const CallPtr& call, Todo& todo) {
  if (!closed_.ok()) {
    AnswerLater(call, closed_, todo);
    return;
  }
  if (call->is_cancelled) {
    AnswerLater(call, call->cancellation->status(), todo);
    return;
  }
  switch (names_.Look(call->id)) {
    case AppliedNames::Known::kApplied:
      ++counts_.repeated;
      AnswerLater(call, ShardAnswer{version_, {}}, todo);
      return;
    case AppliedNames::Known::kInProgress:
      WaitForName(call, todo);
      return;
    case AppliedNames::Known::kNew:
      break;
  }
  if (call->round.has_value() && call->round->number() < version_) {
    ++counts_.dropped;
    AnswerLater(call, ShardAnswer{version_, {}}, todo);
    return;
  }
  const absl::Status begun = names_.Begin(call->id, TagOf(call->round));
  if (!begun.ok()) {
    AnswerLater(call, begun, todo);
  } else if (call->round.has_value()) {
    JoinRound(call, todo);
  } else {
    ++counts_.pushes;
    Enqueue(call, todo);
  }
}

void Shard::Impl::WaitForName(const CallPtr& call, Todo& todo) {
  const int64_t tag = names_.Tag(call->id);
  if (tag != TagOf(call->round)) {
    // It would wait for itself.
    const auto name_of = [](int64_t part) {
      return part < 0 ? std::string("a push of its own")
                      : absl::StrCat("part ", part, " of a round");
    };
    AnswerLater(call,
                errors::InvalidArgument("push ", call->id.sequence(), " of client ",
                                        call->id.client(), " is ", name_of(TagOf(call->round)),
                                        ", and under the same name came ", name_of(tag),
                                        "; each push has a sequence of its own"),
                todo);
    return;
  }
  Put(call, Place::kName);
  names_.Wait(call->id, call->number);
  const absl::Status memory = CheckMemory(*call);
  if (memory.ok()) return;
  Leave(call, todo);
  AnswerLater(call, memory, todo);
}

void Shard::Impl::JoinRound(const CallPtr& call, Todo& todo) {
  RoundPart part;
  part.round = *call->round;
  part.id = call->id;
  part.call = call->number;
  part.program = call->program->name();
  part.arguments = std::move(call->arguments);
  const WaitingRounds::Added added = rounds_.Add(std::move(part), call->program->combinations);
  if (!added.status.ok() || added.is_late) {
    names_.End(call->id);  // Begun just now, so nobody waits for it.
    if (added.status.ok()) {
      ++counts_.dropped;
      AnswerLater(call, ShardAnswer{version_, {}}, todo);
    } else {
      AnswerLater(call, added.status, todo);
    }
    return;
  }
  ++counts_.pushes;
  Put(call, Place::kRound);
  GiveUp(added.replaced, "it was pushed anew", todo);
  StartRound(todo);
  if (call->place != Place::kRound) return;
  const absl::Status memory = CheckMemory(*call);
  if (memory.ok()) return;
  Leave(call, todo);
  AnswerLater(call, memory, todo);
}

void Shard::Impl::Enqueue(const CallPtr& call, Todo& todo) {
  const auto update = std::make_shared<Update>();
  update->program = call->program;
  update->arguments = std::move(call->arguments);
  update->calls.push_back(call);
  Put(call, Place::kQueue);
  queue_.push_back(update);
  Pump(todo);
  if (call->place != Place::kQueue) return;
  const absl::Status memory = CheckMemory(*call);
  if (memory.ok()) return;
  Leave(call, todo);
  AnswerLater(call, memory, todo);
}

void Shard::Impl::Resubmit(const std::vector<int64_t>& waiters, Todo& todo) {
  for (const int64_t number : waiters) {
    if (const CallPtr call = Take(number)) Submit(call, todo);
  }
}

void Shard::Impl::GiveUp(const std::vector<int64_t>& calls, const char* why, Todo& todo) {
  for (const int64_t number : calls) {
    const CallPtr call = Take(number);
    if (call == nullptr) continue;
    const std::vector<int64_t> waiters = names_.End(call->id);
    AnswerLater(call,
                errors::Aborted("part ", call->round->part(), " of round ", call->round->number(),
                                ", push ", call->id.sequence(), " of client ", call->id.client(),
                                ", does not count: ", why),
                todo);
    Resubmit(waiters, todo);
  }
}

}  // namespace tandem::parameter_server
