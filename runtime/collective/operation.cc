#include "runtime/collective/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/collective/group.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {

using std::chrono::steady_clock;

Operation::Operation(Private, Group* group, Spec spec, std::shared_ptr<const Schedule> schedule,
                     RefPtr<Buffer> scratch, Done done_callback)
    : group_(group),
      spec_(std::move(spec)),
      schedule_(std::move(schedule)),
      scratch_(std::move(scratch)),
      element_bytes_(std::max<size_t>(1, DataTypeSize(spec_.dtype))),
      begun_(steady_clock::now()),
      done_callback_(std::move(done_callback)) {
  if (schedule_ == nullptr) return;
  const size_t count = schedule_->steps.size();
  waits_for_.reserve(count);
  for (const Step& step : schedule_->steps) waits_for_.push_back(step.waits_for);
  states_.resize(count, StepState::kWaiting);
  ready_.reserve(count);
  left_ = count;
}

std::shared_ptr<Operation> Operation::Failed(absl::Status status) {
  auto operation =
      std::make_shared<Operation>(Private(), nullptr, Spec(), nullptr, nullptr, Done());
  {
    MutexLock lock(operation->mu_);
    operation->status_ = std::move(status);
  }
  operation->done_.store(true, std::memory_order_release);
  return operation;
}

absl::Status Operation::status() const {
  MutexLock lock(mu_);
  return status_;
}

char* Operation::At(const Piece& piece) const {
  char* base = nullptr;
  switch (piece.place) {
    case Place::kInput:
      base = const_cast<char*>(spec_.buffers.input);  // Steps only write to the two others.
      break;
    case Place::kOutput:
      base = spec_.buffers.output;
      break;
    case Place::kScratch:
      base = static_cast<char*>(scratch_->data());
      break;
  }
  return base + static_cast<size_t>(piece.begin) * element_bytes_;
}

void Operation::Launch() {
  {
    MutexLock lock(mu_);
    if (done_.load(std::memory_order_relaxed) || is_advancing_) return;  // Failed meanwhile.
    for (size_t i = 0; i < waits_for_.size(); ++i) {
      if (waits_for_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
    is_advancing_ = true;
  }
  Advance();
}

void Operation::OnMessage(uint32_t index) {
  {
    MutexLock lock(mu_);
    if (!status_.ok() || states_[index] == StepState::kDone) return;
    CompleteLocked(static_cast<int>(index));
    if (is_advancing_) return;  // Whoever does goes on with what became ready.
    is_advancing_ = true;
  }
  Advance();
}

void Operation::CompleteLocked(int index) {
  states_[static_cast<size_t>(index)] = StepState::kDone;
  --left_;
  for (const int next : schedule_->steps[static_cast<size_t>(index)].next) {
    if (--waits_for_[static_cast<size_t>(next)] == 0) ready_.push_back(next);
  }
}

// REQUIRES: this thread set is_advancing_.
void Operation::Advance() {
  for (;;) {
    int index = -1;
    {
      MutexLock lock(mu_);
      // is_advancing_ stays set: nobody else gets here again.
      if (!status_.ok() || left_ == 0) break;
      if (next_ready_ == ready_.size()) {
        is_advancing_ = false;
        return;
      }
      index = ready_[next_ready_++];
      states_[static_cast<size_t>(index)] = StepState::kPosted;
    }
    Execute(index);
  }
  Finalize();
}

void Operation::Execute(int index) {
  const Step& step = schedule_->steps[static_cast<size_t>(index)];
  const transport::Tag tag{spec_.key, step.part};
  switch (step.kind) {
    case Step::Kind::kSend:
      group_->mesh()->Send(
          spec_.members[static_cast<size_t>(step.peer)], tag, spec_.label,
          absl::MakeConstSpan(At(step.a), static_cast<size_t>(step.a.count) * element_bytes_),
          shared_from_this(), static_cast<uint32_t>(index));
      return;
    case Step::Kind::kReceive:
    case Step::Kind::kReceiveReduce: {
      transport::Sink sink;
      sink.bytes = static_cast<uint64_t>(step.to.count) * element_bytes_;
      if (step.kind == Step::Kind::kReceive) sink.place = At(step.to);
      group_->mesh()->Receive(spec_.members[static_cast<size_t>(step.peer)], tag, spec_.label, sink,
                              shared_from_this(), static_cast<uint32_t>(index));
      return;
    }
    case Step::Kind::kCopy:
      std::memcpy(At(step.to), At(step.a), static_cast<size_t>(step.to.count) * element_bytes_);
      break;
    case Step::Kind::kReduce:
      ReduceValues(spec_.dtype, spec_.reduction, At(step.a), At(step.b), At(step.to),
                   step.to.count);
      break;
    case Step::Kind::kDivide:
      DivideValues(spec_.dtype, At(step.to), step.divisor, step.to.count);
      break;
  }
  MutexLock lock(mu_);
  CompleteLocked(index);
}

void Operation::Consume(uint32_t index, uint64_t offset, absl::Span<const char> bytes) {
  const Step& step = schedule_->steps[index];
  if (offset % element_bytes_ != 0 || bytes.size() % element_bytes_ != 0) {
    is_torn_.store(true, std::memory_order_relaxed);
    return;
  }
  const auto reduce = [&](const char* received, uint64_t at, size_t size) {
    const char* const own = At(step.a) + at;
    ReduceValues(spec_.dtype, spec_.reduction, step.received_first ? received : own,
                 step.received_first ? own : received, At(step.to) + at,
                 static_cast<int64_t>(size / element_bytes_));
  };
  if (reinterpret_cast<uintptr_t>(bytes.data()) % element_bytes_ == 0) {
    reduce(bytes.data(), offset, bytes.size());
    return;
  }
  // A short message behind a header somewhere in a stream.
  alignas(64) char aligned[4096];
  for (size_t done = 0; done < bytes.size();) {
    const size_t size = std::min(sizeof(aligned), bytes.size() - done);
    std::memcpy(aligned, bytes.data() + done, size);
    reduce(aligned, offset + done, size);
    done += size;
  }
}

void Operation::Fail(const absl::Status& why, bool tell_peers) {
  {
    MutexLock lock(mu_);
    if (done_.load(std::memory_order_relaxed) || !status_.ok() || left_ == 0) return;
    status_ = why;
    tells_peers_ = tell_peers;
    if (is_advancing_) return;  // Whoever does sees it, and lets go of the buffers first.
    is_advancing_ = true;
  }
  Finalize();
}

void Operation::Cancel(const absl::Status& reason) {
  if (done() || group_ == nullptr) return;
  Fail(absl::Status(reason.code(),
                    absl::StrCat(group_->DescribeOperation(*this), ": ", reason.message())),
       true);
}

// REQUIRES: this thread set is_advancing_, for good.
void Operation::Finalize() {
  const std::shared_ptr<Operation> self = shared_from_this();
  std::string missing;
  absl::Status status;
  bool tells_peers = false;
  Done callback;
  {
    MutexLock lock(mu_);
    if (status_.ok() && is_torn_.load(std::memory_order_relaxed)) {
      status_ = errors::DataLoss(Describe(), ": a message of a peer ends in the middle of a value");
    }
    status = status_;
    tells_peers = tells_peers_;
    callback = std::move(done_callback_);
  }
  group_->OnOperationEnd(*this, status, tells_peers);
  // In one order with the look at the number of waiters.
  done_.store(true, std::memory_order_seq_cst);
  group_->WakeWaiters();
  if (callback) callback(status);
}

absl::Status Operation::Wait(absl::Time deadline) {
  if (!done()) {
    if (!group_->Drive(done_, deadline)) {
      return errors::DeadlineExceeded(group_->DescribeOperation(*this), " is not done yet, ",
                                      Doing());
    }
  }
  return status();
}

std::string Operation::Describe() const {
  std::string text = KindName(spec_.kind);
  if (!spec_.name.empty()) absl::StrAppend(&text, " '", spec_.name, "'");
  absl::StrAppend(&text, " (instance ", spec_.key.instance, ", step ", spec_.key.step, ")");
  return text;
}

std::vector<int> Operation::Missing() const {
  std::vector<int> missing;
  MutexLock lock(mu_);
  for (size_t i = 0; i < states_.size(); ++i) {
    const Step& step = schedule_->steps[i];
    if (states_[i] != StepState::kPosted || step.peer < 0) continue;
    missing.push_back(spec_.members[static_cast<size_t>(step.peer)]);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

std::string Operation::Doing() const {
  MutexLock lock(mu_);
  const Step* found = nullptr;
  for (size_t i = 0; i < states_.size() && found == nullptr; ++i) {
    const Step& step = schedule_->steps[i];
    if (states_[i] == StepState::kPosted && step.peer >= 0) found = &step;
  }
  if (found == nullptr) return "computing";
  // By the group's numbers, not the operation's.
  Step step = *found;
  step.peer = spec_.members[static_cast<size_t>(found->peer)];
  return DescribeStep(step);
}

}  // namespace tandem::collective
