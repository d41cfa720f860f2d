// RendezvousKey: the name under which a value meets its receiver, in TensorFlow's text form:
//
//   <source device>;<its incarnation>;<destination device>;<edge>;<frame>:<iteration>
//
// The incarnation has 16 lower-case hexadecimal digits; frame and iteration are decimal, "0:0"
// outside of loops.
#ifndef TANDEM_CORE_KERNEL_RENDEZVOUS_KEY_H_
#define TANDEM_CORE_KERNEL_RENDEZVOUS_KEY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

struct RendezvousKey {
  std::string source_device;  // The full name, as is the other one.
  uint64_t source_incarnation = 0;
  std::string destination_device;
  std::string edge;  // "edge_12_dense/MatMul", or the endpoint that a client feeds or fetches.
  uint64_t frame = 0;
  int64_t iteration = 0;

  // InvalidArgument shows the key, the part that is wrong and the form that is wanted.
  static absl::StatusOr<RendezvousKey> Parse(absl::string_view text);
  std::string ToString() const;

  // The part of the text that is the same in all frames and iterations: all up to the last ";".
  std::string Prefix() const;
  // The text of the key that begins with `prefix`.
  static std::string Join(absl::string_view prefix, uint64_t frame, int64_t iteration);
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_RENDEZVOUS_KEY_H_
