// Transport: pairwise ordered channels between one member of a mesh and some of the others, over
// one medium. It carries frames (frame.h) and knows nothing of operations, matching or reductions:
// those are the mesh's (mesh.h), which holds one or more transports.
//
// Threads   None of its own, and no locks: the mesh calls with its lock held, and the transport
//           calls its receiver from inside those calls, on the same thread.
// Order     Frames to one peer arrive in the order they were sent, except that frames of large
//           messages may overtake each other and others where a transport has several connections.
// Lifetime  A payload stays valid until OnSent(id) or Forget(id).
// Failure   A peer that is gone is reported once, by OnLost; frames to it are then swallowed.
//           Silence is the mesh's business: it sends heartbeats, and misses them.
//
// docs/adding/transport.md says how to add one.
#ifndef TANDEM_RUNTIME_TRANSPORT_TRANSPORT_H_
#define TANDEM_RUNTIME_TRANSPORT_TRANSPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/transport/frame.h"

namespace tandem::transport {

// The mesh, as a transport sees it.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;

  // Where the message's first byte should lie, for transports that would otherwise read a payload
  // into memory of their own and copy it. Null: hand the payload over with OnFrame, wherever it
  // lies. Valid until the call of the transport that is running returns: ask again later.
  virtual char* Place(int peer, const FrameHeader& header) = 0;

  // A frame has come. `payload` has header.payload_bytes bytes, valid until this returns. The
  // header was checked by nobody yet.
  virtual void OnFrame(int peer, const FrameHeader& header, absl::Span<const char> payload) = 0;

  // The last byte of the message `id` was handed to the medium.
  virtual void OnSent(uint64_t id) = 0;

  // `why` says what the transport saw ("connection reset"), not whose peer it is.
  virtual void OnLost(int peer, const absl::Status& why) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;

  // Called once, before anything else. `receiver` outlives the transport.
  virtual void Start(FrameReceiver* receiver) = 0;

  // Queues a message, and moves what the medium takes at once. header.message_bytes ==
  // payload.size(); the transport cuts it into frames. `id` is not 0 and not in use.
  virtual void Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
                    uint64_t id) = 0;

  // The payload of message `id` goes away: what was not handed over yet is not sent, or, where the
  // medium already has part of a frame, replaced by zeros. No OnSent.
  virtual void Forget(uint64_t id) = 0;

  // Moves what can be moved without waiting. True when anything moved.
  virtual bool Poll() = 0;

  // Sleeping: a thread calls PrepareToSleep, gives the lock up, waits until wait_fd() is readable,
  // takes the lock and calls Awake. PrepareToSleep returns false when there is work already.
  virtual int wait_fd() const = 0;
  virtual bool PrepareToSleep() = 0;
  virtual void Awake() = 0;

  // True when nothing is queued: all that was sent is with the medium.
  virtual bool IsFlushed() const = 0;

  // Ends the connections in such an order that peers still receive what was handed over.
  virtual void Close() = 0;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_TRANSPORT_H_
