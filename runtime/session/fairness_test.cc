// Steps that do not end leave room for others.
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

// Doubles "x" until "y" is 100 or more, which 0 never is.
Scope Doubling() {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  NodeSpec spec;
  spec.name = "value";
  spec.op = "Merge";
  spec.inputs = {s.Call("Enter", {x}, {{"frame_name", "loop"}})};
  spec.attrs = {{"N", 2}, {"T", kFloat32}};
  spec.first_missing_input = 1;
  Node* const value = *s.graph()->AddNode(spec);
  const Output go_on = s.Call("LoopCond", {s.Call("Less", {value->output(0), 100.0f})});
  const std::vector<Output> branches = s.CallMulti("Switch", {value->output(0), go_on});
  const Output doubled = s.Call("Mul", {branches[1], 2.0f});
  EXPECT_TRUE(s.graph()->SetInput(value, 1, s.Call("NextIteration", {doubled})).ok());
  s.WithOpName("y").Call("Identity", {s.Call("Exit", {branches[0]})});
  EXPECT_TRUE(s.ok()) << s.status();
  return s;
}

class FairnessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto session = Session::Create(*Doubling().graph());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    auto callable = session_->MakeCallable({{"x"}, {"y"}, {}});
    ASSERT_TRUE(callable.ok()) << callable.status();
    callable_ = *std::move(callable);
  }

  // More endless steps than there are threads for them, which `body` meets at work.
  template <typename Body>
  void AmongEndlessSteps(Body body) {
    CancellationManager cancellation;
    RunOptions options;
    options.cancellation = &cancellation;
    Mutex mu;
    CondVar changed;
    int running = 2 * RunTokens::Process().capacity() + 1;
    const int started = running;
    for (int i = 0; i < started; ++i) {
      callable_->Start({Tensor::Scalar<float>(0)}, options, nullptr,
                       [&](const absl::StatusOr<std::vector<Tensor>>& results) {
                         EXPECT_EQ(results.status().code(), absl::StatusCode::kCancelled);
                         MutexLock lock(mu);
                         --running;
                         changed.NotifyAll();
                       });
    }
    body();
    cancellation.Cancel(absl::CancelledError("enough"));
    MutexLock lock(mu);
    while (running > 0) changed.Wait(mu);
  }

  std::unique_ptr<Session> session_;
  std::unique_ptr<Session::Callable> callable_;
};

TEST_F(FairnessTest, AStepThatIsStartedEndsAmongEndlessOnes) {
  AmongEndlessSteps([&] {
    for (int i = 0; i < 3; ++i) {
      float result = 0;
      Event ended;
      callable_->Start({Tensor::Scalar<float>(3)}, {}, nullptr,
                       [&](const absl::StatusOr<std::vector<Tensor>>& results) {
                         EXPECT_TRUE(results.ok()) << results.status();
                         if (results.ok()) result = (*results)[0].ScalarValue<float>();
                         ended.Set();
                       });
      ended.Wait();
      EXPECT_EQ(result, 192);
    }
  });
}

TEST_F(FairnessTest, AStepThatSomebodyWaitsForEndsAmongEndlessOnes) {
  AmongEndlessSteps([&] {
    for (int i = 0; i < 3; ++i) {
      const auto results = callable_->Run({Tensor::Scalar<float>(3)});
      ASSERT_TRUE(results.ok()) << results.status();
      EXPECT_EQ((*results)[0].ScalarValue<float>(), 192);
    }
  });
}

}  // namespace
}  // namespace tandem
