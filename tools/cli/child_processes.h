// ChildProcesses: several processes, whose lines are passed on with a name before each, and which
// end together.
#ifndef TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_
#define TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::cli {

struct ChildSpec {
  std::string name;  // Before its lines: "[worker:1] ".
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // On top of this process's.
  bool serves = false;  // Runs until the others have ended.
};

// Threads: one. At most one object at a time, since signals belong to the process: SIGINT, SIGTERM
// and SIGHUP are held back from the object's making on, so that it can end its children in order.
class ChildProcesses {
 public:
  ChildProcesses();
  // Ends those that run, at once.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // NotFound: there is no such program. Returns the number of the process.
  absl::StatusOr<pid_t> Start(const ChildSpec& spec);

  // Passes their lines on until
  //   * all that do not serve have ended with 0 (there must be one): the others are ended;
  //   * one ends otherwise, or one that serves ends at all: the others are ended, and the error
  //   says
  //     which it was and how it ended;
  //   * a signal tells this process to end: all are ended, and `signal` is it.
  // They are ended by SIGTERM, after `grace`, or a second signal, by SIGKILL. All have ended when
  // it returns.
  absl::Status Run(absl::Duration grace, int* signal);

 private:
  struct Child {
    ChildSpec spec;
    pid_t pid = 0;
    bool runs = false;
    int output = -1;         // Its stdout and stderr; -1 when closed.
    std::string unfinished;  // The line that it has not ended.
  };

  // One round of waiting, until `deadline` at the latest.
  void Wait(absl::Time deadline);
  void ReadLines(Child& child);
  void NoteEnds();
  void Signal(int number);
  bool AnyRuns() const;

  std::vector<Child> children_;
  int signals_ = -1;      // A signalfd.
  int asked_to_end_ = 0;  // The last signal that told this process to end.
  int times_asked_ = 0;
  absl::Status failure_;
  bool ending_ = false;
};

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_
