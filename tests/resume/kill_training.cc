#include "tests/resume/kill_training.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"

namespace tandem::testing {
namespace {

constexpr char kDemo[] = "tools/demo_main";
constexpr char kResults[] = "_tandem/history/values";

// A program that runs. It ends with this object at the latest.
class Process {
 public:
  static absl::StatusOr<Process> Start(const std::vector<std::string>& command,
                                       const std::string& log) {
    std::vector<char*> arguments;
    for (const std::string& argument : command) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&actions, stream, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0644);
    }
    pid_t pid = 0;
    const int error = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      return errors::Internal("'", command[0], "' does not start: ", std::strerror(error));
    }
    return Process(pid);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    Kill();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }

  void Kill() {
    if (pid_ > 0) kill(pid_, SIGKILL);
  }
  // The status of waitpid, once it has ended.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

std::string ReadLog(const std::string& path) {
  const auto contents = ReadFile(PosixFileSystem(), path);
  return contents.ok() ? *contents : contents.status().ToString();
}

// A training of the demo.
struct DemoTraining {
  std::string folder;  // Of its checkpoints.
  std::vector<std::string> flags;
};

// Starts or resumes the demo and kills it after `patience`, unless it has ended. True: it was
// killed. An error: it ended with another code than 0.
absl::StatusOr<bool> RunAndKill(const DemoTraining& training, absl::Duration patience) {
  std::vector<std::string> command = {kDemo, "--data=tools/datasets/mnist", "--resume",
                                      absl::StrCat("--checkpoint_dir=", training.folder)};
  command.insert(command.end(), training.flags.begin(), training.flags.end());
  const std::string log = absl::StrCat(training.folder, ".log");
  TANDEM_ASSIGN_OR_RETURN(Process process, Process::Start(command, log));
  if (patience < absl::InfiniteDuration()) {
    absl::SleepFor(patience);
    process.Kill();
  }
  const int status = process.Wait();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  return errors::Internal("the demo ended with the status ", status, ":\n", ReadLog(log));
}

// All tensors of the newest checkpoint of a folder as bytes, notes too.
absl::StatusOr<std::map<std::string, std::string>> FinalTensors(const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(folder));
  std::map<std::string, std::string> tensors;
  for (const std::string& name : checkpoint->bundle().Names()) {
    TANDEM_ASSIGN_OR_RETURN(const Tensor value, checkpoint->bundle().Read(name));
    std::string& bytes = tensors[name];
    if (value.dtype() == kString) {
      for (const std::string& element : value.Elements<std::string>()) {
        absl::StrAppend(&bytes, element.size(), ":", element);
      }
    } else {
      bytes.assign(static_cast<const char*>(value.data()), value.num_bytes());
    }
  }
  // Among the results of epochs is how long they took, which no two trainings share.
  TANDEM_ASSIGN_OR_RETURN(const Tensor names, checkpoint->bundle().Read("_tandem/history/names"));
  TANDEM_ASSIGN_OR_RETURN(const Tensor values, checkpoint->bundle().Read(kResults));
  std::string& results = tensors[kResults];
  results.clear();
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const std::string& name = names.Elements<std::string>()[static_cast<size_t>(i)];
    if (absl::EndsWith(name, "seconds")) continue;
    absl::StrAppend(&results, name, " ",
                    absl::StrFormat("%a", values.Elements<double>()[static_cast<size_t>(i)]), "\n");
  }
  return tensors;
}

}  // namespace

void KillAndCompare(const std::vector<std::string>& flags, int kills, uint32_t seed) {
  const char* const scratch = std::getenv("TEST_TMPDIR");
  const std::string folder =
      absl::StrCat(scratch == nullptr ? "/tmp" : scratch, "/resume-", getpid(), "-", seed);
  const DemoTraining undisturbed = {absl::StrCat(folder, "-undisturbed"), flags};
  const absl::Time begin = absl::Now();
  auto killed = RunAndKill(undisturbed, absl::InfiniteDuration());
  ASSERT_TRUE(killed.ok()) << killed.status();
  const absl::Duration time = absl::Now() - begin;

  // A training that ends before all kills are done is begun again, so that all of them happen.
  std::mt19937 random(seed);
  int done = 0;
  int trainings = 0;
  const auto expected = FinalTensors(undisturbed.folder);
  ASSERT_TRUE(expected.ok()) << expected.status();
  while (done < kills) {
    const DemoTraining training = {absl::StrCat(folder, "-", trainings++), flags};
    for (bool is_done = false; !is_done;) {
      // The last time it is let be.
      const absl::Duration patience = done == kills
                                          ? absl::InfiniteDuration()
                                          : time * std::uniform_real_distribution<>(0, 1)(random);
      killed = RunAndKill(training, patience);
      ASSERT_TRUE(killed.ok()) << killed.status();
      is_done = !*killed;
      if (*killed) ++done;
    }
    const auto got = FinalTensors(training.folder);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), expected->size());
    for (const auto& [name, bytes] : *expected) {
      const auto found = got->find(name);
      ASSERT_TRUE(found != got->end()) << name;
      EXPECT_TRUE(found->second == bytes) << name << " differs after " << done << " kills; see "
                                          << ReadLog(absl::StrCat(training.folder, ".log"));
    }
  }
  std::printf("%d kills in %d trainings of %.1f s\n", done, trainings, absl::ToDoubleSeconds(time));
}

}  // namespace tandem::testing
