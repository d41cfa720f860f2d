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
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/status.h"

namespace tandem::cli {
namespace {

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, number);
  // Held back, it would come although it is ignored.
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

// What takes back a line that is drawn on a terminal: nothing where there is none.
const char* LineBegin(int file) { return isatty(file) != 0 ? "\r\033[K" : ""; }

}  // namespace

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return absl::StrCat("ended with code ", WEXITSTATUS(status));
  return absl::StrCat("was ended by SIG", sigabbrev_np(WTERMSIG(status)));
}

ChildProcesses::ChildProcesses() : handled_(OurSignals()) {
  sigprocmask(SIG_BLOCK, &handled_, nullptr);
  signals_ = signalfd(-1, &handled_, SFD_CLOEXEC | SFD_NONBLOCK);
}

ChildProcesses::~ChildProcesses() {
  Signal(SIGKILL);
  for (Child& child : children_) {
    if (child.runs) waitpid(child.pid, nullptr, 0);
    if (child.output >= 0) close(child.output);
  }
  if (signals_ >= 0) close(signals_);
}

void ChildProcesses::Say(const std::string& line) const {
  const bool shares = std::any_of(children_.begin(), children_.end(),
                                  [](const Child& child) { return child.spec.inherits_output; });
  std::printf("%s%s\n", shares ? LineBegin(STDOUT_FILENO) : "", line.c_str());
  std::fflush(stdout);
}

absl::StatusOr<pid_t> ChildProcesses::Start(const ChildSpec& spec) {
  Child child;
  child.spec = spec;
  TANDEM_RETURN_IF_ERROR(Spawn(child));
  children_.push_back(std::move(child));
  return children_.back().pid;
}

absl::Status ChildProcesses::Spawn(Child& child) {
  const ChildSpec& spec = child.spec;
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
  // Made before the fork: afterwards another thread's lock might be held for ever.
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    merged[variable.first] = variable.second;
  }
  for (const auto& [name, value] : spec.environment) merged[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : merged) entries.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // A group of its own: Ctrl-C at a terminal reaches it through this process only, once.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);  // Who started it is gone already.
    sigprocmask(SIG_UNBLOCK, &handled_, nullptr);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    if (spec.inherits_output) {
      // It is no process of the terminal's foreground, which "stty tostop" would stop.
      signal(SIGTTOU, SIG_IGN);
    } else {
      dup2(output[1], STDOUT_FILENO);
    }
    dup2(output[1], STDERR_FILENO);
    execvpe(words[0], words.data(), environment.data());
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
  child.pid = pid;
  child.runs = true;
  child.output = output[0];
  child.started = absl::Now();
  child.start_again = absl::InfiniteFuture();
  return absl::OkStatus();
}

void ChildProcesses::Signal(int number) {
  for (const Child& child : children_) {
    // Those that are started again may be wrapped in shells, which pass nothing on: the whole
    // group.
    if (child.runs) kill(policy_ == nullptr ? child.pid : -child.pid, number);
  }
}

bool ChildProcesses::AnyRuns() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.runs; });
}

bool ChildProcesses::AnySucceeded() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.has_ended && !child.runs && WIFEXITED(child.end) && WEXITSTATUS(child.end) == 0;
  });
}

bool ChildProcesses::IsThere(const Child& child) {
  return child.runs || child.start_again != absl::InfiniteFuture();
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
      std::FILE* const to = child.spec.inherits_output ? stderr : stdout;
      std::fprintf(to, "%s[%s] %.*s\n", to == stderr ? LineBegin(STDERR_FILENO) : "",
                   child.spec.name.c_str(), static_cast<int>(end - begin),
                   child.unfinished.c_str() + begin);
      constexpr size_t kKeptLines = 5;
      constexpr size_t kKeptBytes = 400;
      child.last_lines.push_back(child.unfinished.substr(begin, std::min(end - begin, kKeptBytes)));
      if (child.last_lines.size() > kKeptLines) child.last_lines.pop_front();
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
    if (!child.runs) continue;
    if (policy_ != nullptr) {
      // What it has started ends with it; while it is not waited for, nobody else has its number.
      siginfo_t info = {};
      if (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid != child.pid) {
        continue;
      }
      kill(-child.pid, SIGKILL);
    }
    if (waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.runs = false;
    child.has_ended = true;
    child.end = status;
    if (policy_ != nullptr) {
      NoteRestart(*policy_, child);
      continue;
    }
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
  EndAll(grace);
  *signal = asked_to_end_;
  return failure_;
}

bool ChildProcesses::HasLeaderEnded() const {
  if (policy_ == nullptr || policy_->leader.empty()) return false;
  return std::any_of(children_.begin(), children_.end(), [this](const Child& child) {
    return child.spec.name == policy_->leader && child.has_ended && !IsThere(child);
  });
}

bool ChildProcesses::WasLeaderStopped() const {
  if (policy_ == nullptr || policy_->leader.empty()) return false;
  return std::any_of(children_.begin(), children_.end(), [this](const Child& child) {
    return child.spec.name == policy_->leader && child.has_ended && !child.runs &&
           WIFEXITED(child.end) && WEXITSTATUS(child.end) > 128;
  });
}

void ChildProcesses::EndAll(absl::Duration grace) {
  ending_ = true;
  const bool is_interrupt = asked_to_end_ == SIGINT && policy_ != nullptr;
  Signal(is_interrupt && policy_->passes_interrupts ? SIGINT : SIGTERM);
  // Those that serve may wait for whom they serve; once it has ended nobody needs them.
  constexpr absl::Duration kAfterLeader = absl::Seconds(2);
  absl::Time deadline = absl::Now() + grace;
  const int asked_before = times_asked_;
  while (AnyRuns()) {
    if (HasLeaderEnded()) deadline = std::min(deadline, absl::Now() + kAfterLeader);
    Wait(deadline);
    if (absl::Now() < deadline && times_asked_ == asked_before) continue;
    Signal(SIGKILL);
    while (AnyRuns()) Wait(absl::InfiniteFuture());
  }
  // What they wrote last. A grandchild that lives on does not keep this process.
  for (Child& child : children_) {
    if (child.output >= 0) ReadLines(child);
  }
}

void ChildProcesses::NoteRestart(const RestartPolicy& policy, Child& child) {
  if (child.output >= 0) ReadLines(child);
  if (policy.on_end) policy.on_end(child.spec.name, child.pid);
  if (ending_ || (WIFEXITED(child.end) && WEXITSTATUS(child.end) == 0)) return;
  const absl::Duration lived = absl::Now() - child.started;
  if (lived >= policy.settled) child.quick_ends = 0;
  const absl::Duration pause =
      std::min(policy.first_pause * (1 << std::min(child.quick_ends++, 10)), absl::Seconds(30));
  const bool is_final =
      WIFEXITED(child.end) && std::find(policy.final_codes.begin(), policy.final_codes.end(),
                                        WEXITSTATUS(child.end)) != policy.final_codes.end();
  if (WasLeaderStopped()) return;  // All end now.
  const bool is_late = AnySucceeded();
  const bool again = child.restarts < policy.most_restarts && !is_final && !is_late;
  failed_late_ = failed_late_ || is_late;
  const std::string what =
      absl::StrCat(child.spec.name, " (pid ", child.pid, ") ", HowItEnded(child.end), " after ",
                   absl::FormatDuration(absl::Trunc(lived, absl::Milliseconds(1))));
  std::string then;
  if (again) {
    then = absl::StrCat("starting it again in ", absl::FormatDuration(pause), " (",
                        child.restarts + 1, " of ", policy.most_restarts, ")");
  } else if (is_final) {
    then = "it would fail again";
  } else if (is_late) {
    then = "it is not started again, since others have ended with their work done";
  } else {
    then = absl::StrCat("it was started again ", policy.most_restarts,
                        policy.most_restarts == 1 ? " time" : " times", " before");
  }
  Say(absl::StrCat(what, "; ", then));
  // What fails long after somebody else did, and was started again, has a cause of its own.
  constexpr absl::Duration kSameCause = absl::Minutes(1);
  const absl::Time now = absl::Now();
  const bool is_first = failure_.ok() || now - last_failure_ > kSameCause;
  last_failure_ = now;
  if (is_first) {
    std::string message = absl::StrCat("the first to fail: ", what);
    if (!child.last_lines.empty()) absl::StrAppend(&message, "; its last lines:");
    for (const std::string& line : child.last_lines) {
      absl::StrAppend(&message, "\n  [", child.spec.name, "] ", line);
    }
    failure_ = errors::Aborted(message);
  }
  if (again) child.start_again = absl::Now() + pause;
}

absl::Status ChildProcesses::RunWithRestarts(const RestartPolicy& policy, absl::Duration grace,
                                             int* signal, std::vector<int>* codes) {
  policy_ = &policy;
  absl::Status result;
  const auto has_failed = [](const Child& child) {
    return child.has_ended && !child.runs && child.start_again == absl::InfiniteFuture() &&
           !(WIFEXITED(child.end) && WEXITSTATUS(child.end) == 0);
  };
  while (asked_to_end_ == 0 && !WasLeaderStopped()) {
    const int failed =
        static_cast<int>(std::count_if(children_.begin(), children_.end(), has_failed));
    const bool are_too_few = static_cast<int>(children_.size()) - failed < policy.least;
    // Those that have ended well tell that the work is done: nobody is kept from ending as well.
    if (are_too_few && !AnySucceeded()) {
      result = failure_;
      break;
    }
    if (std::none_of(children_.begin(), children_.end(), IsThere)) {
      if (are_too_few || failed_late_) result = failure_;
      break;
    }
    absl::Time next = absl::InfiniteFuture();
    for (Child& child : children_) {
      if (child.start_again == absl::InfiniteFuture()) continue;
      if (AnySucceeded()) {
        child.start_again = absl::InfiniteFuture();
        Say(absl::StrCat(child.spec.name, " is not started again: others have ended with their ",
                         "work done"));
        next = absl::Now();  // It may have been the last one.
        continue;
      }
      if (child.start_again > absl::Now()) {
        next = std::min(next, child.start_again);
        continue;
      }
      if (child.output >= 0) close(std::exchange(child.output, -1));
      child.unfinished.clear();
      child.last_lines.clear();
      ++child.restarts;
      for (auto& [name, value] : child.spec.environment) {
        if (name == policy.restart_variable) value = absl::StrCat(child.restarts);
      }
      result = Spawn(child);
      if (!result.ok()) break;
      if (policy.on_start) policy.on_start(child.spec.name, child.pid, child.restarts);
    }
    if (!result.ok()) break;
    Wait(next);
  }
  EndAll(grace);
  policy_ = nullptr;
  *signal = asked_to_end_;
  codes->clear();
  for (const Child& child : children_) codes->push_back(child.end);
  return result;
}

}  // namespace tandem::cli
