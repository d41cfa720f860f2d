// Prefetch: a thread of its own reads ahead. Attributes: size.
#include <deque>
#include <new>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/no_memory.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/waiting.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/start_thread.h"

namespace tandem::data {
namespace {

// The thread, the producer, starts with the first Next and ends with its input. While `reading_` is
// set the input is the producer's, else the consumer's.
class PrefetchPass final : public Pass {
 public:
  PrefetchPass(const OpenedStage& input, const PassContext& context, int64_t size)
      : size_(size),
        cancellation_(context.cancellation),
        wake_(&cancellation_, &mu_, &changed_),
        context_{&cancellation_, context.iteration, context.damage},
        input_stage_(input) {}

  absl::Status Begin() {
    TANDEM_ASSIGN_OR_RETURN(input_, input_stage_.Begin(context_));
    return absl::OkStatus();
  }

  ~PrefetchPass() override {
    // Ends the waits of the stages below too, which have this cancellation.
    cancellation_.Cancel(errors::Cancelled("the input iterator was destroyed"));
    if (producer_.joinable()) {
      ScopedRunTokenRelease released;
      producer_.join();
    }
  }

  absl::StatusOr<MaybeElement> Next() override {
    if (!started_) {
      started_ = true;
      producer_ = StartThread("prefetch", [this] { Produce(); });
    }
    // Without a thread, which the system may refuse, there is nothing to be ahead with.
    if (!producer_.joinable() && !HasElement()) return input_->Next();
    if (!HasElement()) {
      ScopedRunTokenRelease released;
      MutexLock lock(mu_);
      while (queue_.empty() && failed_.ok() && !cancellation_.IsCancelled()) changed_.Wait(mu_);
    }
    if (cancellation_.IsCancelled()) return cancellation_.status();
    MutexLock lock(mu_);
    if (queue_.empty()) return failed_;
    // The end stays in the queue, for all later calls.
    if (queue_.front().ok() && !queue_.front()->has_value()) return MaybeElement();
    absl::StatusOr<MaybeElement> result = std::move(queue_.front());
    queue_.pop_front();
    changed_.NotifyAll();
    return result;
  }

  absl::Status Save(InputState* state) override {
    {
      ScopedRunTokenRelease released;
      MutexLock lock(mu_);
      paused_ = true;
      while (reading_ && !cancellation_.IsCancelled()) changed_.Wait(mu_);
    }
    if (cancellation_.IsCancelled()) return cancellation_.status();
    const absl::Status saved = OrNoMemory([&] { return SavePaused(state); });
    MutexLock lock(mu_);
    paused_ = false;
    changed_.NotifyAll();
    return saved;
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, "Prefetch", 0, 1));
    {
      MutexLock lock(mu_);
      for (const InputElement& proto : state.elements()) {
        absl::StatusOr<Element> element;
        TANDEM_RETURN_IF_ERROR(LoadElement(proto, &element));
        if (element.ok()) {
          queue_.push_back(MaybeElement(*std::move(element)));
        } else {
          queue_.push_back(element.status());
        }
      }
    }
    return input_->Restore(state.inputs(0));
  }

 private:
  bool HasElement() {
    MutexLock lock(mu_);
    return !queue_.empty();
  }

  // REQUIRES: the producer is paused.
  absl::Status SavePaused(InputState* state) {
    state->set_kind("Prefetch");
    {
      MutexLock lock(mu_);
      for (const absl::StatusOr<MaybeElement>& entry : queue_) {
        if (!entry.ok()) {
          TANDEM_RETURN_IF_ERROR(SaveElement(entry.status(), state->add_elements()));
        } else if (entry->has_value()) {  // The input says again that it has ended.
          TANDEM_RETURN_IF_ERROR(SaveElement(**entry, state->add_elements()));
        }
      }
    }
    return input_->Save(state->add_inputs());
  }

  void Produce() {
    while (WaitForRoom()) {
      absl::StatusOr<MaybeElement> next = [this] {
        ScopedRunToken token;
        return OrNoMemory([this] { return input_->Next(); });
      }();
      const bool ended = next.ok() && !next->has_value();
      MutexLock lock(mu_);
      failed_ = Push(std::move(next));
      reading_ = false;
      changed_.NotifyAll();
      if (ended || !failed_.ok()) return;
    }
  }

  // ResourceExhausted: the queue cannot grow.
  absl::Status Push(absl::StatusOr<MaybeElement> next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    try {
      queue_.push_back(std::move(next));
    } catch (const std::bad_alloc&) {
      return NoMemory();
    }
    return absl::OkStatus();
  }

  // Sets reading_; false: the pass was cancelled.
  bool WaitForRoom() {
    MutexLock lock(mu_);
    while (!cancellation_.IsCancelled() &&
           (paused_ || static_cast<int64_t>(queue_.size()) >= size_)) {
      changed_.Wait(mu_);
    }
    reading_ = !cancellation_.IsCancelled();
    return reading_;
  }

  const int64_t size_;
  Mutex mu_;
  CondVar changed_;
  CancellationManager cancellation_;  // Cancelled with the iterator's, or with this pass.
  CancellationWake wake_;
  const PassContext context_;
  const OpenedStage& input_stage_;

  // Of the consumer.
  bool started_ = false;
  std::thread producer_;

  std::unique_ptr<Pass> input_;  // Whose it is: see above.

  std::deque<absl::StatusOr<MaybeElement>> queue_ ABSL_GUARDED_BY(mu_);
  // The queue found no memory: the producer has ended, and this comes behind what is in the queue.
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
};

class PrefetchStage final : public OpenedStage {
 public:
  PrefetchStage(OpenedStagePtr input, int64_t size) : input_(std::move(input)), size_(size) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    auto pass = std::make_unique<PrefetchPass>(*input_, context, size_);
    TANDEM_RETURN_IF_ERROR(pass->Begin());
    return pass;
  }
  int64_t cardinality() const override { return input_->cardinality(); }

 private:
  const OpenedStagePtr input_;
  const int64_t size_;
};

absl::StatusOr<OpenedStagePtr> OpenPrefetch(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, stage.Int("size"));
  if (size < 1) {
    return errors::InvalidArgument("Prefetch: the size is ", size, ", expected at least 1");
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const PrefetchStage>(std::move(input), size);
}

const bool registered = RegisterStage("Prefetch", /*inputs=*/1, OpenPrefetch);

}  // namespace
}  // namespace tandem::data
