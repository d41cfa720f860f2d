#include "tools/cli/free_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/status.h"

namespace tandem::cli {

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (number >= 0) sockets.push_back(number);
    if (number < 0 || bind(number, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(number, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      break;
    }
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int number : sockets) close(number);
  if (static_cast<int>(ports.size()) < count) {
    return errors::ResourceExhausted("the system has no ", count, " free ports");
  }
  return ports;
}

}  // namespace tandem::cli
