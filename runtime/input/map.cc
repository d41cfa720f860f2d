// Map: a function of each element, in order, on several threads. Attributes: function, threads.
//
// The reading thread takes elements from the input and hands each to the pool; they wait in a
// window of twice as many as there are threads, and leave it in the order in which they came.
#include "runtime/input/map.h"

#include <atomic>
#include <deque>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/functions.h"
#include "runtime/input/no_memory.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/waiting.h"
#include "runtime/threads/cpu_count.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

namespace tandem::data {
namespace {

constexpr int kMaxThreads = 1024;

// What the stage and its passes share.
struct Mapping {
  std::string kind;
  std::string label;
  MapFunction function;

  absl::StatusOr<Element> Call(const MapContext& context, Element element) const {
    absl::StatusOr<Element> result =
        OrNoMemory([&] { return function(context, std::move(element)); });
    if (result.ok()) return result;
    return WithContext(result.status(), absl::StrCat(label, ": element ", context.index));
  }
};

class SerialMapPass final : public Pass {
 public:
  SerialMapPass(const Mapping& mapping, std::unique_ptr<Pass> input, uint64_t iteration)
      : mapping_(mapping), input_(std::move(input)), iteration_(iteration) {}

  absl::StatusOr<MaybeElement> Next() override {
    absl::StatusOr<MaybeElement> element = Read();
    if (element.ok() && !element->has_value()) return element;
    const int64_t index = index_++;
    if (!element.ok()) return element;
    TANDEM_ASSIGN_OR_RETURN(Element result,
                            mapping_.Call({index, iteration_}, **std::move(element)));
    return MaybeElement(std::move(result));
  }

  absl::Status Save(InputState* state) override {
    state->set_kind(mapping_.kind);
    state->add_numbers(index_);
    for (const absl::StatusOr<Element>& element : restored_) {
      TANDEM_RETURN_IF_ERROR(SaveElement(element, state->add_elements()));
    }
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, mapping_.kind, 1, 1));
    index_ = state.numbers(0);
    for (const InputElement& proto : state.elements()) {
      absl::StatusOr<Element> element;
      TANDEM_RETURN_IF_ERROR(LoadElement(proto, &element));
      restored_.push_back(std::move(element));
    }
    return input_->Restore(state.inputs(0));
  }

 private:
  absl::StatusOr<MaybeElement> Read() {
    if (restored_.empty()) return input_->Next();
    const absl::StatusOr<Element> element = std::move(restored_.front());
    restored_.pop_front();
    if (!element.ok()) return element.status();
    return MaybeElement(*element);
  }

  const Mapping& mapping_;
  const std::unique_ptr<Pass> input_;
  const uint64_t iteration_;
  int64_t index_ = 0;  // Of the next element.
  // The window of a pass on several threads whose state this one restored: before the input's.
  std::deque<absl::StatusOr<Element>> restored_;
};

class ParallelMapPass final : public Pass {
 public:
  ParallelMapPass(const Mapping& mapping, ThreadPool& pool, int threads,
                  std::unique_ptr<Pass> input, const PassContext& context)
      : mapping_(mapping),
        pool_(pool),
        window_size_(2 * static_cast<size_t>(threads)),
        context_(context),
        input_(std::move(input)),
        wake_(context.cancellation, &mu_, &changed_) {}

  ~ParallelMapPass() override {
    abandoned_.store(true, std::memory_order_relaxed);
    ScopedRunTokenRelease released;
    MutexLock lock(mu_);
    while (running_ > 0) changed_.Wait(mu_);  // No longer than the functions that run already.
  }

  absl::StatusOr<MaybeElement> Next() override {
    while (!ended_ && window_.size() < window_size_) {
      absl::StatusOr<MaybeElement> element = input_->Next();
      if (element.ok() && !element->has_value()) {
        ended_ = true;
      } else if (element.ok()) {
        Start(**std::move(element));
      } else {
        Start(element.status());
        // A source that fails does so for good; what is before the error comes first.
        break;
      }
    }
    if (window_.empty()) return MaybeElement();
    const Slot& front = *window_.front();
    if (!front.done.load(std::memory_order_acquire)) {
      ScopedRunTokenRelease released;
      MutexLock lock(mu_);
      while (!front.done.load(std::memory_order_acquire) && !context_.cancellation->IsCancelled()) {
        changed_.Wait(mu_);
      }
    }
    if (context_.cancellation->IsCancelled()) return context_.cancellation->status();
    const std::unique_ptr<Slot> slot = std::move(window_.front());
    window_.pop_front();
    if (!slot->result.ok()) return slot->result.status();
    return MaybeElement(*std::move(slot->result));
  }

  // What is in the window is saved as it came from the input, and mapped again.
  absl::Status Save(InputState* state) override {
    state->set_kind(mapping_.kind);
    state->add_numbers(next_index_ - static_cast<int64_t>(window_.size()));
    for (const std::unique_ptr<Slot>& slot : window_) {
      TANDEM_RETURN_IF_ERROR(SaveElement(slot->input, state->add_elements()));
    }
    return input_->Save(state->add_inputs());
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, mapping_.kind, 1, 1));
    TANDEM_RETURN_IF_ERROR(input_->Restore(state.inputs(0)));
    next_index_ = state.numbers(0);
    for (const InputElement& proto : state.elements()) {
      absl::StatusOr<Element> element;
      TANDEM_RETURN_IF_ERROR(LoadElement(proto, &element));
      Start(std::move(element));
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    int64_t index;
    absl::StatusOr<Element> input;
    absl::StatusOr<Element> result;
    // Set last by the thread of the pool; `result` is the reading thread's from then on.
    std::atomic<bool> done{false};
  };

  void Start(absl::StatusOr<Element> input) {
    auto slot = std::make_unique<Slot>();
    slot->index = next_index_++;
    slot->input = std::move(input);
    Slot* const started = slot.get();
    window_.push_back(std::move(slot));
    if (!started->input.ok()) {
      started->result = started->input.status();
      started->done.store(true, std::memory_order_release);
      return;
    }
    {
      MutexLock lock(mu_);
      ++running_;
    }
    const absl::Status scheduled = OrNoMemory([&] {
      pool_.Schedule([this, started] { Run(started); });
      return absl::OkStatus();
    });
    if (scheduled.ok()) return;
    MutexLock lock(mu_);
    --running_;
    started->result = scheduled;
    started->done.store(true, std::memory_order_release);
  }

  void Run(Slot* slot) {
    // Nothing may be thrown here: the thread is the pool's.
    slot->result = OrNoMemory([&]() -> absl::StatusOr<Element> {
      if (abandoned_.load(std::memory_order_relaxed) || context_.cancellation->IsCancelled()) {
        return errors::Cancelled("the input iterator was cancelled");
      }
      return mapping_.Call({slot->index, context_.iteration}, *slot->input);
    });
    MutexLock lock(mu_);
    slot->done.store(true, std::memory_order_release);
    --running_;
    changed_.NotifyAll();  // Under the lock, since the pass may be gone as soon as it is free.
  }

  const Mapping& mapping_;
  ThreadPool& pool_;
  const size_t window_size_;
  const PassContext context_;
  const std::unique_ptr<Pass> input_;
  std::atomic<bool> abandoned_{false};

  // Of the reading thread.
  std::deque<std::unique_ptr<Slot>> window_;
  int64_t next_index_ = 0;
  bool ended_ = false;

  Mutex mu_;
  CondVar changed_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  CancellationWake wake_;
};

class MapStage final : public OpenedStage {
 public:
  MapStage(OpenedStagePtr input, Mapping mapping, int threads)
      : input_(std::move(input)),
        mapping_(std::move(mapping)),
        threads_(threads),
        pool_(threads > 1 ? std::make_unique<ThreadPool>("map", threads) : nullptr) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> input, input_->Begin(context));
    if (pool_ == nullptr) {
      return std::make_unique<SerialMapPass>(mapping_, std::move(input), context.iteration);
    }
    return std::make_unique<ParallelMapPass>(mapping_, *pool_, threads_, std::move(input), context);
  }
  int64_t cardinality() const override { return input_->cardinality(); }

 private:
  const OpenedStagePtr input_;
  const Mapping mapping_;
  const int threads_;
  const std::unique_ptr<ThreadPool> pool_;  // Null: one thread.
};

absl::StatusOr<OpenedStagePtr> OpenMap(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, stage.String("function"));
  TANDEM_ASSIGN_OR_RETURN(const MapFunction* const function, FindMapFunction(name));
  return OpenMapStage(stage, absl::StrCat("Map '", name, "'"), *function);
}

const bool registered = RegisterStage("Map", /*inputs=*/1, OpenMap);

}  // namespace

absl::StatusOr<OpenedStagePtr> OpenMapStage(const Stage& stage, std::string label,
                                            MapFunction function) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t threads, stage.Int("threads"));
  if (threads < 0 || threads > kMaxThreads) {
    return errors::InvalidArgument(label, ": threads is ", threads,
                                   ", expected 0 (one for each core) to ", kMaxThreads);
  }
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr input, stage.inputs()[0]->Open());
  return std::make_shared<const MapStage>(
      std::move(input), Mapping{stage.kind(), std::move(label), std::move(function)},
      threads == 0 ? CpuCount() : static_cast<int>(threads));
}

}  // namespace tandem::data
