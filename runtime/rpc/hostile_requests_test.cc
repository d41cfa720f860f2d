// Bytes that no client would send: whatever comes, the server answers, and goes on.
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/graph/export.h"
#include "core/graph/function_body.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/host_transfer.grpc.pb.h"
#include "proto/step_extras.pb.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};

class HostileRequestsTest : public ::testing::Test {
 protected:
  HostileRequestsTest() : cluster_({{"worker", 1}}) {
    cluster_.Start(kWorker);
    channel_ = ConnectToServer(cluster_.address(kWorker));
  }

  grpc::Status Call(const std::string& path, const std::string& bytes) {
    grpc::ClientContext context;
    // Some wait, rightly, for what never comes.
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(300)));
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    Event done;
    grpc::GenericStub(channel_).UnaryCall(&context, path, grpc::StubOptions(), &request, &response,
                                          [&](const grpc::Status& ended) {
                                            status = ended;
                                            done.Set();
                                          });
    done.Wait();
    return status;
  }

  void ExpectAlive() {
    tensorflow::GetStatusResponse response;
    const grpc::Status status =
        tensorflow::WorkerService::NewStub(channel_)->GetStatus(TestContext().get(), {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  TestCluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Always the same; others with --gtest_random_seed.
uint32_t Seed() {
  return 17 + static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
}

// One change: a byte, a piece less, or a piece twice.
std::string Mutated(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  const size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, 1 + random() % 8);
      break;
    default:
      bytes.insert(at, bytes.substr(at, 1 + random() % 32));
      break;
  }
  return bytes;
}

TEST_F(HostileRequestsTest, AnyBytesForAnyMethodAreAnswered) {
  std::mt19937 random(Seed());
  for (const char* service : {"MasterService", "WorkerService"}) {
    const auto* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            absl::StrCat("tensorflow.", service));
    ASSERT_NE(descriptor, nullptr);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const std::string path =
          absl::StrCat("/tensorflow.", service, "/", descriptor->method(i)->name());
      for (int round = 0; round < 6; ++round) {
        std::string bytes(random() % 200, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random());
        const grpc::Status status = Call(path, bytes);
        EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << path;
      }
    }
  }
  ExpectAlive();
}

// Fills messages with values of the kinds that their fields have: what parses, and means nothing.
class Filler {
 public:
  // `words`: what strings are taken from.
  Filler(std::vector<std::string> words, std::mt19937* random)
      : words_(std::move(words)), random_(*random) {}

  void Fill(google::protobuf::Message* message, int depth = 0) {
    const google::protobuf::Descriptor* const type = message->GetDescriptor();
    const google::protobuf::Reflection* const reflection = message->GetReflection();
    for (int i = 0; i < type->field_count(); ++i) {
      const google::protobuf::FieldDescriptor* const field = type->field(i);
      // What is nested is rarer the deeper it lies.
      if (random_() % 3 == 0 ||
          (IsMessage(*field) && random_() % 4 < static_cast<uint32_t>(depth))) {
        continue;
      }
      const uint32_t count = field->is_repeated() ? random_() % 3 : 1;
      for (uint32_t n = 0; n < count; ++n) FillField(message, *reflection, field, depth);
    }
  }

 private:
  using Field = google::protobuf::FieldDescriptor;

  static bool IsMessage(const Field& field) { return field.cpp_type() == Field::CPPTYPE_MESSAGE; }

  int64_t Number() {
    static constexpr int64_t kNumbers[] = {0,
                                           1,
                                           2,
                                           3,
                                           -1,
                                           7,
                                           100,
                                           int64_t{1} << 31,
                                           int64_t{1} << 40,
                                           std::numeric_limits<int64_t>::max(),
                                           std::numeric_limits<int64_t>::min()};
    return kNumbers[random_() % std::size(kNumbers)];
  }

  void FillField(google::protobuf::Message* message, const google::protobuf::Reflection& reflection,
                 const Field* field, int depth) {
    const auto set = [&](auto add, auto set, auto value) {
      if (field->is_repeated()) {
        (reflection.*add)(message, field, value);
      } else {
        (reflection.*set)(message, field, value);
      }
    };
    using Reflection = google::protobuf::Reflection;
    switch (field->cpp_type()) {
      case Field::CPPTYPE_INT32:
        return set(&Reflection::AddInt32, &Reflection::SetInt32, static_cast<int32_t>(Number()));
      case Field::CPPTYPE_INT64:
        return set(&Reflection::AddInt64, &Reflection::SetInt64, Number());
      case Field::CPPTYPE_UINT32:
        return set(&Reflection::AddUInt32, &Reflection::SetUInt32, static_cast<uint32_t>(Number()));
      case Field::CPPTYPE_UINT64:
        return set(&Reflection::AddUInt64, &Reflection::SetUInt64, static_cast<uint64_t>(Number()));
      case Field::CPPTYPE_FLOAT:
        return set(&Reflection::AddFloat, &Reflection::SetFloat, static_cast<float>(Number()));
      case Field::CPPTYPE_DOUBLE:
        return set(&Reflection::AddDouble, &Reflection::SetDouble, static_cast<double>(Number()));
      case Field::CPPTYPE_BOOL:
        return set(&Reflection::AddBool, &Reflection::SetBool, random_() % 2 == 0);
      case Field::CPPTYPE_ENUM:
        return set(&Reflection::AddEnumValue, &Reflection::SetEnumValue,
                   static_cast<int>(random_() % 25));
      case Field::CPPTYPE_STRING: {
        const std::string& word = words_[random_() % words_.size()];
        if (field->is_repeated()) {
          reflection.AddString(message, field, word);
        } else {
          reflection.SetString(message, field, word);
        }
        return;
      }
      case Field::CPPTYPE_MESSAGE:
        if (depth < 5) {
          Fill(field->is_repeated() ? reflection.AddMessage(message, field)
                                    : reflection.MutableMessage(message, field),
               depth + 1);
        }
        return;
    }
  }

  const std::vector<std::string> words_;
  std::mt19937& random_;
};

// Of all methods that the server has: those of TensorFlow's services, and its own.
TEST_F(HostileRequestsTest, WellFormedNonsenseForAnyMethodIsAnswered) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("y").Call("Neg", {x});
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(s).ok());
  tensorflow::GetStatusResponse status;
  ASSERT_TRUE(tensorflow::WorkerService::NewStub(channel_)
                  ->GetStatus(TestContext().get(), {}, &status)
                  .ok());
  const std::string device = status.device_attributes(0).name();
  const std::string incarnation =
      absl::StrCat(absl::Hex(status.device_attributes(0).incarnation(), absl::kZeroPad16));
  std::mt19937 random(Seed());
  Filler filler({"",
                 "x",
                 "y",
                 "x:0",
                 "y:0",
                 "^y",
                 "y:99999999999",
                 client.handle(),
                 "0",
                 "0000000000000001",
                 device,
                 "/job:worker/replica:0/task:0",
                 "Neg",
                 "Const",
                 "T",
                 "dtype",
                 "value",
                 "localhost",
                 "type.googleapis.com/tandem.host_transfers.LoanRequest",
                 absl::StrCat(device, ";", incarnation, ";", device, ";x:0;0:0"),
                 std::string(3000, 'a'),
                 std::string("\0\xff\x80", 3)},
                &random);
  const google::protobuf::DescriptorPool& pool =
      *google::protobuf::DescriptorPool::generated_pool();
  for (const char* name : {"tensorflow.MasterService", "tensorflow.WorkerService",
                           "tandem.host_transfers.HostTransferService"}) {
    const google::protobuf::ServiceDescriptor* const service = pool.FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *service->method(i);
      const std::string path = absl::StrCat("/", name, "/", method.name());
      for (int round = 0; round < 25; ++round) {
        const std::unique_ptr<google::protobuf::Message> request(
            google::protobuf::MessageFactory::generated_factory()
                ->GetPrototype(method.input_type())
                ->New());
        filler.Fill(request.get());
        std::string bytes = request->SerializePartialAsString();
        if (round % 3 == 0) bytes = Mutated(std::move(bytes), random);
        const grpc::Status ended = Call(path, bytes);
        EXPECT_NE(ended.error_code(), grpc::StatusCode::UNAVAILABLE)
            << path << ": " << ended.error_message();
      }
    }
  }
  ExpectAlive();
}

// Steps whose extras (proto/step_extras.proto) mean nothing.
TEST_F(HostileRequestsTest, StepsWithNonsenseAboutSharedMemoryAreAnswered) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  s.WithOpName("y").Call("Neg", {x});
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(s).ok());
  tensorflow::PartialRunSetupRequest partial;
  partial.set_session_handle(client.handle());
  partial.add_feed("x:0");
  partial.add_fetch("y:0");
  tensorflow::PartialRunSetupResponse run;
  ASSERT_TRUE(client.stub().PartialRunSetup(TestContext().get(), partial, &run).ok());
  host_transfers::IntroduceResponse server;
  ASSERT_TRUE(host_transfers::HostTransferService::NewStub(channel_)
                  ->Introduce(TestContext().get(), host_transfers::IntroduceRequest(), &server)
                  .ok());
  std::mt19937 random(Seed());
  Filler filler({"", client.handle(), server.secret(), server.socket_name(), std::string(16, 'c')},
                &random);
  const Tensor value = Tensor::Zeros(kFloat32, Shape({20'000}));
  for (int round = 0; round < 200; ++round) {
    step_extras::Request extras;
    filler.Fill(&extras);
    tensorflow::RunStepRequest request = client.Step({"y:0"});
    if (round % 4 == 0) request.set_partial_run_handle(run.partial_run_handle());
    const auto buffer = EncodeStepMessage(request, kRunStepFeeds, "feed",
                                          {{"x:0", value, round % 2 == 0}}, &extras);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer->Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (round % 3 == 0) bytes = Mutated(std::move(bytes), random);
    const grpc::Status ended = Call("/tensorflow.MasterService/RunStep", bytes);
    EXPECT_NE(ended.error_code(), grpc::StatusCode::UNAVAILABLE) << ended.error_message();
  }
  ExpectAlive();
}

TEST_F(HostileRequestsTest, GraphsThatWereTamperedWithAreRefusedOrRun) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1, 3})}});
  const Output y = s.WithOpName("y").Call("MatMul", {x, s.Call("Fill", {{3, 4}, 0.5f})});
  s.WithOpName("z").Call("Reshape", {y, {-1}});
  ASSERT_TRUE(s.ok()) << s.status();
  tensorflow::RegisterGraphRequest graph;
  ASSERT_TRUE(ExportGraphDef(*s.graph(), {}, graph.mutable_graph_def()).ok());
  tensorflow::CreateSessionRequest create;
  *create.mutable_graph_def() = graph.graph_def();
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(s).ok());
  tensorflow::RunStepRequest run = client.Step({"z:0"});
  auto* const feed = run.add_feed();
  feed->set_name("x:0");
  feed->mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  feed->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(2);
  feed->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(3);
  feed->mutable_tensor()->set_tensor_content(std::string(24, '\1'));
  std::mt19937 random(Seed());
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"/tensorflow.WorkerService/RegisterGraph", graph.SerializeAsString()},
      {"/tensorflow.MasterService/CreateSession", create.SerializeAsString()},
      {"/tensorflow.MasterService/RunStep", run.SerializeAsString()},
  };
  for (const auto& [path, bytes] : messages) {
    for (int round = 0; round < 150; ++round) {
      std::string tampered = bytes;
      for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        tampered = Mutated(tampered, random);
      }
      const grpc::Status status = Call(path, tampered);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << path;
    }
  }
  ExpectAlive();
}

// Placement, the cut between tasks and what is put in the place of calls meet graphs that were
// changed behind their backs.
TEST(HostileGraphsTest, OverSeveralTasksTheyAreRefusedOrRun) {
  TestCluster cluster({{"worker", 1}, {"ps", 1}});
  cluster.StartAll();
  Scope s = Scope::NewRoot();
  Scope body = Scope::NewRoot();
  const Output v = FunctionArg(body.WithOpName("v"), 0, kResource);
  const Output arg = FunctionArg(body.WithOpName("a"), 1, kFloat32);
  const Output read = body.Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  FunctionResult(body.WithOpName("r"), 0,
                 body.WithDevice("/job:ps/task:0").Call("Mul", {arg, read}));
  ASSERT_TRUE(DefineFunction("f", *body.graph(), {}, &s.graph()->functions()).ok());
  const Output variable =
      s.WithDevice("/job:ps")
          .WithOpName("variable")
          .Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  Node* const set = s.WithOpName("set").AddNode("AssignVariableOp", {variable, 2.0f});
  const Output p = s.WithDevice("/job:worker").Call("Less", {1.0f, 2.0f});
  const std::vector<DataType> results = {kFloat32};
  Node* const branch = s.WithControlDependencies({set}).WithOpName("if").AddNode(
      "If", {p, variable, 3.0f},
      {{"Tout", results},
       {"then_branch", FunctionRef{"f", {}}},
       {"else_branch", FunctionRef{"f", {}}}});
  s.WithDevice("/job:ps").WithOpName("z").Call("Neg", {Output(branch, 0)});
  ASSERT_TRUE(s.ok()) << s.status();
  tensorflow::CreateSessionRequest request;
  ASSERT_TRUE(ExportGraphDef(*s.graph(), {}, request.mutable_graph_def()).ok());
  const std::string bytes = request.SerializeAsString();
  TestClient client(cluster.address(kWorker));
  std::mt19937 random(Seed());
  int ran = 0;
  for (int round = 0; round < 150; ++round) {
    // The first one is as it was.
    if (round > 0 && !request.ParseFromString(Mutated(bytes, random))) continue;
    tensorflow::CreateSessionResponse created;
    if (!client.stub().CreateSession(TestContext().get(), request, &created).ok()) continue;
    tensorflow::RunStepRequest step;
    step.set_session_handle(created.session_handle());
    step.add_fetch("z:0");
    step.mutable_options()->set_timeout_in_ms(1000);
    tensorflow::RunStepResponse response;
    const grpc::Status status = client.stub().RunStep(TestContext().get(), step, &response);
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    if (status.ok()) ++ran;
    tensorflow::CloseSessionRequest close;
    close.set_session_handle(created.session_handle());
    tensorflow::CloseSessionResponse closed;
    EXPECT_TRUE(client.stub().CloseSession(TestContext().get(), close, &closed).ok());
  }
  EXPECT_GE(ran, 1);
}

}  // namespace
}  // namespace tandem
