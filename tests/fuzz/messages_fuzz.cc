// What servers and clients read from gRPC's slices themselves: the answers of RecvTensor, and the
// requests and answers of steps. The first byte says which, and how long the slices are.
#include <vector>

#include "core/tensor/tensor_proto.h"
#include "grpcpp/grpcpp.h"
#include "proto/master.pb.h"
#include "proto/worker.pb.h"
#include "runtime/rpc/received_tensor.h"
#include "runtime/rpc/step_messages.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

grpc::ByteBuffer InSlices(absl::string_view bytes, size_t slice_size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_size) {
    const absl::string_view part = bytes.substr(at, slice_size);
    slices.emplace_back(part.data(), part.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// What was read, written again, is read as the same.
template <typename Message>
void Step(grpc::ByteBuffer* bytes, TensorField field) {
  Message rest;
  absl::StatusOr<std::vector<ReadTensor>> read = DecodeStepMessage(bytes, field, kMostBytes, &rest);
  if (!read.ok()) {
    TANDEM_FUZZ_CHECK(!read.status().message().empty(), "a message");
    return;
  }
  std::vector<NamedTensor> tensors;
  for (const ReadTensor& one : *read) {
    if (!one.value.is_valid() && !TensorFromProto(one.proto, kMostBytes).ok()) return;
    const absl::StatusOr<Tensor> value = ValueOf(one);
    if (!value.ok() || value->dtype() == kVariant) return;
    tensors.push_back({one.name, *value});
  }
  absl::StatusOr<grpc::ByteBuffer> written = EncodeStepMessage(rest, field, "feed", tensors);
  TANDEM_FUZZ_CHECK(written.ok(), written.status().ToString());
  Message again;
  const absl::StatusOr<std::vector<ReadTensor>> same =
      DecodeStepMessage(&*written, field, kMostBytes, &again);
  TANDEM_FUZZ_CHECK(same.ok(), same.status().ToString());
  TANDEM_FUZZ_CHECK(same->size() == tensors.size(), same->size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    TANDEM_FUZZ_CHECK((*same)[i].name == tensors[i].name || !field.is_named, tensors[i].name);
    const absl::StatusOr<Tensor> value = ValueOf((*same)[i]);
    TANDEM_FUZZ_CHECK(value.ok(), value.status().ToString());
    TANDEM_FUZZ_CHECK(value->DebugString(100) == tensors[i].value.DebugString(100),
                      value->DebugString());
  }
}

void Fuzz(FuzzInput input) {
  const uint8_t choice = input.Byte();
  static const size_t kSizes[] = {1, 7, 1000, size_t{1} << 20};
  grpc::ByteBuffer bytes = InSlices(input.rest(), kSizes[choice / 8 % 4]);
  switch (choice % 5) {
    case 0: {
      const absl::StatusOr<ReceivedTensor> received = DecodeReceivedTensor(&bytes);
      if (!received.ok()) {
        TANDEM_FUZZ_CHECK(!received.status().message().empty(), "a message");
      } else if (received->entry.value.is_valid() && received->entry.value.dtype() != kVariant) {
        TANDEM_FUZZ_CHECK(EncodeReceivedTensor(received->entry, 0).ok(), "to be written again");
      }
      break;
    }
    case 1:
      Step<tensorflow::RunStepRequest>(&bytes, kRunStepFeeds);
      break;
    case 2:
      Step<tensorflow::RunStepResponse>(&bytes, kRunStepResults);
      break;
    case 3:
      Step<tensorflow::RunCallableRequest>(&bytes, kRunCallableFeeds);
      break;
    default:
      Step<tensorflow::RunCallableResponse>(&bytes, kRunCallableResults);
      break;
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
