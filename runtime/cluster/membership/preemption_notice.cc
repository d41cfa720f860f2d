#include "runtime/cluster/membership/preemption_notice.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/threads/start_thread.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<PreemptionNotice>> PreemptionNotice::Watch(
    const std::string& path, absl::Duration interval, std::function<void()> on_notice) {
  if (path.empty() || interval <= absl::ZeroDuration()) {
    return errors::InvalidArgument("a notice of preemption is the path of a file ('", path,
                                   "'), looked for at an interval (",
                                   absl::FormatDuration(interval), ")");
  }
  if (absl::StrContains(path, "://")) {
    return errors::Unimplemented("'", path,
                                 "': notices are read from files; let a script poll the address "
                                 "and make a file");
  }
  return std::unique_ptr<PreemptionNotice>(
      new PreemptionNotice(path, interval, std::move(on_notice)));
}

PreemptionNotice::PreemptionNotice(std::string path, absl::Duration interval,
                                   std::function<void()> on_notice)
    : path_(std::move(path)), interval_(interval), on_notice_(std::move(on_notice)) {
  thread_ = StartThread("preemption", [this] { Look(); });
}

PreemptionNotice::~PreemptionNotice() {
  {
    MutexLock lock(mu_);
    stops_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void PreemptionNotice::Look() {
  while (!PosixFileSystem()->Stat(path_).ok()) {
    MutexLock lock(mu_);
    const absl::Time until = absl::Now() + interval_;
    while (!stops_ && absl::Now() < until) changed_.WaitUntil(mu_, until);
    if (stops_) return;
  }
  TANDEM_LOG(Warning) << "this machine is to be taken away: '" << path_ << "' is there";
  on_notice_();
}

}  // namespace tandem
