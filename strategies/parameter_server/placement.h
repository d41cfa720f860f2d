// Placement: on which server each part of each variable lies.
//
// Either one after the other, or always where the fewest bytes are (of several such servers, on the
// first), as tf.distribute's parameter servers do. It depends on the order in which variables are
// created, and on nothing else: every process that builds the program's graph gets the same.
//
// Threads: one.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_PLACEMENT_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::parameter_server {

class Placement {
 public:
  // REQUIRES: servers >= 1.
  Placement(int servers, bool by_bytes);

  int num_servers() const { return static_cast<int>(bytes_.size()); }
  // The server of the next part.
  int Place(int64_t bytes);
  // A part of so many bytes comes to lie beside another one.
  void AddTo(int server, int64_t bytes);
  // What lies on a server by now.
  int64_t bytes_of(int server) const { return bytes_[static_cast<size_t>(server)]; }

 private:
  const bool by_bytes_;
  int next_ = 0;
  std::vector<int64_t> bytes_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_PLACEMENT_H_
