// What crosses the wire, without one: errors and values.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/host_transfer.pb.h"
#include "proto/master.pb.h"
#include "proto/step_extras.pb.h"
#include "proto/worker.pb.h"
#include "runtime/rpc/received_tensor.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/step_transfers.h"
#include "runtime/rpc/tensor_wire.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

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
      const auto received = DecodeReceivedTensor(&pieces);
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_FALSE(received->entry.is_dead);
      EXPECT_EQ(received->entry.value.DebugString(10'000), value.DebugString(10'000));
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
  const auto received = DecodeReceivedTensor(&list);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->entry.value.Elements<float>()[2], 7);

  const auto dead = EncodeReceivedTensor({Tensor(), true}, 9);
  ASSERT_TRUE(dead.ok());
  grpc::ByteBuffer bytes = *dead;
  EXPECT_TRUE(DecodeReceivedTensor(&bytes)->entry.is_dead);
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

// A lender and a borrower, which know each other.
class LentTensorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sends_ = *SharedMemoryEndpoint::Create();
    receives_ = *SharedMemoryEndpoint::Create();
    borrower_ = *receives_->Connect(sends_->socket_name(), sends_->secret());
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!borrower_->NewRequest().has_value() && absl::Now() < deadline) {
      ASSERT_TRUE(borrower_->Read().ok());
    }
  }

  // What RecvTensor does with a value: asked for, lent, received.
  absl::optional<grpc::ByteBuffer> Lend(const Tensor& value, const SegmentBorrower::Request& loan) {
    tensorflow::RecvTensorRequest request;
    SetLoanRequest(loan, &request);
    const absl::optional<LoanRequest> asked = GetLoanRequest(request);
    EXPECT_TRUE(asked.has_value());
    const auto lender = sends_->FindLender(asked->connection);
    EXPECT_NE(lender, nullptr);
    return EncodeLentTensor({value, false}, 77, 1000, lender.get(), asked->ticket);
  }

  std::unique_ptr<SharedMemoryEndpoint> sends_;
  std::unique_ptr<SharedMemoryEndpoint> receives_;
  std::shared_ptr<SegmentBorrower> borrower_;
};

TEST_F(LentTensorTest, ArrivesWithoutItsElements) {
  Tensor value(kFloat64, Shape({3, 1000}));
  for (int i = 0; i < 3000; ++i) value.MutableElements<double>()[i] = i;
  auto loan = borrower_->NewRequest();
  auto buffer = Lend(value, *loan);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_LT(buffer->Length(), 200u);
  const auto received = DecodeReceivedTensor(&*buffer, std::move(loan));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->was_lent);
  EXPECT_EQ(received->entry.value.DebugString(10'000), value.DebugString(10'000));
}

TEST_F(LentTensorTest, WhatIsSmallOrNoNumberIsNotLent) {
  const auto loan = borrower_->NewRequest();
  EXPECT_FALSE(Lend(Tensor::Vector<float>({1, 2, 3}), *loan).has_value());
  EXPECT_FALSE(Lend(Tensor(kString, Shape({5000})), *loan).has_value());
  EXPECT_FALSE(Lend(Tensor::Zeros(kBool, Shape({5000})), *loan).has_value());
  EXPECT_TRUE(Lend(Tensor::Zeros(kFloat32, Shape({5000})), *loan).has_value());
}

TEST_F(LentTensorTest, AnswersThatLieAreRefused) {
  const auto lie = [&](auto change) {
    auto loan = borrower_->NewRequest();
    if (!loan.has_value()) return errors::Unavailable("the connection is over");
    const auto buffer = Lend(Tensor::Zeros(kFloat32, Shape({5000})), *loan);
    tensorflow::RecvTensorResponse response;
    EXPECT_TRUE(buffer.has_value() && response.ParseFromString(BytesOf(*buffer)));
    host_transfers::Loan lent;
    EXPECT_TRUE(response.transport_options().UnpackTo(&lent));
    change(&response, &lent);
    response.mutable_transport_options()->PackFrom(lent);
    grpc::ByteBuffer bytes = BufferOf(response.SerializeAsString(), 64);
    return DecodeReceivedTensor(&bytes, std::move(loan)).status();
  };
  EXPECT_TRUE(lie([](auto*, auto*) {}).ok());
  const auto more = [](auto*, auto* lent) { lent->set_bytes(40'000); };
  EXPECT_TRUE(absl::IsInvalidArgument(lie(more)));
  const auto strings = [](auto* response, auto*) {
    response->mutable_tensor()->set_dtype(tensorflow::DT_STRING);
  };
  EXPECT_TRUE(absl::IsInvalidArgument(lie(strings)));
  const auto none = [](auto* response, auto*) { response->mutable_tensor()->clear_dtype(); };
  EXPECT_TRUE(absl::IsInvalidArgument(lie(none)));
  const auto beyond = [](auto* response, auto* lent) {
    response->mutable_tensor()->mutable_tensor_shape()->mutable_dim(0)->set_size(1 << 20);
    lent->set_bytes(4 << 20);
  };
  EXPECT_TRUE(absl::IsInternal(lie(beyond)));
}

TEST_F(LentTensorTest, WhoOfferedNothingTakesNoLoan) {
  const auto loan = borrower_->NewRequest();
  auto buffer = Lend(Tensor::Zeros(kFloat32, Shape({5000})), *loan);
  ASSERT_TRUE(buffer.has_value());
  const auto received = DecodeReceivedTensor(&*buffer);
  // A tensor without elements, as any reader of the message sees it.
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_FALSE(received->was_lent);
  tensorflow::RecvTensorRequest request;
  EXPECT_FALSE(GetLoanRequest(request).has_value());
  request.set_dma_ok(true);
  request.mutable_transport_options()->set_type_url("type.googleapis.com/somebody.Else");
  EXPECT_FALSE(GetLoanRequest(request).has_value());
}

std::vector<NamedTensor> Named() {
  std::vector<NamedTensor> named;
  for (const Tensor& value : Values()) named.push_back({absl::StrCat("n:", named.size()), value});
  return named;
}

TEST(StepMessages, AreTheOrdinaryOnes) {
  tensorflow::RunStepRequest rest;
  rest.set_session_handle("handle");
  rest.add_fetch("y:0");
  rest.mutable_options()->set_timeout_in_ms(7);
  const auto buffer = EncodeStepMessage(rest, kRunStepFeeds, "feed", Named());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  tensorflow::RunStepRequest message;
  ASSERT_TRUE(message.ParseFromString(BytesOf(*buffer)));
  EXPECT_EQ(message.options().timeout_in_ms(), 7);
  ASSERT_EQ(message.feed_size(), static_cast<int>(Named().size()));
  for (int i = 0; i < message.feed_size(); ++i) {
    EXPECT_EQ(message.feed(i).name(), Named()[static_cast<size_t>(i)].name);
    const auto value = TensorFromProto(message.feed(i).tensor());
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value->DebugString(10'000),
              Named()[static_cast<size_t>(i)].value.DebugString(10'000));
  }
}

TEST(StepMessages, ArriveInPiecesOfAnySize) {
  tensorflow::RunCallableResponse message;
  for (const NamedTensor& named : Named()) {
    ASSERT_TRUE(TensorToProto(named.value, message.add_fetch(), TensorProtoForm::kContent).ok());
  }
  message.mutable_metadata()->mutable_step_stats()->add_dev_stats()->set_device("d");
  for (const size_t slice : {size_t{1}, size_t{7}, size_t{1} << 20}) {
    grpc::ByteBuffer pieces = BufferOf(message.SerializeAsString(), slice);
    tensorflow::RunCallableResponse rest;
    const auto read = DecodeStepMessage(&pieces, kRunCallableResults, size_t{1} << 30, &rest);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(rest.fetch_size(), 0);
    EXPECT_EQ(rest.metadata().step_stats().dev_stats(0).device(), "d");
    ASSERT_EQ(read->size(), Named().size());
    for (size_t i = 0; i < read->size(); ++i) {
      const auto value = ValueOf((*read)[i]);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(value->DebugString(10'000), Named()[i].value.DebugString(10'000));
    }
  }
}

TEST(StepMessages, LargeValuesGoInAndOutInPlace) {
  const Tensor value(kFloat32, Shape({4096}));
  auto buffer = EncodeStepMessage(tensorflow::RunStepResponse(), kRunStepResults, "fetch",
                                  {{"y:0", value}, {"z:0", value}});
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer->Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), value.data());
  EXPECT_EQ(static_cast<const void*>(slices[3].begin()), value.data());
  // What is over the limit is left in the message, for whoever has to say so.
  tensorflow::RunStepResponse rest;
  const auto read = DecodeStepMessage(&*buffer, kRunStepResults, value.num_bytes(), &rest);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_TRUE((*read)[0].value.is_valid());
  EXPECT_FALSE((*read)[1].value.is_valid());
  EXPECT_EQ((*read)[1].proto.tensor_content().size(), value.num_bytes());
}

TEST(StepMessages, WhatWasLentIsNotInThem) {
  const Tensor value = Tensor::Zeros(kFloat32, Shape({2, 50'000}));
  step_extras::Response extras;
  extras.add_result()->set_index(1);
  extras.mutable_result(0)->set_bytes(value.num_bytes());
  tensorflow::RunStepResponse said;
  said.set_status_error_message("fine");
  auto buffer =
      EncodeStepMessage(said, kRunStepResults, "fetch",
                        {{"y:0", Tensor::Scalar<float>(1)}, {"z:0", value, true}}, &extras);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_LT(buffer->Length(), 200u);
  // Whoever does not know the field reads the rest.
  tensorflow::RunStepResponse ordinary;
  ASSERT_TRUE(ordinary.ParseFromString(BytesOf(*buffer)));
  EXPECT_EQ(ordinary.status_error_message(), "fine");
  EXPECT_EQ(ordinary.tensor(1).tensor().tensor_shape().dim(1).size(), 50'000);

  tensorflow::RunStepResponse rest;
  step_extras::Response read_extras;
  auto read = DecodeStepMessage(&*buffer, kRunStepResults, size_t{1} << 30, &rest, &read_extras);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(rest.status_error_message(), "fine");
  EXPECT_EQ(rest.ByteSizeLong(), said.ByteSizeLong());
  ASSERT_EQ(read_extras.result_size(), 1);
  EXPECT_EQ(read_extras.result(0).bytes(), value.num_bytes());
  ASSERT_EQ(read->size(), 2u);
  const Tensor memory = Tensor::Zeros(kFloat32, Shape({100'000}));
  const auto taken =
      TakeLentTensors(read_extras.result(), &*read,
                      [&](const step_extras::LentTensor&) -> absl::StatusOr<RefPtr<Buffer>> {
                        return memory.buffer();
                      });
  ASSERT_TRUE(taken.ok()) << taken;
  const auto result = ValueOf(std::move((*read)[1]));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->shape(), value.shape());
  EXPECT_EQ(result->data(), memory.data());
}

TEST(StepMessages, ExtrasThatAreNoneAreRefused) {
  const auto field = [](uint32_t length) {
    std::string bytes;
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(BytesTag(kExtrasField));
    out.WriteVarint32(length);
    out.WriteString("\xff\xff");
    out.Trim();
    return bytes;
  };
  tensorflow::RunStepRequest rest;
  step_extras::Request extras;
  // More than there is, and what is no message.
  for (const uint32_t length : {1000u, 2u}) {
    grpc::ByteBuffer nonsense = BufferOf(field(length), 64);
    EXPECT_FALSE(DecodeStepMessage(&nonsense, kRunStepFeeds, 1, &rest, &extras).ok());
  }
  // Who has no use for them skips them.
  grpc::ByteBuffer skipped = BufferOf(field(2), 64);
  EXPECT_TRUE(DecodeStepMessage(&skipped, kRunStepFeeds, 1, &rest).ok());
}

TEST(StepMessages, WhatDoesNotFitIsRefusedByName) {
  const auto buffer =
      EncodeStepMessage(tensorflow::RunStepResponse(), kRunStepResults, "fetch",
                        {{"y:0", Tensor(kVariant, Shape({1}))}, {"none", Tensor()}});
  EXPECT_TRUE(absl::StrContains(buffer.status().message(), "fetch 'none'")) << buffer.status();
  grpc::ByteBuffer nonsense = BufferOf("\x0a\xff\xff\xff\x07nonsense", 64);
  tensorflow::RunStepResponse rest;
  EXPECT_FALSE(DecodeStepMessage(&nonsense, kRunStepResults, 1, &rest).ok());
  grpc::ByteBuffer nothing;
  EXPECT_TRUE(DecodeStepMessage(&nothing, kRunStepResults, 1, &rest).ok());
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
