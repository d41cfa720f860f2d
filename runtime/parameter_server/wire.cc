#include "runtime/parameter_server/wire.h"

#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tandem::parameter_server {

std::vector<NamedTensor> Unnamed(std::vector<Tensor> tensors) {
  std::vector<NamedTensor> result;
  result.reserve(tensors.size());
  for (Tensor& tensor : tensors) result.push_back({"", std::move(tensor)});
  return result;
}

std::vector<NamedTensor> Named(NamedValues values) {
  std::vector<NamedTensor> result;
  result.reserve(values.size());
  for (auto& [name, value] : values) result.push_back({std::move(name), std::move(value)});
  return result;
}

absl::StatusOr<NamedValues> ReadTensors(grpc::ByteBuffer* buffer, TensorField field,
                                        const ServerLimits& limits,
                                        google::protobuf::MessageLite* rest) {
  TANDEM_ASSIGN_OR_RETURN(
      std::vector<ReadTensor> read,
      DecodeStepMessage(buffer, field, static_cast<size_t>(limits.request_tensor_bytes), rest));
  RequestTensors budget(limits);
  NamedValues values;
  values.reserve(read.size());
  for (ReadTensor& tensor : read) {
    if (tensor.value.is_valid()) {
      budget.Count(tensor.value);
    } else {
      TANDEM_ASSIGN_OR_RETURN(tensor.value, budget.Read(tensor.proto));
    }
    values.emplace_back(std::move(tensor.name), std::move(tensor.value));
  }
  return values;
}

std::vector<Tensor> WithoutNames(NamedValues values) {
  std::vector<Tensor> tensors;
  tensors.reserve(values.size());
  for (auto& [name, value] : values) tensors.push_back(std::move(value));
  return tensors;
}

absl::Status ParseMessage(grpc::ByteBuffer* buffer, google::protobuf::MessageLite* message) {
  message->Clear();
  // An empty message has no slices.
  if (!buffer->Valid() || buffer->Length() == 0) return absl::OkStatus();
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return errors::InvalidArgument("a message of parameter servers cannot be read");
  }
  return absl::OkStatus();
}

grpc::ByteBuffer WholeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status CheckKey(const ShardKey& key) {
  constexpr size_t kLongestJob = 256;
  constexpr int kMostShards = 100'000;
  if (key.job().empty() || key.job().size() > kLongestJob) {
    return errors::InvalidArgument("the name of a job has 1 to ", kLongestJob, " bytes, not ",
                                   key.job().size());
  }
  if (key.number() < 0 || key.number() >= kMostShards) {
    return errors::InvalidArgument("there is no shard ", key.number(), " of a job");
  }
  return absl::OkStatus();
}

absl::Status CheckCall(const CallRequest& request) {
  TANDEM_RETURN_IF_ERROR(CheckKey(request.shard()));
  if (request.shard().is_replica()) {
    return errors::InvalidArgument("programs run on shards, not on their replicas");
  }
  if (!request.updates()) return absl::OkStatus();
  if (!request.has_id() || request.id().client() == 0 || request.id().sequence() < 1) {
    return errors::InvalidArgument("the push of '", request.program(),
                                   "' has no name: a client and a sequence from 1");
  }
  if (!request.has_round()) return absl::OkStatus();
  const Round& round = request.round();
  const bool makes_sense = round.number() >= 0 && round.parts() >= 1 && round.part() >= 0 &&
                           round.part() < round.parts() && round.enough() >= 1 &&
                           round.enough() <= round.parts() && std::isfinite(round.weight()) &&
                           round.weight() >= 0 && std::isfinite(round.all_weight()) &&
                           round.all_weight() >= 0;
  if (!makes_sense) {
    return errors::InvalidArgument("the push of '", request.program(), "' is part ", round.part(),
                                   " of ", round.parts(), " of round ", round.number(),
                                   ", of which ", round.enough(), " are enough, with the weight ",
                                   round.weight(), " of ", round.all_weight());
  }
  return absl::OkStatus();
}

std::string NameOf(const ShardKey& key) {
  return absl::StrCat(key.is_replica() ? "the replica of shard " : "shard ", key.number(), " of '",
                      key.job(), "'");
}

ShardKey KeyOf(const std::string& job, int number, bool is_replica) {
  ShardKey key;
  key.set_job(job);
  key.set_number(number);
  key.set_is_replica(is_replica);
  return key;
}

uint64_t RandomNumber() {
  std::random_device random;
  for (;;) {
    const uint64_t number = (static_cast<uint64_t>(random()) << 32) | random();
    if (number != 0) return number;
  }
}

}  // namespace tandem::parameter_server
