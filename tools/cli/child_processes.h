// ChildProcesses: several processes, whose lines are passed on with a name before each, and which
// end together.
//
// Who runs under nohup ignores SIGHUP, and so do this process and its children then.
#ifndef TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_
#define TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <csignal>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::cli {

// "ended with code 1", "was ended by SIGKILL": of a status as waitpid gives it.
std::string HowItEnded(int status);

struct ChildSpec {
  std::string name;  // Before its lines: "[worker:1] ".
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // On top of this process's.
  bool serves = false;  // Runs until the others have ended.
  // Its standard output is that of this process, as it is, with whatever it draws on a terminal.
  // What it writes as errors comes with its name, among this process's errors.
  bool inherits_output = false;
};

// How processes are kept running that may fail.
struct RestartPolicy {
  // The work goes on while so many have not failed for good.
  int least = 1;
  // How often each is started again after it failed, with a growing pause: 1 s, 2 s, … 30 s. One
  // that has run for `settled` begins with the first pause again.
  int most_restarts = 3;
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration settled = absl::Seconds(10);
  // Codes with which a process says that it would fail again.
  std::vector<int> final_codes;
  // Whose work the others serve; empty: nobody's. When it ends because it was told to (with 128 and
  // the number of a signal) the work is over for all.
  std::string leader;
  // SIGINT is passed on as what it is; else all are told to end by SIGTERM.
  bool passes_interrupts = false;
  // A variable of the environment that says how often a process was started again.
  std::string restart_variable;
  // Told of each start and each end. Restarts count from 0.
  std::function<void(const std::string& name, pid_t pid, int restart)> on_start;
  std::function<void(const std::string& name, pid_t pid)> on_end;
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

  // Writes a line of this process's own; where children draw on the same terminal, in the place of
  // the line that they were at.
  void Say(const std::string& line) const;

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

  // The same for processes that are started again when they fail, and whose own children end with
  // them. Returns when all have ended with 0, or failed for good; or, with an error that names the
  // first failure and its last lines, when fewer than `least` have not. `signal`, too, as above;
  // `codes` has how each ended last, as waitpid gives it.
  //
  // Once one has ended with 0 the work is done: the others may take their time, and none is started
  // again. One that fails then is an error, too.
  absl::Status RunWithRestarts(const RestartPolicy& policy, absl::Duration grace, int* signal,
                               std::vector<int>* codes);

 private:
  struct Child {
    ChildSpec spec;
    pid_t pid = 0;
    bool runs = false;
    int output = -1;         // Its stdout and stderr; -1 when closed.
    std::string unfinished;  // The line that it has not ended.
    std::deque<std::string> last_lines;
    absl::Time started;
    int restarts = 0;
    int quick_ends = 0;  // How often in a row it failed before it had settled.
    int end = 0;         // How it ended, as waitpid gives it.
    bool has_ended = false;
    absl::Time start_again = absl::InfiniteFuture();
  };

  // Makes the process of a child.
  absl::Status Spawn(Child& child);
  // One round of waiting, until `deadline` at the latest.
  void Wait(absl::Time deadline);
  // Ends all, by force after `grace` or another signal; reads what they wrote last.
  void EndAll(absl::Duration grace);
  void NoteRestart(const RestartPolicy& policy, Child& child);
  void ReadLines(Child& child);
  void NoteEnds();
  void Signal(int number);
  bool AnyRuns() const;
  bool AnySucceeded() const;
  // The policy's leader has ended, and will not be started again.
  bool HasLeaderEnded() const;
  // It has done so because it was told to.
  bool WasLeaderStopped() const;
  // Runs, or will run again.
  static bool IsThere(const Child& child);

  std::vector<Child> children_;
  const sigset_t handled_;  // The signals that are held back.
  int signals_ = -1;        // A signalfd.
  int asked_to_end_ = 0;    // The last signal that told this process to end.
  int times_asked_ = 0;
  absl::Status failure_;
  absl::Time last_failure_ = absl::InfinitePast();
  bool failed_late_ = false;  // After others had ended with 0, for good.
  bool ending_ = false;
  const RestartPolicy* policy_ = nullptr;  // Of RunWithRestarts, while it runs.
};

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_CHILD_PROCESSES_H_
