#include "tools/cli/time_limit.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);

}  // namespace

TimeLimit::TimeLimit(absl::Duration limit, std::function<void(const std::string& doing)> expired)
    : expired_(std::move(expired)), end_(absl::Now() + limit) {
  if (limit < absl::InfiniteDuration()) watcher_ = std::thread([this] { Watch(); });
}

TimeLimit::~TimeLimit() {
  {
    MutexLock lock(mu_);
    done_ = true;
    changed_.NotifyAll();
  }
  if (watcher_.joinable()) watcher_.join();
}

void TimeLimit::Doing(std::string what) {
  MutexLock lock(mu_);
  doing_ = std::move(what);
  grace_ = absl::ZeroDuration();
  changed_.NotifyAll();
}

absl::Duration TimeLimit::DoingWhatEndsItself(std::string what) {
  MutexLock lock(mu_);
  doing_ = std::move(what);
  grace_ = kGrace;
  changed_.NotifyAll();
  return std::max(end_ - absl::Now(), absl::ZeroDuration());
}

void TimeLimit::Watch() {
  std::string doing;
  {
    MutexLock lock(mu_);
    while (!done_ && absl::Now() < end_ + grace_) changed_.WaitUntil(mu_, end_ + grace_);
    if (done_) return;
    doing = doing_;
  }
  expired_(doing);
}

}  // namespace tandem::cli
