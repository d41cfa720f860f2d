#include "tests/cluster/server_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

constexpr char kServer[] = "tools/tandem_server";
constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& environment) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view name = absl::string_view(*entry).substr(0, std::strcspn(*entry, "="));
    if (environment.count(std::string(name)) == 0) variables.emplace_back(*entry);
  }
  for (const auto& [name, value] : environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0) << std::strerror(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const int error =
      posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  EXPECT_EQ(error, 0) << command[0] << ": " << std::strerror(error);
  reader_ = std::thread([this, fd = ends[0]] { Read(fd); });
}

ServerProcess::~ServerProcess() {
  Kill();
  if (reader_.joinable()) reader_.join();
}

void ServerProcess::Read(int fd) {
  std::string line;
  char bytes[4096];
  for (;;) {
    const ssize_t count = read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    const absl::Time now = absl::Now();
    MutexLock lock(mu_);
    for (ssize_t i = 0; i < count; ++i) {
      if (bytes[i] == '\n') {
        lines_.push_back({now, std::move(line)});
        line.clear();
      } else {
        line += bytes[i];
      }
    }
    ended_ = count <= 0;
    changed_.NotifyAll();
    if (ended_) break;
  }
  close(fd);
}

bool ServerProcess::WaitForLine(absl::string_view words) {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(mu_);
  for (size_t seen = 0;;) {
    for (; seen < lines_.size(); ++seen) {
      if (absl::StrContains(lines_[seen].text, words)) return true;
    }
    if (ended_ || !changed_.WaitUntil(mu_, deadline)) {
      const std::string all = absl::StrJoin(lines_, "\n", [](std::string* out, const Line& line) {
        absl::StrAppend(out, line.text);
      });
      ADD_FAILURE() << "no line '" << words << "' in:\n" << all;
      return false;
    }
  }
}

int ServerProcess::CountLines(absl::string_view words) {
  MutexLock lock(mu_);
  int count = 0;
  for (const Line& line : lines_) count += absl::StrContains(line.text, words) ? 1 : 0;
  return count;
}

std::vector<ServerProcess::Line> ServerProcess::LinesFrom(size_t first, absl::Time deadline) {
  MutexLock lock(mu_);
  while (lines_.size() <= first && !ended_ && absl::Now() < deadline) {
    changed_.WaitUntil(mu_, deadline);
  }
  if (lines_.size() <= first) return {};
  return {lines_.begin() + static_cast<std::ptrdiff_t>(first), lines_.end()};
}

absl::optional<int> ServerProcess::WaitForEnd(absl::Time deadline) {
  {
    MutexLock lock(mu_);
    while (!ended_ && changed_.WaitUntil(mu_, deadline)) {
    }
    if (!ended_) return absl::nullopt;
  }
  int status = 0;
  while (pid_ > 0) {
    const pid_t waited = waitpid(pid_, &status, WNOHANG);
    if (waited == pid_) {
      pid_ = 0;
      return status;
    }
    if (absl::Now() > deadline) return absl::nullopt;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::nullopt;
}

void ServerProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

void ServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

ProcessCluster::ProcessCluster(const std::map<std::string, int>& jobs) {
  std::random_device random;
  const std::string host =
      absl::StrCat("127.", 16 + random() % 200, ".", random() % 256, ".", 1 + random() % 254);
  int port = 20'000;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) config_.jobs[job][i] = absl::StrCat(host, ":", port++);
  }
  // What the tests wait for is in the log.
  setenv("TANDEM_LOG_LEVEL", "info", 1);
}

void ProcessCluster::Start(const TaskId& task, const std::vector<std::string>& flags) {
  std::vector<std::string> jobs;
  for (const auto& [job, tasks] : config_.jobs) {
    std::vector<std::string> addresses;
    for (const auto& [index, address] : tasks)
      addresses.push_back(absl::StrCat("\"", address, "\""));
    jobs.push_back(absl::StrCat("\"", job, "\": [", absl::StrJoin(addresses, ", "), "]"));
  }
  std::vector<std::string> command = {
      kServer, absl::StrCat("--cluster={", absl::StrJoin(jobs, ", "), "}"),
      absl::StrCat("--job=", task.job), absl::StrCat("--task=", task.index)};
  command.insert(command.end(), flags.begin(), flags.end());
  std::unique_ptr<ServerProcess>& process = processes_[task.ToString()];
  process.reset();
  process = std::make_unique<ServerProcess>(command);
  ASSERT_TRUE(process->WaitForLine("serving "));
}

void ProcessCluster::StartAll() {
  for (const auto& [job, tasks] : config_.jobs) {
    for (const auto& [index, address] : tasks) Start({job, index});
  }
}

std::string ProcessCluster::target(const TaskId& task) const {
  return absl::StrCat("grpc://", *config_.Address(task));
}

}  // namespace tandem::testing
