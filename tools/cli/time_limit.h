// TimeLimit: how long a command may take in all, reading files included.
#ifndef TANDEM_TOOLS_CLI_TIME_LIMIT_H_
#define TANDEM_TOOLS_CLI_TIME_LIMIT_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace tandem::cli {

// Reading a pipe that nobody writes to, or a file system that does not answer, cannot be ended from
// within; so when the limit passes somebody else is told, on a thread of this object, who may end
// the process.
class TimeLimit {
 public:
  // Calls `expired` once with what was being done, `limit` after this call, unless the object is
  // destroyed before. An infinite limit costs nothing.
  TimeLimit(absl::Duration limit, std::function<void(const std::string& doing)> expired);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  // What is being done from now on, for the message: "reading graph file 'x'".
  void Doing(std::string what);
  // The same for something that ends by itself when the time that is left (0 or more, which is
  // returned) has passed, and then knows better what it waited for: it gets 5 s more.
  absl::Duration DoingWhatEndsItself(std::string what);

 private:
  void Watch();

  const std::function<void(const std::string& doing)> expired_;
  const absl::Time end_;

  Mutex mu_;
  CondVar changed_;
  std::string doing_ ABSL_GUARDED_BY(mu_) = "starting";
  absl::Duration grace_ ABSL_GUARDED_BY(mu_);
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_TIME_LIMIT_H_
