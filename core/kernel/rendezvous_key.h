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

  // The part of the text that is the same in all iterations: all up to "<frame>:". An iteration's
  // key is this with the number behind it.
  std::string Prefix() const;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_RENDEZVOUS_KEY_H_
