#include "runtime/rpc/status_on_wire.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/grpc_payloads.pb.h"

namespace tandem {
namespace {

constexpr char kDerived[] = "type.googleapis.com/tensorflow.DerivedStatus";
constexpr char kRestarted[] =
    "type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted";
constexpr char kTruncated[] = " ... [truncated]";

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kMaxStatusMessage) {
    message.resize(kMaxStatusMessage);
    message += kTruncated;
  }
  tensorflow::distributed_runtime::GrpcPayloadContainer container;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    (*container.mutable_payloads())[std::string(url)] = std::string(payload);
  });
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), message,
                      container.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  tensorflow::distributed_runtime::GrpcPayloadContainer container;
  if (container.ParseFromString(status.error_details())) {
    for (const auto& [url, payload] : container.payloads()) {
      result.SetPayload(url, absl::Cord(payload));
    }
  }
  return result;
}

absl::Status MakeDerived(absl::Status status) {
  status.SetPayload(kDerived, absl::Cord());
  return status;
}

bool IsDerived(const absl::Status& status) { return status.GetPayload(kDerived).has_value(); }

absl::Status MakeWorkerRestarted(absl::Status status) {
  status.SetPayload(kRestarted, absl::Cord());
  return status;
}

bool IsWorkerRestarted(const absl::Status& status) {
  return status.GetPayload(kRestarted).has_value();
}

absl::Status FromTask(const absl::Status& status, absl::string_view task) {
  if (status.ok() || absl::StartsWith(status.message(), "From /job:")) return status;
  absl::Status result(status.code(), absl::StrCat("From ", task, ":\n", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace tandem
