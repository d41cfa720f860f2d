// What the members of a mesh say to each other: frames, a header of fixed size and a payload.
//
// A message is sent as one or more frames (chunks), each with the whole header, so that they may
// take different ways. Numbers are in the sender's byte order: both ends compare kFrameMagic.
#ifndef TANDEM_RUNTIME_TRANSPORT_FRAME_H_
#define TANDEM_RUNTIME_TRANSPORT_FRAME_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>

namespace tandem::transport {

// The operation that a message belongs to: the graph fixed the instance, the session counts steps,
// and an operation made of several goes through phases. Members match by these, never by order.
struct OperationKey {
  int64_t instance = 0;
  int64_t step = 0;
  uint32_t phase = 0;

  friend bool operator==(const OperationKey& a, const OperationKey& b) {
    return a.instance == b.instance && a.step == b.step && a.phase == b.phase;
  }
  friend bool operator<(const OperationKey& a, const OperationKey& b) {
    return std::tie(a.step, a.instance, a.phase) < std::tie(b.step, b.instance, b.phase);
  }
  template <typename H>
  friend H AbslHashValue(H h, const OperationKey& key) {
    return H::combine(std::move(h), key.instance, key.step, key.phase);
  }
};

// One message of an operation, between two members.
struct Tag {
  OperationKey operation;
  uint32_t part = 0;

  friend bool operator==(const Tag& a, const Tag& b) {
    return a.operation == b.operation && a.part == b.part;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Tag& tag) {
    return H::combine(std::move(h), tag.operation, tag.part);
  }
};

// What the two ends must agree on before a payload moves; the mesh compares it byte by byte, and
// only those who made it know what it means.
struct Label {
  std::array<uint8_t, 56> bytes = {};

  friend bool operator==(const Label& a, const Label& b) { return a.bytes == b.bytes; }
};

enum class FrameKind : uint8_t {
  kData = 1,
  kAnnounce = 2,   // A receive of a large message was posted: the sender may begin.
  kAbort = 3,      // An operation failed; the payload says why.
  kLost = 4,       // The sender's mesh broke; the payload says why.
  kGoodbye = 5,    // The sender leaves, in order.
  kHeartbeat = 6,  // The sender is alive.
};

inline constexpr uint32_t kFrameMagic = 0x7a6d6401;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::kData;
  uint8_t code = 0;  // kAbort, kLost: a status code.
  uint16_t reserved = 0;
  int64_t generation = 0;
  Tag tag;
  uint64_t message_bytes = 0;
  uint64_t offset = 0;         // Of this frame's payload in the message.
  uint64_t payload_bytes = 0;  // Of this frame.
  Label label;
};
static_assert(sizeof(FrameHeader) == 128);

// Payload of one frame at most. A few of them fit into a second-level cache.
inline constexpr uint64_t kMaxPayload = 128 << 10;

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_FRAME_H_
