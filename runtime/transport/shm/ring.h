// A ring of frames in memory that two processes share: one writes, the other reads.
//
//   record    FrameHeader, then the payload, on a multiple of 64 bytes; records do not wrap: where
//             one does not fit before the end, kSkip stands in place of a header.
//
// Head and tail count bytes for ever. What the other process writes there is not trusted: the
// reader checks that a record lies within what was written.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHM_RING_H_
#define TANDEM_RUNTIME_TRANSPORT_SHM_RING_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "runtime/transport/frame.h"

namespace tandem::transport {

// Bytes of one ring, a power of two, where a member has `rings` of them: small enough to stay in
// the caches, and so large that processes which take turns on a core do not change places for every
// piece.
inline uint64_t RingBytes(int rings) {
  return uint64_t{1} << 20 << (rings <= 1 ? 2 : rings <= 3 ? 1 : 0);
}
inline constexpr uint64_t kRecordAlignment = 64;
inline constexpr uint32_t kSkip = 0x70696b73;

// At the head of a member's segment.
struct SegmentControl {
  std::atomic<uint32_t> magic;
  std::atomic<uint32_t> rings;
  // The owner sleeps, or is about to: whoever writes has to wake it.
  alignas(64) std::atomic<uint32_t> sleeps;
};
inline constexpr uint32_t kSegmentMagic = 0x7a6d7302;

struct RingControl {
  alignas(64) std::atomic<uint64_t> head;  // Bytes written.
  alignas(64) std::atomic<uint64_t> tail;  // Bytes read.
  // The writer found no room: the reader has to wake it, if it sleeps.
  alignas(64) std::atomic<uint32_t> writer_waits;
};

inline constexpr uint64_t kSegmentHead = 4096;
static_assert(sizeof(SegmentControl) <= kSegmentHead);

inline uint64_t SegmentBytes(int rings) {
  return kSegmentHead + static_cast<uint64_t>(rings) * (sizeof(RingControl) + RingBytes(rings));
}

class Ring {
 public:
  Ring() = default;
  // The ring `index` of a segment of `rings` rings.
  Ring(void* segment, int rings, int index) : bytes_(RingBytes(rings)) {
    char* const base = static_cast<char*>(segment) + kSegmentHead;
    control_ = reinterpret_cast<RingControl*>(base) + index;
    data_ = base + static_cast<uint64_t>(rings) * sizeof(RingControl) +
            static_cast<uint64_t>(index) * bytes_;
  }

  static uint64_t RecordBytes(uint64_t payload) {
    return sizeof(FrameHeader) +
           (payload + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
  }

  // The writer's side. False: no room.
  bool Write(const FrameHeader& header, const char* payload) {
    const uint64_t head = control_->head.load(std::memory_order_relaxed);
    const uint64_t need = RecordBytes(header.payload_bytes);
    const uint64_t to_end = bytes_ - Place(head);
    const uint64_t skip = need > to_end ? to_end : 0;
    if (head + skip + need - control_->tail.load(std::memory_order_acquire) > bytes_) {
      return false;
    }
    if (skip != 0) std::memcpy(data_ + Place(head), &kSkip, sizeof(kSkip));
    char* const record = data_ + Place(head + skip);
    std::memcpy(record, &header, sizeof(header));
    if (header.payload_bytes != 0) {
      std::memcpy(record + sizeof(header), payload, header.payload_bytes);
    }
    control_->head.store(head + skip + need, std::memory_order_release);
    return true;
  }
  bool HasRoomFor(uint64_t payload) const {
    const uint64_t head = control_->head.load(std::memory_order_relaxed);
    const uint64_t need = RecordBytes(payload);
    const uint64_t to_end = bytes_ - Place(head);
    return head + (need > to_end ? to_end : 0) + need -
               control_->tail.load(std::memory_order_acquire) <=
           bytes_;
  }

  // The reader's side.
  bool IsEmpty() const {
    return control_->head.load(std::memory_order_acquire) ==
           control_->tail.load(std::memory_order_relaxed);
  }
  enum class Found { kNothing, kFrame, kNonsense };
  // The next record; it stays in the ring until Pop.
  Found Peek(FrameHeader* header, absl::Span<const char>* payload) {
    const uint64_t head = control_->head.load(std::memory_order_acquire);
    uint64_t tail = control_->tail.load(std::memory_order_relaxed);
    if (head == tail) return Found::kNothing;
    if (head - tail > bytes_ || tail % kRecordAlignment != 0 || head % kRecordAlignment != 0) {
      return Found::kNonsense;
    }
    uint32_t first = 0;
    std::memcpy(&first, data_ + Place(tail), sizeof(first));
    if (first == kSkip) tail += bytes_ - Place(tail);
    if (head - tail > bytes_ || head - tail < sizeof(FrameHeader) ||
        bytes_ - Place(tail) < sizeof(FrameHeader)) {
      return Found::kNonsense;
    }
    const char* const record = data_ + Place(tail);
    std::memcpy(header, record, sizeof(*header));
    if (header->payload_bytes > kMaxPayload) return Found::kNonsense;
    const uint64_t bytes = RecordBytes(header->payload_bytes);
    if (bytes > head - tail || bytes > bytes_ - Place(tail)) return Found::kNonsense;
    *payload = absl::MakeConstSpan(record + sizeof(FrameHeader), header->payload_bytes);
    next_ = tail + bytes;
    return Found::kFrame;
  }
  void Pop() { control_->tail.store(next_, std::memory_order_release); }

  std::atomic<uint32_t>& writer_waits() { return control_->writer_waits; }

 private:
  uint64_t Place(uint64_t position) const { return position & (bytes_ - 1); }

  RingControl* control_ = nullptr;
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t next_ = 0;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_SHM_RING_H_
