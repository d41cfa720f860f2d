#include "strategies/parameter_server/placement.h"

#include <algorithm>

namespace tandem::parameter_server {

Placement::Placement(int servers, bool by_bytes)
    : by_bytes_(by_bytes), bytes_(static_cast<size_t>(servers), 0) {}

int Placement::Place(int64_t bytes) {
  int server = next_;
  if (by_bytes_) {
    server = static_cast<int>(std::min_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
  } else {
    next_ = (next_ + 1) % num_servers();
  }
  AddTo(server, bytes);
  return server;
}

void Placement::AddTo(int server, int64_t bytes) { bytes_[static_cast<size_t>(server)] += bytes; }

}  // namespace tandem::parameter_server
