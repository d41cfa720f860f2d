#include "runtime/session/partial_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/passes/partial_ends.h"
#include "runtime/rendezvous/local_rendezvous.h"

namespace tandem {
namespace {

std::string WithIndex(const std::string& name) {
  return absl::StrContains(name, ':') ? name : absl::StrCat(name, ":0");
}

// The first feed that `fetches` depend on and that was not given; or -1.
int64_t MissingFeed(const PartialSignature& signature, const std::vector<size_t>& fetches,
                    const std::vector<bool>& fed) {
  std::vector<bool> seen(signature.vertices.size(), false);
  std::vector<int32_t> stack;
  for (const size_t fetch : fetches) stack.push_back(signature.fetches[fetch]);
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    if (at < 0) {
      if (!fed[static_cast<size_t>(~at)]) return ~at;
    } else if (!seen[static_cast<size_t>(at)]) {
      seen[static_cast<size_t>(at)] = true;
      const std::vector<int32_t>& sources = signature.vertices[static_cast<size_t>(at)];
      stack.insert(stack.end(), sources.begin(), sources.end());
    }
  }
  return -1;
}

// The step and its calls. Whoever waits for something keeps it alive.
class PartialStep : public std::enable_shared_from_this<PartialStep> {
 public:
  PartialStep(std::shared_ptr<const PartialSignature> signature,
              std::unique_ptr<Session::Callable> callable)
      : signature_(std::move(signature)), callable_(std::move(callable)) {
    MutexLock lock(mu_);
    fed_.resize(signature_->names.feeds.size(), false);
    fetched_.resize(signature_->names.fetches.size(), false);
  }

  void Start(const RunOptions& options, Session::Feeds feeds, std::vector<std::string> fetches,
             RunMetadata* metadata, Session::Callable::Done done) {
    const std::shared_ptr<PartialStep> self = shared_from_this();  // `done` may let go of it.
    auto call = std::make_shared<Call>();
    call->done = std::move(done);
    call->metadata = metadata;
    std::vector<size_t> fed;
    bool is_first = false;
    absl::Status status;
    {
      MutexLock lock(mu_);
      status = NoteLocked(feeds, fetches, &fed, call.get());
      if (status.ok()) is_first = !std::exchange(has_begun_, true);
    }
    if (!status.ok()) {
      call->done(std::move(status));
      return;
    }
    if (options.cancellation != nullptr) {
      call->token = options.cancellation->NewToken();
      if (options.cancellation->Register(call->token, [self, outer = options.cancellation] {
            self->cancellation_.Cancel(outer->status());
          })) {
        call->cancellation = options.cancellation;
      } else {
        cancellation_.Cancel(options.cancellation->status());
      }
    }
    if (is_first) Begin(options);
    for (size_t i = 0; i < feeds.size(); ++i) {
      // When it fails the step has ended, which is known soon.
      rendezvous_.Send(PartialKey(PartialFeedEdge(fed[i])), {std::move(feeds[i].second), false})
          .IgnoreError();
    }
    for (size_t i = 0; i < call->fetches.size(); ++i) {
      rendezvous_.Receive(PartialKey(PartialFetchEdge(call->fetches[i])), nullptr,
                          [self, call, i](absl::StatusOr<Rendezvous::Entry> entry) {
                            self->Fetched(call, i, std::move(entry));
                          });
    }
    PartEnded(call);
  }

  bool is_over() const {
    MutexLock lock(mu_);
    return is_over_;
  }

  void End(const absl::Status& reason, absl::AnyInvocable<void()> ended) {
    const std::shared_ptr<PartialStep> self = shared_from_this();  // `ended` may let go of it.
    {
      MutexLock lock(mu_);
      if (!std::exchange(has_begun_, true)) {
        has_ended_ = true;
        status_ = reason;
      }
      if (!has_ended_) {
        wait_for_end_.push_back(std::move(ended));
        ended = nullptr;
      }
      is_over_ = true;
    }
    if (ended != nullptr) {
      ended();
    } else {
      cancellation_.Cancel(reason);
    }
  }

 private:
  struct Call {
    Session::Callable::Done done;
    RunMetadata* metadata = nullptr;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = 0;
    std::vector<size_t> fetches;
    std::vector<Tensor> results;
    size_t pending = 1;    // Fetches that have not come; one more while the call begins.
    bool is_last = false;  // Waits for the step's end.
    absl::Status error;
  };

  static int64_t Find(const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), WithIndex(name));
    return found == names.end() ? -1 : found - names.begin();
  }

  // Checks a call, and takes it into account.
  absl::Status NoteLocked(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                          std::vector<size_t>* fed, Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_over_) return errors::InvalidArgument("the partial run is over");
    if (has_ended_ && !status_.ok()) {
      is_over_ = true;
      return status_;
    }
    std::vector<bool> all_fed = fed_;
    std::vector<bool> all_fetched = fetched_;
    for (const auto& [name, value] : feeds) {
      const int64_t i = Find(signature_->names.feeds, name);
      if (i < 0) {
        return errors::InvalidArgument("feed '", name,
                                       "' was not declared when the partial run was set up");
      }
      const auto index = static_cast<size_t>(i);
      if (all_fed[index]) return errors::InvalidArgument("feed '", name, "' was given already");
      TANDEM_RETURN_IF_ERROR(CheckFeed(index, value));
      all_fed[index] = true;
      fed->push_back(index);
    }
    for (const std::string& name : fetches) {
      const int64_t i = Find(signature_->names.fetches, name);
      if (i < 0) {
        return errors::InvalidArgument("fetch '", name,
                                       "' was not declared when the partial run was set up");
      }
      const auto index = static_cast<size_t>(i);
      if (all_fetched[index]) {
        return errors::InvalidArgument("fetch '", name, "' was asked for already");
      }
      all_fetched[index] = true;
      call->fetches.push_back(index);
    }
    const auto all = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), false) == flags.end();
    };
    const bool is_fed = all(all_fed);
    if (!is_fed) {
      const int64_t missing = MissingFeed(*signature_, call->fetches, all_fed);
      if (missing >= 0) {
        return errors::InvalidArgument("what is fetched depends on '",
                                       signature_->names.feeds[static_cast<size_t>(missing)],
                                       "', which has not been fed yet");
      }
    }
    call->pending += call->fetches.size();
    call->results.resize(call->fetches.size());
    call->is_last = is_fed && all(all_fetched);
    fed_ = std::move(all_fed);
    fetched_ = std::move(all_fetched);
    return absl::OkStatus();
  }

  absl::Status CheckFeed(size_t i, const Tensor& value) const {
    const std::string& name = signature_->names.feeds[i];
    if (!value.is_valid() || value.dtype() != signature_->feed_types[i]) {
      return errors::InvalidArgument("feed '", name, "' is ", DataTypeName(value.dtype()), "; ",
                                     DataTypeName(signature_->feed_types[i]), " is wanted");
    }
    if (!signature_->feed_shapes[i].IsCompatibleWith(PartialShape(value.shape()))) {
      return errors::InvalidArgument("feed '", name, "' has the shape ",
                                     value.shape().DebugString(), "; ",
                                     signature_->feed_shapes[i].DebugString(), " is wanted");
    }
    return absl::OkStatus();
  }

  void Begin(const RunOptions& options) {
    RunOptions step;
    step.trace = options.trace;
    step.partition_graphs = options.partition_graphs;
    step.collective_step = options.collective_step;
    step.cancellation = &cancellation_;
    step.rendezvous = &rendezvous_;
    callable_->Start({}, step, &metadata_,
                     [self = shared_from_this()](const absl::StatusOr<std::vector<Tensor>>& ended) {
                       self->StepEnded(ended.status());
                     });
  }

  void Fetched(const std::shared_ptr<Call>& call, size_t i,
               absl::StatusOr<Rendezvous::Entry> entry) {
    absl::Status error = entry.status();
    if (error.ok() && entry->is_dead) {
      error =
          errors::InvalidArgument("fetch '", signature_->names.fetches[call->fetches[i]],
                                  "' lies on a branch that was not taken, so that it has no value");
    }
    {
      MutexLock lock(mu_);
      if (error.ok()) {
        call->results[i] = std::move(entry->value);
      } else if (call->error.ok()) {
        call->error = std::move(error);
      }
    }
    PartEnded(call);
  }

  void PartEnded(const std::shared_ptr<Call>& call) {
    absl::Status error;
    bool waits = false;
    {
      MutexLock lock(mu_);
      if (--call->pending > 0) return;
      // Whoever asks for nothing learns, too, that the step has failed.
      if (call->error.ok() && has_ended_) call->error = status_;
      error = call->error;
      waits = (call->is_last || !error.ok()) && !has_ended_;
      if (waits) {
        wait_for_end_.push_back([self = shared_from_this(), call] { self->Deliver(*call); });
      }
    }
    if (!waits) {
      Deliver(*call);
    } else if (!error.ok()) {
      cancellation_.Cancel(std::move(error));
    }
  }

  void StepEnded(const absl::Status& status) {
    if (!status.ok()) rendezvous_.Abort(status);
    std::vector<absl::AnyInvocable<void()>> waiting;
    {
      MutexLock lock(mu_);
      has_ended_ = true;
      status_ = status;
      waiting.swap(wait_for_end_);
    }
    for (auto& ended : waiting) ended();
  }

  void Deliver(Call& call) {
    if (call.cancellation != nullptr) call.cancellation->Deregister(call.token);
    absl::Status status;
    {
      MutexLock lock(mu_);
      status = call.error;
      if (status.ok() && call.is_last) status = status_;
      is_over_ = is_over_ || call.is_last || !status.ok();
    }
    if (call.is_last && call.metadata != nullptr) *call.metadata = std::move(metadata_);
    if (status.ok()) {
      call.done(std::move(call.results));
    } else {
      call.done(std::move(status));
    }
  }

  const std::shared_ptr<const PartialSignature> signature_;
  const std::unique_ptr<Session::Callable> callable_;
  CancellationManager cancellation_;  // Of the step.
  LocalRendezvous rendezvous_;
  RunMetadata metadata_;  // Of the step, once it has ended.

  mutable Mutex mu_;
  std::vector<bool> fed_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> fetched_ ABSL_GUARDED_BY(mu_);
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // Of the step, once it has ended.
  std::vector<absl::AnyInvocable<void()>> wait_for_end_ ABSL_GUARDED_BY(mu_);
};

class PartialRunImpl final : public Session::PartialRun {
 public:
  explicit PartialRunImpl(std::shared_ptr<PartialStep> step) : step_(std::move(step)) {}
  ~PartialRunImpl() override {
    Event ended;
    step_->End(errors::Cancelled("the partial run was given up"), [&ended] { ended.Set(); });
    ended.Wait();
  }

  absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Session::Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          RunMetadata* metadata) override {
    absl::StatusOr<std::vector<Tensor>> results = errors::Internal("the call has not ended");
    Event ended;
    CancellationManager cancellation(options.cancellation);
    RunOptions started = options;
    started.timeout = absl::InfiniteDuration();
    started.cancellation = &cancellation;
    step_->Start(started, feeds, fetches, metadata,
                 [&](absl::StatusOr<std::vector<Tensor>> values) {
                   results = std::move(values);
                   ended.Set();
                 });
    const absl::Time deadline = options.timeout == absl::InfiniteDuration()
                                    ? absl::InfiniteFuture()
                                    : absl::Now() + options.timeout;
    if (!ended.Wait(deadline)) {
      cancellation.Cancel(errors::DeadlineExceeded("the partial run was not done after ",
                                                   absl::FormatDuration(options.timeout)));
      ended.Wait();
    }
    return results;
  }

  void Start(const RunOptions& options, Session::Feeds feeds, std::vector<std::string> fetches,
             RunMetadata* metadata, Session::Callable::Done done) override {
    if (options.timeout != absl::InfiniteDuration()) {
      done(errors::InvalidArgument(
          "a run that is started without waiting has no deadline of its own; cancel it in time"));
      return;
    }
    step_->Start(options, std::move(feeds), std::move(fetches), metadata, std::move(done));
  }

  bool is_over() const override { return step_->is_over(); }
  void End(const absl::Status& reason, absl::AnyInvocable<void()> ended) override {
    step_->End(reason, std::move(ended));
  }

 private:
  const std::shared_ptr<PartialStep> step_;
};

}  // namespace

std::unique_ptr<Session::PartialRun> NewPartialRun(
    std::shared_ptr<const PartialSignature> signature,
    std::unique_ptr<Session::Callable> callable) {
  return std::make_unique<PartialRunImpl>(
      std::make_shared<PartialStep>(std::move(signature), std::move(callable)));
}

}  // namespace tandem
