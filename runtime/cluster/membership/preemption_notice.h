// PreemptionNotice: a file that appears when this machine is about to be taken away.
//
//   auto notice = PreemptionNotice::Watch(path, absl::Seconds(1),
//                                         [&] { membership->RequestPreemption(); });
//
// Who runs machines that may go (spot instances, a batch system) lets a hook make the file; SIGTERM
// is the other way, and the trainer's (strategies/trainer/signals.h).
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_PREEMPTION_NOTICE_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_PREEMPTION_NOTICE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace tandem {

// Threads: any.
class PreemptionNotice {
 public:
  // Looks for the file every `interval`, on a thread of its own, and calls `on_notice` once when it
  // is there, also if it was there before. InvalidArgument: no path, or no interval. Unimplemented:
  // the path is a URL.
  static absl::StatusOr<std::unique_ptr<PreemptionNotice>> Watch(const std::string& path,
                                                                 absl::Duration interval,
                                                                 std::function<void()> on_notice);
  // Waits for `on_notice` to return, if it is running.
  ~PreemptionNotice();
  PreemptionNotice(const PreemptionNotice&) = delete;
  PreemptionNotice& operator=(const PreemptionNotice&) = delete;

 private:
  PreemptionNotice(std::string path, absl::Duration interval, std::function<void()> on_notice);

  void Look();

  const std::string path_;
  const absl::Duration interval_;
  const std::function<void()> on_notice_;
  Mutex mu_;
  CondVar changed_;
  bool stops_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_PREEMPTION_NOTICE_H_
