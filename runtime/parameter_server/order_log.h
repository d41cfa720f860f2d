// OrderLog: which requests were done, of those that must not be done again when they come twice, or
// late (Order in proto/parameter_service.proto).
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_ORDER_LOG_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_ORDER_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "proto/parameter_service.pb.h"

namespace tandem::parameter_server {

// Remembers the newest of the last 10000 pairs of a thing and a writer. Threads: one at a time.
class OrderLog {
 public:
  // This one, or a later one of its writer about the same thing. Those without a writer never are.
  bool IsDone(const std::string& thing, const Order& order) const {
    if (order.writer() == 0) return false;
    const auto found = newest_.find({thing, order.writer()});
    return found != newest_.end() && order.number() <= found->second;
  }

  void SetDone(const std::string& thing, const Order& order) {
    if (order.writer() == 0 || IsDone(thing, order)) return;
    const Key key = {thing, order.writer()};
    if (newest_.emplace(key, order.number()).second) {
      keys_.push_back(key);
    } else {
      newest_[key] = order.number();
    }
    if (keys_.size() <= kMost) return;
    newest_.erase(keys_.front());
    keys_.pop_front();
  }

 private:
  using Key = std::pair<std::string, uint64_t>;
  static constexpr size_t kMost = 10'000;

  std::map<Key, int64_t> newest_;
  std::deque<Key> keys_;  // Oldest first.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_ORDER_LOG_H_
