// The ops that call parameter servers, with a store that says what it was asked for.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "core/kernel/parameter_store.h"
#include "gtest/gtest.h"
#include "runtime/device/device.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

struct Asked {
  ShardCall call;
  std::vector<Tensor> arguments;
};

// Answers at once with what the test says.
class FakeStore final : public ParameterStore {
 public:
  using Answer = std::function<absl::StatusOr<ShardAnswer>(const Asked& asked)>;

  explicit FakeStore(Answer answer) : answer_(std::move(answer)) {}

  void Call(ShardCall call, std::vector<Tensor> arguments, CancellationManager*,
            Done done) override {
    Asked asked{std::move(call), std::move(arguments)};
    absl::StatusOr<ShardAnswer> answer = answer_(asked);
    {
      MutexLock lock(mu_);
      asked_.push_back(std::move(asked));
    }
    done(std::move(answer));
  }

  std::vector<Asked> TakeAsked() {
    MutexLock lock(mu_);
    return std::exchange(asked_, {});
  }

 private:
  const Answer answer_;
  Mutex mu_;
  std::vector<Asked> asked_ ABSL_GUARDED_BY(mu_);
};

ShardAnswer Pulled() {
  ShardAnswer answer;
  answer.version = 41;
  answer.results = {Tensor::Vector<float>({1, 2, 3}), Tensor::Scalar<int64_t>(7)};
  return answer;
}

AttrMap PullAttrs() {
  return {{"shard", 2},
          {"program", "train/pull"},
          {"Tout", std::vector<DataType>{kFloat32, kInt64}},
          {"output_shapes",
           std::vector<PartialShape>{PartialShape({PartialShape::kUnknownDim}), PartialShape({})}}};
}

// "pull", of rows, on the device `where`; "sum" adds up what it pulled there; "push" gives it back;
// "again" is the same push once more.
Scope Graph(const std::string& where) {
  const Scope scope = Scope::NewRoot().WithDevice("/device:CPU:0");
  const Output route = scope.WithOpName("route").Call("Placeholder", {}, {{"dtype", kString}});
  const Scope there = scope.WithDevice(where);
  const Output rows = scope.WithOpName("rows").Call("Placeholder", {}, {{"dtype", kInt64}});
  AttrMap attrs = PullAttrs();
  const std::vector<Output> pulled =
      there.WithOpName("pull").CallMulti("_TandemPull", {route, rows}, std::move(attrs));
  const Output sum = there.WithOpName("sum").Call("AddV2", {pulled[1], pulled[1]});
  for (const char* name : {"push", "again"}) {
    there.WithOpName(name).AddNode("_TandemPush", {route, pulled[0], sum, pulled[2]},
                                   {{"shard", 2}, {"program", "train/push"}});
  }
  there.WithOpName("blind").AddNode("_TandemPush", {route, scope.Constant(int64_t{-1})},
                                    {{"shard", 0}, {"program", "step"}});
  EXPECT_TRUE(scope.ok()) << scope.status();
  return scope;
}

class ParameterOps : public ::testing::TestWithParam<const char*> {
 protected:
  void Open(FakeStore::Answer answer) {
    store_ = std::make_shared<FakeStore>(std::move(answer));
    SessionOptions options;
    const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
    ASSERT_TRUE(devices.ok()) << devices.status();
    options.devices = *devices;
    options.parameter_store = store_;
    auto session = Session::Create(*Graph(GetParam()).graph(), options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets = {}) {
    return session_->Run({{"route", Tensor::Scalar<std::string>("the way")},
                          {"rows", Tensor::Vector<int64_t>({5, 8})}},
                         fetches, targets);
  }

  std::shared_ptr<FakeStore> store_;
  std::unique_ptr<Session> session_;
};

INSTANTIATE_TEST_SUITE_P(Devices, ParameterOps, ::testing::Values("/device:CPU:0", "/device:SIM:0"),
                         [](const auto& info) {
                           return std::string(absl::StrContains(info.param, "SIM") ? "Sim" : "Cpu");
                         });

TEST_P(ParameterOps, APullBringsTheVersionAndTheResults) {
  Open([](const Asked&) { return Pulled(); });
  const auto results = Run({"pull", "sum", "pull:2"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<int64_t>(), 41);
  const auto sum = (*results)[1].Elements<float>();
  EXPECT_EQ(std::vector<float>(sum.begin(), sum.end()), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ((*results)[2].ScalarValue<int64_t>(), 7);

  const std::vector<Asked> asked = store_->TakeAsked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].call.route, "the way");
  EXPECT_EQ(asked[0].call.shard, 2);
  EXPECT_EQ(asked[0].call.program, "train/pull");
  EXPECT_FALSE(asked[0].call.updates);
  EXPECT_EQ(asked[0].call.pulled_version, -1);
  EXPECT_EQ(asked[0].call.node, "pull");
  ASSERT_EQ(asked[0].arguments.size(), 1u);
  EXPECT_EQ(asked[0].arguments[0].Elements<int64_t>()[1], 8);
}

TEST_P(ParameterOps, APushSaysWhatWasPulled) {
  Open([](const Asked& asked) { return asked.call.updates ? ShardAnswer() : Pulled(); });
  const auto results = Run({}, {"push"});
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<Asked> asked = store_->TakeAsked();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[1].call.updates);
  EXPECT_EQ(asked[1].call.program, "train/push");
  EXPECT_EQ(asked[1].call.pulled_version, 41);
  ASSERT_EQ(asked[1].arguments.size(), 2u);
  EXPECT_EQ(asked[1].arguments[0].Elements<float>()[2], 6);
  EXPECT_EQ(asked[1].arguments[1].ScalarValue<int64_t>(), 7);
}

// Passes fold what depends on constants alone, and merge equal nodes.
TEST_P(ParameterOps, EqualPushesBothHappenInEveryStep) {
  Open([](const Asked& asked) { return asked.call.updates ? ShardAnswer() : Pulled(); });
  for (int step = 0; step < 3; ++step) {
    const auto results = Run({}, {"push", "again", "blind"});
    ASSERT_TRUE(results.ok()) << results.status();
    int pushes = 0;
    int blind = 0;
    for (const Asked& asked : store_->TakeAsked()) {
      pushes += asked.call.program == "train/push";
      blind += asked.call.program == "step" && asked.call.pulled_version == -1 &&
               asked.arguments.empty();
    }
    EXPECT_EQ(pushes, 2);
    EXPECT_EQ(blind, 1);
  }
}

TEST_P(ParameterOps, WhatDoesNotFitIsRefused) {
  const struct {
    std::vector<Tensor> results;
    const char* says;
  } cases[] = {
      {{Tensor::Vector<float>({1})}, "1 results"},
      {{Tensor::Vector<double>({1}), Tensor::Scalar<int64_t>(7)}, "float64"},
      {{Tensor::Scalar<float>(1), Tensor::Scalar<int64_t>(7)}, "shape"},
      {{Tensor(), Tensor::Scalar<int64_t>(7)}, "no type"},
  };
  for (const auto& wrong : cases) {
    SCOPED_TRACE(wrong.says);
    Open([&](const Asked&) {
      ShardAnswer answer;
      answer.results = wrong.results;
      return answer;
    });
    const absl::Status status = Run({"pull"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), wrong.says)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "pull")) << status;
  }
}

TEST_P(ParameterOps, ErrorsOfTheStoreNameTheNode) {
  Open([](const Asked& asked) -> absl::StatusOr<ShardAnswer> {
    if (asked.call.updates) return errors::Unavailable("host:1 is lost");
    return Pulled();
  });
  const absl::Status status = Run({}, {"push"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "host:1 is lost")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "push")) << status;
}

TEST(ParameterOpsAlone, WithoutAStoreAStepSaysSo) {
  const auto session = Session::Create(*Graph("/device:CPU:0").graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status =
      (*session)->Run({{"route", Tensor::Scalar<std::string>("x")}}, {}, {"blind"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "parameter_store")) << status;
}

TEST(ParameterOpsAlone, ShapesAreThoseThatTheNodeDeclares) {
  const Scope scope = Graph("/device:CPU:0");
  EXPECT_EQ(scope.graph()->GetOutput("pull")->shape(), PartialShape({}));
  EXPECT_EQ(scope.graph()->GetOutput("pull:1")->shape(), PartialShape({-1}));
  EXPECT_EQ(scope.graph()->GetOutput("pull:2")->shape(), PartialShape({}));
  const Scope wrong = Scope::NewRoot();
  wrong.CallMulti("_TandemPull", {wrong.Constant(std::string("route"))},
                  {{"shard", 0},
                   {"program", "p"},
                   {"Tout", std::vector<DataType>{kFloat32}},
                   {"output_shapes", std::vector<PartialShape>(2)}});
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument) << wrong.status();
}

}  // namespace
}  // namespace tandem
