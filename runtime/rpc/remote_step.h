// RemoteStep: one step of a client, from its request to its results: what it sends, and what it
// makes of the answer.
#ifndef TANDEM_RUNTIME_RPC_REMOTE_STEP_H_
#define TANDEM_RUNTIME_RPC_REMOTE_STEP_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/master.pb.h"
#include "proto/step_extras.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/server_link.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/worker_client.h"

namespace tandem {

// How steps are said on the wire, by names and as runs of callables.
struct RunStepWire {
  using Request = tensorflow::RunStepRequest;
  using Response = tensorflow::RunStepResponse;
  static constexpr char kPath[] = "/tensorflow.MasterService/RunStep";
  static constexpr TensorField kFeeds = kRunStepFeeds;
  static constexpr TensorField kResults = kRunStepResults;
};
struct RunCallableWire {
  using Request = tensorflow::RunCallableRequest;
  using Response = tensorflow::RunCallableResponse;
  static constexpr char kPath[] = "/tensorflow.MasterService/RunCallable";
  static constexpr TensorField kFeeds = kRunCallableFeeds;
  static constexpr TensorField kResults = kRunCallableResults;
};

// Threads: one at a time.
template <typename Wire>
class RemoteStep {
 public:
  struct Answer {
    typename Wire::Response rest;
    step_extras::Response extras;
    std::vector<ReadTensor> tensors;
  };

  // `request`: without its feeds and its number. `results`: how many there will be. `link` may be
  // null: values go in messages; it outlives the step.
  RemoteStep(ServerLink* link, typename Wire::Request request, std::vector<NamedTensor> feeds,
             size_t results, step_extras::Request extras = {})
      : link_(link),
        request_(std::move(request)),
        extras_(std::move(extras)),
        feeds_(std::move(feeds)),
        results_(results) {}

  // The request. Errors: EncodeStepMessage's.
  absl::StatusOr<grpc::ByteBuffer> Encode() {
    request_.set_request_id(NewRequestId());
    std::vector<NamedTensor> feeds = feeds_;
    step_extras::Request extras = extras_;
    transfers_ = link_ == nullptr ? ServerLink::Step() : ServerLink::Step(link_, &feeds, results_);
    transfers_.AddTo(&extras);
    const bool has_extras = extras.ByteSizeLong() > 0;
    return EncodeStepMessage(request_, Wire::kFeeds, "feed", std::move(feeds),
                             has_extras ? &extras : nullptr);
  }

  // What the call ended with. None: the server wants the feeds again, which it could not borrow;
  // nothing was done, and Encode has the request for it.
  std::optional<absl::StatusOr<Answer>> Decode(absl::StatusOr<grpc::ByteBuffer> bytes) {
    if (!bytes.ok()) return bytes.status();
    Answer answer;
    const absl::Status status = CatchOutOfMemory([&]() -> absl::Status {
      TANDEM_ASSIGN_OR_RETURN(answer.tensors, DecodeStepMessage(&*bytes, Wire::kResults,
                                                                std::numeric_limits<size_t>::max(),
                                                                &answer.rest, &answer.extras));
      return transfers_.TakeResults(answer.extras, &answer.tensors);
    });
    if (!status.ok()) return status;
    if (answer.extras.wants_feeds_again()) {
      if (link_ == nullptr) {
        return errors::Internal("the server wants feeds again that were in the message");
      }
      link_ = nullptr;
      return std::nullopt;
    }
    transfers_ = ServerLink::Step();
    return answer;
  }

  const typename Wire::Request& request() const { return request_; }

 private:
  ServerLink* link_;
  typename Wire::Request request_;
  step_extras::Request extras_;
  std::vector<NamedTensor> feeds_;
  size_t results_;
  ServerLink::Step transfers_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_REMOTE_STEP_H_
