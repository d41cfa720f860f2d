// Values of steps that a client and its server of one host hand each other in shared memory
// (runtime/transport/shared_memory), and where in the messages they are (step_messages.h).
//
// A feed is offered along with its request; the server takes it, and uses it where it lies. A
// result is lent on a ticket that the request brought, and is the client's for as long as it keeps
// the tensor. What is small, is not of plain numbers, or cannot be lent goes in the message.
#ifndef TANDEM_RUNTIME_RPC_STEP_TRANSFERS_H_
#define TANDEM_RUNTIME_RPC_STEP_TRANSFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ref_counted.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "proto/step_extras.pb.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {

// The bytes of a tensor that may be lent; none: it has to go in the message. `value` has to stay.
absl::Span<const char> LendableBytes(const Tensor& value, size_t least_bytes);

// Puts the tensors that `lent` tells of into `tensors`, of which `take` gives the memory.
// InvalidArgument: `lent` cannot be true of the message; or an error of `take`.
using TakeLent = absl::FunctionRef<absl::StatusOr<RefPtr<Buffer>>(const step_extras::LentTensor&)>;
absl::Status TakeLentTensors(
    const google::protobuf::RepeatedPtrField<step_extras::LentTensor>& lent,
    std::vector<ReadTensor>* tensors, TakeLent take);

// The server's end of one step's transfers.
//
// Threads: one at a time. Lifetime: the endpoint outlives the step.
class StepTransfers {
 public:
  // `endpoint`: null: values go in messages. `request`: what came with the step's.
  StepTransfers(SharedMemoryEndpoint* endpoint, step_extras::Request request);

  bool ends_partial_run() const { return request_.ends_partial_run(); }
  // What the feeds take that are offered, as far as the request says so.
  uint64_t OfferedBytes() const;
  // Takes the feeds that are offered. False: they are not there (any more), and the client may give
  // them again. InvalidArgument: the offer cannot be true of the message.
  absl::StatusOr<bool> TakeFeeds(std::vector<ReadTensor>* feeds);

  // Lends what is worth it, and notes it in `response`.
  void LendResults(std::vector<NamedTensor>* results, step_extras::Response* response);

 private:
  SharedMemoryEndpoint* endpoint_;
  step_extras::Request request_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_STEP_TRANSFERS_H_
