// Clusters of tandem_server processes, whose tasks are killed, stopped and started again.
#ifndef TANDEM_TESTS_CLUSTER_SERVER_PROCESSES_H_
#define TANDEM_TESTS_CLUSTER_SERVER_PROCESSES_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "runtime/cluster/cluster_config.h"

namespace tandem::testing {

// A program that runs, and what it prints and logs. It ends with this object at the latest.
class ServerProcess {
 public:
  struct Line {
    absl::Time when;  // It was read.
    std::string text;
  };

  // `environment`: what is added to this process's.
  explicit ServerProcess(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment = {});
  ~ServerProcess();

  pid_t pid() const { return pid_; }
  // Waits until the program has written a line with these words. False: it has ended without, or a
  // minute has passed.
  bool WaitForLine(absl::string_view words);
  int CountLines(absl::string_view words);
  // The lines from number `first` on, once there are any, the program has written its last one, or
  // the deadline has passed.
  std::vector<Line> LinesFrom(size_t first, absl::Time deadline = absl::InfinitePast());
  // The status of waitpid, once the program has ended and all that it wrote has been read; nothing:
  // it has not by then.
  absl::optional<int> WaitForEnd(absl::Time deadline);
  // SIGSTOP, SIGCONT, ….
  void Signal(int signal);
  // SIGKILL; returns when the process is gone.
  void Kill();

 private:
  void Read(int fd);

  pid_t pid_ = 0;
  Mutex mu_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Line> lines_ ABSL_GUARDED_BY(mu_);
  std::thread reader_;
};

// Servers at a loopback address of this test's own.
class ProcessCluster {
 public:
  // Jobs and their numbers of tasks. Nothing is started.
  explicit ProcessCluster(const std::map<std::string, int>& jobs);

  // Starts a server for the task, also in place of one that was killed, and waits until it serves.
  void Start(const TaskId& task, const std::vector<std::string>& flags = {});
  void StartAll();
  ServerProcess& process(const TaskId& task) { return *processes_.at(task.ToString()); }
  std::string target(const TaskId& task) const;

 private:
  ClusterConfig config_;
  std::map<std::string, std::unique_ptr<ServerProcess>> processes_;
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_CLUSTER_SERVER_PROCESSES_H_
