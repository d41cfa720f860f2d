// How large values go to processes of the same host: other tasks, and the two ends of a session.
#ifndef TANDEM_RUNTIME_RPC_HOST_TRANSFERS_H_
#define TANDEM_RUNTIME_RPC_HOST_TRANSFERS_H_

#include <cstddef>

namespace tandem {

enum class HostTransfers {
  kAuto,  // Large ones through shared memory, where both processes can.
  kOff,   // In messages, as to other hosts.
};

// A smaller value is in a message as quickly.
inline constexpr size_t kLeastHostTransferBytes = size_t{32} << 10;

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_HOST_TRANSFERS_H_
