// A job of small_trainer processes: started by `tandem launch`, looked at through what it prints,
// and hurt. What its lines say is checked as they come (see Check).
#ifndef TANDEM_TESTS_MULTI_WORKER_TRAINING_JOB_H_
#define TANDEM_TESTS_MULTI_WORKER_TRAINING_JOB_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tests/cluster/server_processes.h"

namespace tandem::testing {

// A folder of a test's own, which is removed with this object unless the test has failed.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  const std::string& path() const { return path_; }
  std::string operator/(absl::string_view name) const;

 private:
  std::string path_;
};

// What a training ended with that nobody disturbed: the same for any number of workers, bit for
// bit.
struct Undisturbed {
  std::vector<std::string> losses;  // Of each step.
  std::string variables;
};
// Of a deterministic training of one process, once for each number of epochs.
const Undisturbed& UndisturbedTraining(int epochs, bool validates = false);

struct JobOptions {
  int min_workers = 2;
  int max_workers = 2;
  int epochs = 10;  // Of 20 steps.
  absl::Duration step_time = absl::Milliseconds(10);
  std::string die;  // See fault_plan.h.
  bool has_checkpoints = true;
  bool resumes = false;
  bool validates = false;
  int64_t save_every_steps = 20;
  int replicas = 1;
};

class TrainingJob {
 public:
  struct Line {
    absl::Time when;
    int worker = -1;  // -1: the launcher's own.
    std::string text;
  };
  using Matches = std::function<bool(const Line&)>;

  // Starts it. All that it leaves is in `scratch`, where another job may go on from its
  // checkpoints. Its trainings are deterministic.
  TrainingJob(const JobOptions& options, const ScratchFolder& scratch);
  // Ends all that it has started.
  ~TrainingJob();

  // The number of the first line from `from` on that matches; fails the test, and gives -1, when
  // there is none until the job ends or within a minute.
  int Find(const std::string& what, const Matches& matches, int from = 0);
  // How many lines there are by now.
  int num_lines();
  const Line& line(int number) const { return lines_[static_cast<size_t>(number)]; }

  // The greatest step that anybody has completed so far.
  int64_t step();
  bool WaitForStep(int64_t step);
  // Waits until there is a group of so many after line `from`: a line of each of its members.
  bool WaitForGroup(int size, int from);
  // The number of the worker that is rank 0 of the group that the last lines were about.
  int chief();
  // Its process; the last one, if it was started again.
  pid_t pid(int worker);
  pid_t launcher() const { return launcher_->pid(); }
  void Signal(int worker, int signal);
  // Steps take no longer than they must from now on.
  void Hurry();
  // A fault of JobOptions::die has happened; what it wrote.
  absl::optional<std::string> Happened(const std::string& fault) const;

  // The code that the launcher ends with; -1, and a failure of the test, if it has not by the
  // deadline. After it no process is left, and nobody listens at their ports.
  int WaitForEnd(absl::Duration patience = absl::Minutes(2));

  // Fails the test unless
  //   * each process has done its steps one after the other, none of them twice, with gaps only
  //     where it says that it has met the others anew;
  //   * all that say something of a step say the same, and the same as in an undisturbed training;
  //   * every step of the training has been done.
  void CheckSteps(const Undisturbed& expected);
  // And unless each worker of `workers` has ended with the expected variables.
  void CheckResults(const Undisturbed& expected, const std::vector<int>& workers);
  // The steps of the checkpoints that are there.
  std::vector<int64_t> CheckpointedSteps() const;
  std::string All();  // All lines, for messages.

 private:
  void ReadLines(absl::Time deadline);
  void CheckNothingIsLeft();

  const JobOptions options_;
  const std::string folder_;
  std::unique_ptr<ServerProcess> launcher_;
  std::vector<Line> lines_;
};

// "step 17 loss …": 17.
absl::optional<int64_t> StepOf(absl::string_view text);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_MULTI_WORKER_TRAINING_JOB_H_
