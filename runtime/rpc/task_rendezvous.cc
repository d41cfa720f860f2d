#include "runtime/rpc/task_rendezvous.h"

#include <utility>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernel/rendezvous_key.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {

absl::Status TaskRendezvous::Send(absl::string_view key, Entry entry) {
  return own_->Send(key, std::move(entry));
}

void TaskRendezvous::Receive(absl::string_view key, CancellationManager* cancellation,
                             Received received) {
  constexpr absl::string_view kDevice = "/device:";
  const absl::string_view task = key.substr(0, key.substr(0, key.find(';')).find(kDevice));
  if (task == tasks_.own()) {
    own_->Receive(key, cancellation, std::move(received));
    return;
  }
  absl::StatusOr<RendezvousKey> parsed = RendezvousKey::Parse(key);
  if (!parsed.ok()) {
    received(parsed.status());
    return;
  }
  absl::StatusOr<std::shared_ptr<WorkerClient>> client = tasks_.Find(task);
  if (!client.ok()) {
    received(client.status());
    return;
  }
  tensorflow::RecvTensorRequest request;
  request.set_step_id(step_id_);
  request.set_rendezvous_key(std::string(key));
  request.set_request_id(NewRequestId());
  CallOptions options;
  options.cancellation = cancellation;
  WorkerClient& sender = **client;
  std::shared_ptr<TransferLog::Transfer> transfer = log_.Begin(step_id_, *parsed);
  sender.RecvTensor(
      std::move(request), options,
      [client = *std::move(client), transfer = std::move(transfer),
       received = std::move(received)](absl::StatusOr<ReceivedTensor> arrived) mutable {
        if (!arrived.ok()) {
          received(FromTask(arrived.status(), client->task()));
          return;
        }
        if (transfer != nullptr) {
          transfer->End(arrived->entry.value, arrived->was_lent);
        }
        received(std::move(arrived->entry));
      });
}

void TaskRendezvous::Abort(absl::Status reason) { own_->Abort(std::move(reason)); }

}  // namespace tandem
