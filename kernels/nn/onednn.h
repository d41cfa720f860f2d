// Small helpers around oneDNN. The only header that includes dnnl.hpp, which takes a second to
// compile: for .cc files that wrap a primitive, and for nobody else.
#ifndef TANDEM_KERNELS_NN_ONEDNN_H_
#define TANDEM_KERNELS_NN_ONEDNN_H_

#include <cstddef>
#include <initializer_list>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "dnnl.hpp"

namespace tandem::onednn {

// The engine of the process.
const dnnl::engine& Cpu();

inline size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Argument {
  int name;
  const dnnl::memory& value;
};
// Runs a primitive on this thread (and those that OpenMP lends it); it is done on return. Throws
// dnnl::error.
void Run(const dnnl::primitive& primitive, std::initializer_list<Argument> arguments);

// Memory for the time of one call, aligned to 64 bytes. A thread keeps the most it asked for
// before, up to a limit, since fresh memory costs page faults. Throws std::bad_alloc.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  bool own_ = false;
};

// Turns what oneDNN throws into a status: Unimplemented for what it does not know,
// ResourceExhausted, or Internal. `what` names the operation.
absl::Status StatusOf(const dnnl::error& error, absl::string_view what);
absl::Status OutOfMemory(absl::string_view what);
template <typename F>
absl::Status Guard(absl::string_view what, F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return StatusOf(error, what);
  } catch (const std::bad_alloc&) {
    return OutOfMemory(what);
  }
}

}  // namespace tandem::onednn

#endif  // TANDEM_KERNELS_NN_ONEDNN_H_
