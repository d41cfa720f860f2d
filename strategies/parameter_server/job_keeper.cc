#include "strategies/parameter_server/job_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

// Whoever ends this does not wait longer for a server that does not answer.
constexpr absl::Duration kLongestCall = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(200);

JobHolder Self() {
  JobHolder self;
  std::random_device random;
  while (self.number == 0) self.number = (uint64_t{random()} << 32) | random();
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, HOST_NAME_MAX);
  self.who = absl::StrCat("process ", getpid(), " on ", host);
  return self;
}

bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

JobKeeper::JobKeeper(JobKeeperOptions options)
    : options_(std::move(options)), self_(Self()), thread_([this] { Run(); }) {}

JobKeeper::~JobKeeper() { Stop(); }

void JobKeeper::Begin() {
  MutexLock lock(mu_);
  if (std::exchange(wants_, true)) return;
  began_ = absl::Now();
  changed_.NotifyAll();
}

void JobKeeper::Stop() {
  {
    MutexLock lock(mu_);
    ends_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void JobKeeper::GiveBack(absl::Time deadline) {
  if (!is_held_ || !is_there_) return;
  const absl::Status status =
      options_.client->Hold(options_.job, self_, absl::ZeroDuration(), deadline).status();
  if (status.ok()) return;
  TANDEM_LOG(Debug) << options_.task << " is not told that the coordinator of '" << options_.job
                    << "' has ended: " << status.message();
}

bool JobKeeper::Wait(absl::Duration time) {
  const absl::Time until = absl::Now() + time;
  MutexLock lock(mu_);
  while (!ends_ && (!wants_ || absl::Now() < until)) {
    changed_.WaitUntil(mu_, wants_ ? until : absl::InfiniteFuture());
  }
  return !ends_;
}

void JobKeeper::Run() {
  absl::optional<JobHolder> seen;
  absl::Duration pause = absl::ZeroDuration();
  while (Wait(pause)) {
    const auto other =
        options_.client->Hold(options_.job, self_, options_.lease, absl::Now() + kLongestCall);
    is_there_ = other.ok();
    pause = std::min({options_.heartbeat, options_.lease / 4, kLongestPause});
    if (!other.ok()) {
      // Its own thread waits for a server that is lost later.
      if (is_held_) continue;
      absl::Status error =
          WithContext(other.status(), absl::StrCat("parameter server ", options_.task));
      {
        MutexLock lock(mu_);
        if (IsLoss(other.status())) {
          if (absl::Now() - began_ < options_.start_timeout) continue;
          error = errors::DeadlineExceeded("parameter server ", options_.task, " at ",
                                           options_.client->address(), " is not there after ",
                                           absl::FormatDuration(options_.start_timeout), ": ",
                                           other.status().message());
        }
        wants_ = false;
      }
      options_.on_not_there(error);
      continue;
    }
    if (!other->has_value()) {
      pause = options_.heartbeat;
      if (!std::exchange(is_held_, true)) options_.on_held();
      continue;
    }
    // It lives if it was heard of since; or else its lease will be over.
    const bool lives =
        seen.has_value() && seen->number == (*other)->number && seen->renewals < (*other)->renewals;
    seen = **other;
    if (!lives && !is_held_) continue;
    const bool was_held = std::exchange(is_held_, false);
    options_.on_refused(errors::FailedPrecondition(
        "the job '", options_.job, "' has another coordinator: ", seen->who, ", of which ",
        options_.task, " has heard ", absl::FormatDuration(seen->heard_before), " ago. ",
        was_held ? "It took the job over while this process was not heard of"
                 : "Only one process may run the program of a job: end the other one first, or "
                   "give this job servers of its own"));
    return;
  }
}

}  // namespace tandem::parameter_server
