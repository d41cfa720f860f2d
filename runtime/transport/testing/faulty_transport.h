// FaultyTransport: a transport over a link that fails as a test tells it to.
//
//   auto fault = std::make_shared<LinkFault>();
//   FaultyTransport link(std::move(inner), fault);
//   fault->drops_sent = true;      // a black hole in one direction
//
// What a reliable medium makes of trouble below it: silence (dropped frames never come later),
// delay, and the end of a connection. Single frames are not lost: no transport would let that
// happen.
#ifndef TANDEM_RUNTIME_TRANSPORT_TESTING_FAULTY_TRANSPORT_H_
#define TANDEM_RUNTIME_TRANSPORT_TESTING_FAULTY_TRANSPORT_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

// What is wrong with a link at the moment. Threads: any.
struct LinkFault {
  std::atomic<bool> drops_sent{false};
  std::atomic<bool> drops_received{false};
  std::atomic<int> delay_milliseconds{0};  // Of what is sent.
  std::atomic<int> resets{-1};             // The peer whose connection breaks now.
  std::atomic<int64_t> frames_dropped{0};  // The fault has fired.
};

class FaultyTransport final : public Transport, public FrameReceiver {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, std::shared_ptr<LinkFault> fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}

  const char* name() const override { return "faulty"; }
  void Start(FrameReceiver* receiver) override {
    receiver_ = receiver;
    inner_->Start(this);
  }
  void Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
            uint64_t id) override {
    if (fault_->drops_sent.load()) {
      fault_->frames_dropped.fetch_add(1);
      receiver_->OnSent(id);
      return;
    }
    const std::chrono::milliseconds delay(fault_->delay_milliseconds.load());
    // Behind what waits already, so that the order stays.
    if (delay.count() == 0 && waiting_.empty()) {
      inner_->Send(peer, header, payload, id);
      return;
    }
    waiting_.push_back({peer, header, payload, id, std::chrono::steady_clock::now() + delay});
  }
  void Forget(uint64_t id) override {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [id](const Waiting& message) { return message.id == id; });
    if (found == waiting_.end()) {
      inner_->Forget(id);
    } else {
      waiting_.erase(found);
    }
  }
  bool Poll() override {
    bool moved = false;
    while (!waiting_.empty() && waiting_.front().due <= std::chrono::steady_clock::now()) {
      const Waiting message = waiting_.front();
      waiting_.pop_front();
      inner_->Send(message.peer, message.header, message.payload, message.id);
      moved = true;
    }
    const int reset = fault_->resets.exchange(-1);
    if (reset >= 0) receiver_->OnLost(reset, errors::Unavailable("the connection was reset"));
    return inner_->Poll() || moved;
  }
  int wait_fd() const override { return inner_->wait_fd(); }
  // What is delayed has no descriptor to wait for.
  bool PrepareToSleep() override { return waiting_.empty() && inner_->PrepareToSleep(); }
  void Awake() override { inner_->Awake(); }
  bool IsFlushed() const override { return waiting_.empty() && inner_->IsFlushed(); }
  void Close() override { inner_->Close(); }

  // FrameReceiver.
  char* Place(int peer, const FrameHeader& header) override {
    return fault_->drops_received.load() ? nullptr : receiver_->Place(peer, header);
  }
  void OnFrame(int peer, const FrameHeader& header, absl::Span<const char> payload) override {
    if (fault_->drops_received.load()) {
      fault_->frames_dropped.fetch_add(1);
      return;
    }
    receiver_->OnFrame(peer, header, payload);
  }
  void OnSent(uint64_t id) override { receiver_->OnSent(id); }
  void OnLost(int peer, const absl::Status& why) override {
    // Nor is it heard that a process behind a black hole ended.
    if (!fault_->drops_received.load()) receiver_->OnLost(peer, why);
  }

 private:
  struct Waiting {
    int peer = 0;
    FrameHeader header;
    absl::Span<const char> payload;
    uint64_t id = 0;
    std::chrono::steady_clock::time_point due;
  };

  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<LinkFault> fault_;
  FrameReceiver* receiver_ = nullptr;
  std::deque<Waiting> waiting_;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_TESTING_FAULTY_TRANSPORT_H_
