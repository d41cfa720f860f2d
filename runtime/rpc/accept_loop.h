// AcceptLoop: accepts the connections of a socket that listens, on a thread of its own.
//
// gRPC's own listeners stay deaf for ever after they once could not accept a connection, as with
// too many open files. This one waits a moment, and tries again; who connects meanwhile waits, too.
#ifndef TANDEM_RUNTIME_RPC_ACCEPT_LOOP_H_
#define TANDEM_RUNTIME_RPC_ACCEPT_LOOP_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/transport/fd_passing.h"

namespace tandem {

// Threads: any.
class AcceptLoop {
 public:
  // Calls `accepted` with each connection, on the loop's thread. REQUIRES: the socket does not
  // block. ResourceExhausted: there is no thread, or no descriptor, for it.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(
      OwnedFd listener, std::function<void(OwnedFd connection)> accepted);
  // Nothing is accepted any more, and the socket is closed.
  ~AcceptLoop();

 private:
  AcceptLoop(OwnedFd listener, OwnedFd ends, std::function<void(OwnedFd connection)> accepted)
      : listener_(std::move(listener)), ends_(std::move(ends)), accepted_(std::move(accepted)) {}

  void Run();
  // Waits for the listener, or only for the time to pass. False: it is over.
  bool Wait(bool for_connections);
  // False: it has to wait before it tries again.
  bool Accept();

  const OwnedFd listener_;
  const OwnedFd ends_;  // An eventfd.
  const std::function<void(OwnedFd connection)> accepted_;
  std::thread thread_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_ACCEPT_LOOP_H_
