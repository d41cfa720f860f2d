#include "runtime/collective/flight_signal.h"

#include <fcntl.h>
#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <set>
#include <thread>

#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/collective/group.h"
#include "runtime/threads/start_thread.h"

namespace tandem::collective {
namespace {

// A signal belongs to the process, and so does this.
struct Groups {
  Mutex mu;
  std::set<const Group*> all ABSL_GUARDED_BY(mu);
  bool is_installed ABSL_GUARDED_BY(mu) = false;
};

Groups& TheGroups() {
  static Groups* const groups = new Groups;
  return *groups;
}

int signal_pipe[2] = {-1, -1};

// Only what a signal handler may do.
void OnSignal(int) {
  const int error = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], &byte, 1);
  errno = error;
}

}  // namespace

void AddToFlightSignal(const Group* group) {
  Groups& groups = TheGroups();
  MutexLock lock(groups.mu);
  groups.all.insert(group);
}

void RemoveFromFlightSignal(const Group* group) {
  Groups& groups = TheGroups();
  MutexLock lock(groups.mu);
  groups.all.erase(group);
}

void WriteAllFlightRecords(const char* why) {
  Groups& groups = TheGroups();
  // Held while files are written: a group does not go away meanwhile.
  MutexLock lock(groups.mu);
  for (const Group* group : groups.all) {
    const absl::StatusOr<std::string> file = group->WriteFlightRecord(why);
    if (file.ok()) {
      TANDEM_LOG(Info) << "flight record of group '" << group->key() << "': " << *file;
    } else {
      TANDEM_LOG(Warning) << "flight record of group '" << group->key() << "': " << file.status();
    }
  }
}

absl::Status WriteFlightRecordsOnSignal() {
  Groups& groups = TheGroups();
  MutexLock lock(groups.mu);
  if (groups.is_installed) return absl::OkStatus();
  if (pipe2(signal_pipe, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "a pipe for SIGUSR2 cannot be made");
  }
  fcntl(signal_pipe[1], F_SETFL, O_NONBLOCK);
  std::thread writer = StartThread("flight", [] {
    char byte = 0;
    for (;;) {
      const ssize_t got = read(signal_pipe[0], &byte, 1);
      if (got == 1) WriteAllFlightRecords("SIGUSR2");
      if (got < 0 && errno != EINTR) return;
    }
  });
  if (!writer.joinable()) return errors::ResourceExhausted("no thread for SIGUSR2");
  writer.detach();  // Lives as long as the process, as the handler does.
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGUSR2, &action, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "SIGUSR2 cannot be caught");
  }
  groups.is_installed = true;
  return absl::OkStatus();
}

}  // namespace tandem::collective
