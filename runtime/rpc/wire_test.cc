// What crosses the wire, without one: errors and values.
#include <string>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"
#include "runtime/rpc/received_tensor.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// In slices of so many bytes, as a network may deliver them.
grpc::ByteBuffer BufferOf(const std::string& bytes, size_t slice_size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_size) {
    slices.emplace_back(bytes.substr(at, slice_size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::vector<Tensor> Values() {
  Tensor large(kFloat64, Shape({3, 1000}));
  for (int i = 0; i < 3000; ++i) large.MutableElements<double>()[i] = i;
  return {Tensor::Scalar<float>(2.5f), Tensor::Vector<int64_t>({1, 2, 3}),
          Tensor::Vector<bool>({true, false}),
          Tensor::Vector<std::string>({"a", "", std::string(5000, 'x')}),
          Tensor(kFloat32, Shape({0, 4})), large,
          // Begins in the middle of its buffer.
          large.Slice(1, 3)};
}

TEST(ReceivedTensor, IsTheOrdinaryMessage) {
  for (const Tensor& value : Values()) {
    const auto buffer = EncodeReceivedTensor({value, false}, 123);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    tensorflow::RecvTensorResponse message;
    ASSERT_TRUE(message.ParseFromString(BytesOf(*buffer)));
    EXPECT_EQ(message.send_start_micros(), 123);
    const auto decoded = TensorFromProto(message.tensor());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->DebugString(10'000), value.DebugString(10'000));
  }
}

TEST(ReceivedTensor, ArrivesInPiecesOfAnySize) {
  for (const Tensor& value : Values()) {
    const auto buffer = EncodeReceivedTensor({value, false}, 123);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    for (const size_t slice : {size_t{1}, size_t{7}, size_t{1} << 20}) {
      grpc::ByteBuffer pieces = BufferOf(BytesOf(*buffer), slice);
      const auto entry = DecodeReceivedTensor(&pieces);
      ASSERT_TRUE(entry.ok()) << entry.status();
      EXPECT_FALSE(entry->is_dead);
      EXPECT_EQ(entry->value.DebugString(10'000), value.DebugString(10'000));
    }
  }
}

TEST(ReceivedTensor, LargeValuesAreSentInTheirOwnMemory) {
  const Tensor value(kFloat32, Shape({4096}));
  auto buffer = EncodeReceivedTensor({value, false}, 0);
  ASSERT_TRUE(buffer.ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer->Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), value.data());
  // The memory is held by the buffer, and given back with it.
  EXPECT_FALSE(value.OwnsBufferAlone());
  slices.clear();
  buffer->Clear();
  EXPECT_TRUE(value.OwnsBufferAlone());
}

TEST(ReceivedTensor, OtherFormsOfTheMessageAreRead) {
  tensorflow::RecvTensorResponse message;
  message.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  message.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(3);
  message.mutable_tensor()->add_float_val(7);
  grpc::ByteBuffer list = BufferOf(message.SerializeAsString(), 5);
  const auto entry = DecodeReceivedTensor(&list);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value.Elements<float>()[2], 7);

  const auto dead = EncodeReceivedTensor({Tensor(), true}, 9);
  ASSERT_TRUE(dead.ok());
  grpc::ByteBuffer bytes = *dead;
  EXPECT_TRUE(DecodeReceivedTensor(&bytes)->is_dead);
}

TEST(ReceivedTensor, WhatDoesNotFitIsRefused) {
  const auto buffer = EncodeReceivedTensor({Tensor::Vector<float>({1, 2, 3}), false}, 1);
  const std::string good = BytesOf(*buffer);
  for (size_t length = 1; length < good.size(); ++length) {
    grpc::ByteBuffer cut = BufferOf(good.substr(0, length), 64);
    (void)DecodeReceivedTensor(&cut).status();  // Some are whole messages of less.
  }
  tensorflow::RecvTensorResponse message;
  message.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  message.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(int64_t{1} << 40);
  message.mutable_tensor()->set_tensor_content("abcd");
  grpc::ByteBuffer huge = BufferOf(message.SerializeAsString(), 64);
  EXPECT_EQ(DecodeReceivedTensor(&huge).status().code(), absl::StatusCode::kInvalidArgument);
  grpc::ByteBuffer nonsense = BufferOf("\x0a\xff\xff\xff\x07nonsense", 64);
  EXPECT_FALSE(DecodeReceivedTensor(&nonsense).ok());
  grpc::ByteBuffer nothing;
  EXPECT_FALSE(DecodeReceivedTensor(&nothing).ok());
}

TEST(StatusOnWire, PayloadsTravel) {
  const absl::Status derived = MakeDerived(errors::Aborted("because of another"));
  const absl::Status arrived = FromGrpc(ToGrpc(FromTask(derived, "/job:ps/replica:0/task:0")));
  EXPECT_EQ(arrived.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(arrived.message(), "From /job:ps/replica:0/task:0:\nbecause of another");
  EXPECT_TRUE(IsDerived(arrived));
  EXPECT_FALSE(IsWorkerRestarted(arrived));
  // Whoever is named first stays.
  EXPECT_EQ(FromTask(arrived, "/job:worker/replica:0/task:1").message(), arrived.message());
}

TEST(StatusOnWire, LongMessagesAreCut) {
  const grpc::Status status = ToGrpc(errors::Internal(std::string(10'000, 'x')));
  EXPECT_LT(status.error_message().size(), 3200u);
  EXPECT_TRUE(absl::EndsWith(status.error_message(), "[truncated]"));
  // Details that are none do not hide the error.
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "m", "\xff\xff")).message(), "m");
}

}  // namespace
}  // namespace tandem
