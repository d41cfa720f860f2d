// Members of a group that are processes, killed and stopped by tests.
#ifndef TANDEM_RUNTIME_COLLECTIVE_PROCESSES_TEST_UTIL_H_
#define TANDEM_RUNTIME_COLLECTIVE_PROCESSES_TEST_UTIL_H_

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/collective/group.h"
#include "runtime/collective/group_test_util.h"

namespace tandem::collective {

// What a member says to the test, in memory that both share.
struct Report {
  std::atomic<int64_t> steps;  // Operations that ended well.
  std::atomic<int> code;       // Of the status that ended it; -1 while it runs.
  char message[1024];
};

class Processes {
 public:
  using Body = std::function<absl::Status(Group& group, Report& report)>;

  // Forks; the test has no threads at that time. Each child forms a group and runs the body.
  Processes(const GroupOptions& options, const Body& body) {
    const size_t size = options.members.size();
    // Left to the end of the process: children may outlive the object when a test fails.
    void* const memory = mmap(nullptr, size * sizeof(Report), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    reports_ = static_cast<Report*>(memory);
    std::string folder = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
    folder_ = mkdtemp(&folder[0]) != nullptr ? folder : "";
    for (size_t i = 0; i < size; ++i) {
      new (&reports_[i]) Report;
      reports_[i].code.store(-1);
      const pid_t pid = fork();
      if (pid == 0) {
        // No child outlives the test.
        alarm(240);
        RunChild(options, static_cast<int>(i), body);
      }
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  Report& report(int rank) { return reports_[rank]; }
  std::string message(int rank) { return reports_[rank].message; }
  void Signal(int rank, int number) { kill(pids_[static_cast<size_t>(rank)], number); }

  // False: it did not happen within two minutes.
  static bool WaitUntil(const std::function<bool()>& condition) {
    const absl::Time deadline = absl::Now() + absl::Minutes(2);
    while (!condition()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }
  bool WaitForSteps(int64_t steps) {
    return WaitUntil([&] {
      for (size_t i = 0; i < pids_.size(); ++i) {
        if (reports_[i].steps.load() < steps) return false;
      }
      return true;
    });
  }
  bool WaitForEnd(int rank) {
    return WaitUntil([&] { return reports_[rank].code.load() >= 0; });
  }
  absl::StatusCode code(int rank) {
    return static_cast<absl::StatusCode>(reports_[rank].code.load());
  }

 private:
  [[noreturn]] void RunChild(GroupOptions options, int rank, const Body& body) {
    options.rank = rank;
    FolderStore store(folder_);
    absl::StatusOr<std::unique_ptr<Group>> group = Group::Form(options, &store);
    absl::Status status = group.status();
    if (status.ok()) status = body(**group, reports_[rank]);
    std::strncpy(reports_[rank].message, std::string(status.message()).c_str(),
                 sizeof(Report::message) - 1);
    reports_[rank].code.store(static_cast<int>(status.code()));
    if (group.ok()) group->reset();
    // Without the test's own exit.
    _exit(0);
  }

  Report* reports_ = nullptr;
  std::string folder_;
  std::vector<pid_t> pids_;
};

// All-reduces until something fails, or `most` of them.
inline Processes::Body AllReduceLoop(int64_t count, int64_t most = 1 << 30) {
  return [count, most](Group& group, Report& report) {
    std::vector<float> input(static_cast<size_t>(count), 1.f);
    std::vector<float> output(static_cast<size_t>(count));
    for (int64_t step = 0; step < most; ++step) {
      Request request;
      request.input = input.data();
      request.output = output.data();
      request.count = count;
      request.instance = 7;
      request.step = step;
      request.name = "loop";
      const absl::Status status = group.Run(std::move(request));
      if (!status.ok()) return status;
      for (const float value : output) {
        if (value != static_cast<float>(group.size())) {
          return absl::DataLossError(absl::StrCat("step ", step, ": ", value));
        }
      }
      report.steps.fetch_add(1);
    }
    return absl::OkStatus();
  };
}

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_PROCESSES_TEST_UTIL_H_
