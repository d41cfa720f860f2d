#include "tools/cli/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"

namespace tandem::cli {
namespace {

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
  return signals;
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return absl::StrCat("ended with code ", WEXITSTATUS(status));
  return absl::StrCat("was ended by SIG", sigabbrev_np(WTERMSIG(status)));
}

}  // namespace

ChildProcesses::ChildProcesses() {
  const sigset_t signals = OurSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

ChildProcesses::~ChildProcesses() {
  Signal(SIGKILL);
  for (Child& child : children_) {
    if (child.runs) waitpid(child.pid, nullptr, 0);
    if (child.output >= 0) close(child.output);
  }
  if (signals_ >= 0) close(signals_);
}

absl::StatusOr<pid_t> ChildProcesses::Start(const ChildSpec& spec) {
  int output[2];
  int failure[2];  // Closed by a successful exec; else it tells the error.
  if (pipe2(output, O_CLOEXEC) != 0) {
    return errors::ResourceExhausted("no pipe: ", std::strerror(errno));
  }
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(output[0]);
    close(output[1]);
    return errors::ResourceExhausted("no pipe: ", std::strerror(error));
  }
  std::vector<char*> words;
  for (const std::string& word : spec.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // A group of its own: Ctrl-C at a terminal reaches it through this process only, once.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);  // Who started it is gone already.
    const sigset_t signals = OurSignals();
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    for (const auto& [name, value] : spec.environment) setenv(name.c_str(), value.c_str(), 1);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    execvp(words[0], words.data());
    const int error = errno;
    (void)!write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  close(output[1]);
  close(failure[1]);
  int error = 0;
  if (pid < 0) {
    error = fork_error;
  } else if (read(failure[0], &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
  }
  close(failure[0]);
  if (error != 0) {
    close(output[0]);
    return errors::NotFound("'", spec.command[0], "' cannot be started: ", std::strerror(error));
  }
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  children_.push_back({spec, pid, /*runs=*/true, output[0], ""});
  return pid;
}

void ChildProcesses::Signal(int number) {
  for (const Child& child : children_) {
    if (child.runs) kill(child.pid, number);
  }
}

bool ChildProcesses::AnyRuns() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.runs; });
}

void ChildProcesses::ReadLines(Child& child) {
  // One that never stops writing does not keep the others' lines.
  constexpr int kMostReads = 64;
  constexpr size_t kLongestLine = size_t{1} << 20;
  char bytes[1 << 14];
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t count = read(child.output, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count > 0) child.unfinished.append(bytes, static_cast<size_t>(count));
    const bool at_end = count <= 0;
    const bool is_cut = child.unfinished.size() > kLongestLine;
    if ((at_end || is_cut) && !child.unfinished.empty()) child.unfinished += '\n';
    size_t begin = 0;
    for (size_t end; (end = child.unfinished.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      std::printf("[%s] %.*s\n", child.spec.name.c_str(), static_cast<int>(end - begin),
                  child.unfinished.c_str() + begin);
    }
    child.unfinished.erase(0, begin);
    std::fflush(stdout);
    if (at_end) {
      close(child.output);
      child.output = -1;
      return;
    }
  }
}

void ChildProcesses::NoteEnds() {
  for (Child& child : children_) {
    int status = 0;
    if (!child.runs || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.runs = false;
    const bool is_success = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ending_ || (is_success && !child.spec.serves)) continue;
    if (failure_.ok()) {
      failure_ = errors::Aborted(child.spec.name, " (pid ", child.pid, ") ", HowItEnded(status));
    }
  }
}

void ChildProcesses::Wait(absl::Time deadline) {
  std::vector<pollfd> files = {{signals_, POLLIN, 0}};
  std::vector<Child*> readers;
  for (Child& child : children_) {
    if (child.output < 0) continue;
    files.push_back({child.output, POLLIN, 0});
    readers.push_back(&child);
  }
  int milliseconds = -1;
  if (deadline != absl::InfiniteFuture()) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    milliseconds = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
  }
  if (poll(files.data(), files.size(), milliseconds) <= 0) return;
  for (size_t i = 0; i < readers.size(); ++i) {
    if (files[i + 1].revents != 0) ReadLines(*readers[i]);
  }
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    asked_to_end_ = static_cast<int>(info.ssi_signo);
    ++times_asked_;
  }
  NoteEnds();
}

absl::Status ChildProcesses::Run(absl::Duration grace, int* signal) {
  const auto has_work = [&] {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return child.runs && !child.spec.serves; });
  };
  const bool ends_by_itself = has_work();
  while (failure_.ok() && asked_to_end_ == 0 && (has_work() || (!ends_by_itself && AnyRuns()))) {
    Wait(absl::InfiniteFuture());
  }
  ending_ = true;
  Signal(SIGTERM);
  const absl::Time deadline = absl::Now() + grace;
  const int asked_before = times_asked_;
  while (AnyRuns()) {
    Wait(deadline);
    if (absl::Now() < deadline && times_asked_ == asked_before) continue;
    Signal(SIGKILL);
    while (AnyRuns()) Wait(absl::InfiniteFuture());
  }
  // What they wrote last. A grandchild that lives on does not keep this process.
  for (Child& child : children_) {
    if (child.output >= 0) ReadLines(child);
  }
  *signal = asked_to_end_;
  return failure_;
}

}  // namespace tandem::cli
