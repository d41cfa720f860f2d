#include "runtime/rpc/accept_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr int kMillisBetweenTries = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(
    OwnedFd listener, std::function<void(OwnedFd connection)> accepted) {
  OwnedFd ends(eventfd(0, EFD_CLOEXEC));
  if (!ends.is_valid()) {
    return errors::ResourceExhausted("no connections can be accepted: ", std::strerror(errno));
  }
  std::unique_ptr<AcceptLoop> loop(
      new AcceptLoop(std::move(listener), std::move(ends), std::move(accepted)));
  try {
    loop->thread_ = std::thread([loop = loop.get()] { loop->Run(); });
  } catch (const std::system_error& error) {
    return errors::ResourceExhausted("no thread accepts connections: ", error.what());
  }
  return loop;
}

AcceptLoop::~AcceptLoop() {
  const uint64_t one = 1;
  (void)!write(ends_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void AcceptLoop::Run() {
  for (bool for_connections = true; Wait(for_connections);) for_connections = Accept();
}

bool AcceptLoop::Wait(bool for_connections) {
  pollfd fds[] = {{ends_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  (void)poll(fds, for_connections ? 2 : 1, for_connections ? -1 : kMillisBetweenTries);
  return fds[0].revents == 0;
}

bool AcceptLoop::Accept() {
  for (;;) {
    OwnedFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.is_valid()) {
      accepted_(std::move(connection));
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return true;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        TANDEM_LOG_EVERY(Error, absl::Seconds(10))
            << "a connection cannot be accepted, and waits: " << std::strerror(errno)
            << (errno == EMFILE ? "; allow more open files (ulimit -n), or have fewer clients"
                                : "");
        return false;
      default:
        // An error of that connection alone, which is over.
        break;
    }
  }
}

}  // namespace tandem
