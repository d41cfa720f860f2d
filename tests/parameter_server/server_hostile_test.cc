// Messages that no client of ours sends. The server refuses them, and serves the others.
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"
#include "runtime/parameter_server/wire.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/status_on_wire.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

const TaskId kServer = {"ps", 0};

constexpr const char* kMethods[] = {"Call",      "Define",   "Read",     "Write",
                                    "Report",    "SetNote",  "GetNote",  "Forget",
                                    "Replicate", "PutState", "GetState", "Hold"};

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() : cluster_({{"ps", 1}}) {
    cluster_.Start(kServer);
    channel_ = ConnectToServer(cluster_.address(kServer));
    client_ = ClientOf(cluster_.address(kServer));
    const auto defined = client_->Define(CounterShard(), Soon());
    EXPECT_TRUE(defined.ok()) << defined.status();
    if (!defined.ok()) return;
    way_ = {cluster_.address(kServer), defined->incarnation, 0};
    EXPECT_TRUE(StartCall(*store_, way_.To(1, 1), "init/push", {}).status().ok());
  }
  ~HostileTest() override {
    // It still serves, and nothing was changed.
    EXPECT_TRUE(Add(*store_, way_.To(77, 1)).ok());
    EXPECT_EQ(CountAt(*client_), 1);
  }

  absl::Status Send(const char* method, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    Event ended;
    grpc::Status result;
    const auto context = TestContext();
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>(channel_).UnaryCall(
        context.get(), absl::StrCat("/tandem.parameter_server.ParameterService/", method),
        grpc::StubOptions(), &request, &response, [&](grpc::Status status) {
          result = std::move(status);
          ended.Set();
        });
    ended.Wait();
    return FromGrpc(result);
  }
  absl::Status Send(const char* method, const google::protobuf::MessageLite& message) {
    return Send(method, message.SerializeAsString());
  }

  CallRequest Push() const {
    CallRequest request;
    *request.mutable_shard() = KeyOf(kJob, 0);
    request.set_incarnation(way_.incarnation);
    request.set_program("count/push");
    request.set_updates(true);
    *request.mutable_id() = Id(9, 1);
    return request;
  }

  TestCluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ShardClient> client_;
  const std::shared_ptr<RemoteStore> store_ = NewStore();
  Way way_;
};

TEST_F(HostileTest, GarbageIsRefused) {
  std::mt19937 random(5);
  for (const char* method : kMethods) {
    for (int i = 0; i < 40; ++i) {
      std::string bytes(random() % 200, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      // Some of it may be read as a message in which nothing is set that counts.
      (void)Send(method, bytes);
    }
    const absl::Status status = Send(method, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    EXPECT_FALSE(status.ok()) << method;
  }
}

// A real message, cut off, or with one byte changed.
TEST_F(HostileTest, DamagedMessagesEndInErrorsAlone) {
  std::mt19937 random(6);
  CallRequest call = Push();
  auto* const argument = call.add_arguments();
  argument->set_dtype(tensorflow::DT_INT64);
  argument->set_tensor_content(std::string(8, '\1'));
  // The name of another shard, so that those that arrive whole change nothing here.
  call.mutable_shard()->set_number(5);
  PutStateRequest state;
  *state.mutable_shard() = KeyOf(kJob, 0, true);
  state.set_transfer(1);
  auto* const value = state.add_values();
  value->set_name("count");
  *value->mutable_tensor() = *argument;
  state.add_pieces()->set_is_whole(true);
  ReplicateRequest push;
  *push.mutable_shard() = KeyOf(kJob, 0, true);
  push.add_pushes()->set_arguments(1);
  *push.add_arguments() = *argument;
  const std::pair<const char*, std::string> whole[] = {{"Call", call.SerializeAsString()},
                                                       {"PutState", state.SerializeAsString()},
                                                       {"Replicate", push.SerializeAsString()}};
  for (const auto& [method, bytes] : whole) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      (void)Send(method, bytes.substr(0, i));
      std::string changed = bytes;
      // Not its number, by which it would be the shard that is looked at afterwards.
      if (changed[i] == '\5') continue;
      changed[i] = static_cast<char>(random());
      (void)Send(method, changed);
    }
  }
}

TEST_F(HostileTest, ClaimsOfMoreThanThereIsTakeNoMemory) {
  // A tensor of 2^40 floats, of which one is there.
  CallRequest request = Push();
  auto* const tensor = request.add_arguments();
  tensor->set_dtype(tensorflow::DT_FLOAT);
  tensor->mutable_tensor_shape()->add_dim()->set_size(int64_t{1} << 40);
  tensor->add_float_val(1);
  const absl::Status huge = Send("Call", request);
  EXPECT_TRUE(absl::IsResourceExhausted(huge)) << huge;
  tensor->clear_float_val();
  tensor->set_tensor_content("1234");
  const absl::Status wrong = Send("Call", request);
  EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;

  // A replica that is told of more rows than there is memory for.
  DefineRequest definition;
  *definition.mutable_shard() = KeyOf(kJob, 0, true);
  const ShardDefinition counter = CounterShard();
  *definition.mutable_graph() = counter.graph;
  definition.mutable_programs()->Assign(counter.programs.begin(), counter.programs.end());
  definition.mutable_variables()->Assign(counter.variables.begin(), counter.variables.end());
  ASSERT_TRUE(Send("Define", definition).ok());
  uint64_t incarnation = 0;
  const auto reports = client_->Report(kJob, Soon());
  ASSERT_TRUE(reports.ok()) << reports.status();
  for (const ShardReport& report : *reports) {
    if (report.is_replica) incarnation = report.incarnation;
  }
  PutStateRequest state;
  *state.mutable_shard() = KeyOf(kJob, 0, true);
  state.set_incarnation(incarnation);
  state.set_transfer(3);
  Piece* const piece = state.add_pieces();
  piece->set_rows(std::numeric_limits<int64_t>::max());
  auto* const value = state.add_values();
  value->set_name("sum");
  value->mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_float_val(1);
  const absl::Status rows = Send("PutState", state);
  EXPECT_TRUE(absl::IsResourceExhausted(rows)) << rows;
  state.set_transfer(4);
  piece->set_rows(-7);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("PutState", state)));
  // States go into replicas alone.
  state.mutable_shard()->set_is_replica(false);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("PutState", state)));
}

TEST_F(HostileTest, NumbersThatMakeNoSenseAreRefused) {
  ReadRequest read;
  *read.mutable_shard() = KeyOf(kJob, 0);
  for (const int variable : {-1, 4, std::numeric_limits<int>::max()}) {
    read.mutable_position()->set_variable(variable);
    EXPECT_TRUE(absl::IsInvalidArgument(Send("Read", read))) << variable;
  }
  read.mutable_position()->set_variable(1);
  for (const int64_t row : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::max()}) {
    read.mutable_position()->set_row(row);
    EXPECT_TRUE(absl::IsInvalidArgument(Send("Read", read))) << row;
  }
  CallRequest call = Push();
  call.mutable_shard()->set_is_replica(true);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Call", call)));
  call = Push();
  call.mutable_shard()->set_number(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Call", call)));
  call = Push();
  call.mutable_shard()->set_job(std::string(1000, 'j'));
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Call", call)));
  call = Push();
  *call.mutable_round() = RoundOf(1, 0, 1, 1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Call", call)));

  ReplicateRequest push;
  *push.mutable_shard() = KeyOf(kJob, 0);  // A shard, which no other tells what to do.
  push.set_incarnation(way_.incarnation);
  push.add_pushes()->set_version(2);
  push.mutable_pushes(0)->set_program("init/push");
  *push.mutable_pushes(0)->add_ids() = Id(5, 5);
  EXPECT_FALSE(Send("Replicate", push).ok());
  push.mutable_pushes(0)->set_arguments(-1);
  EXPECT_FALSE(Send("Replicate", push).ok());

  DefineRequest definition;
  *definition.mutable_shard() = KeyOf(kJob, 1);
  definition.set_replication(static_cast<DefineRequest::Replication>(17));
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Define", definition)));
  definition.set_replication(DefineRequest::ASYNCHRONOUS);
  definition.set_replica_address("localhost:1");
  definition.set_most_behind(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Define", definition)));
  HoldRequest hold;
  hold.set_job(kJob);
  hold.set_number(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Send("Hold", hold)));
}

TEST(HostileLimits, VariablesTakeNoMoreThanTheServerMayGiveThem) {
  TestCluster cluster({{"ps", 2}});
  // The counter, the sum and a vector of four: 8 + 16 + 16 bytes.
  cluster.options().limits.variable_bytes = 84;
  cluster.StartAll();
  const auto client = ClientOf(cluster.address(kServer));
  const auto define = [&](int number) {
    return client->Define(CounterShard(number), Soon()).status();
  };
  ASSERT_TRUE(define(0).ok());
  ASSERT_TRUE(define(1).ok());
  const absl::Status full = define(2);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  for (const char* words : {"84 bytes", "4 are left", "--max_variable_bytes"}) {
    EXPECT_TRUE(absl::StrContains(full.message(), words)) << full;
  }
  // What is there already takes no more, and what was refused has taken nothing.
  EXPECT_TRUE(define(1).ok());
  ASSERT_TRUE(client->Forget(kJob, Soon()).ok());
  // A shard is let go of on a thread of its own.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (!define(2).ok() || !define(3).ok()) ASSERT_LT(absl::Now(), end);
  EXPECT_TRUE(absl::IsResourceExhausted(define(4)));
}

TEST(HostileLimits, ReplicasAreOnServersOfTheClusterAlone) {
  TestCluster cluster({{"ps", 2}});
  cluster.StartAll();
  const auto client = ClientOf(cluster.address(kServer));
  ShardDefinition definition = CounterShard();
  definition.replication.mode = Replication::kAsynchronous;
  definition.replication.address = "127.0.0.1:1";
  const absl::Status refused = client->Define(definition, Soon()).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  definition.replication.address = cluster.address({"ps", 1});
  EXPECT_TRUE(client->Define(definition, Soon()).ok());
}

}  // namespace
}  // namespace tandem::parameter_server
