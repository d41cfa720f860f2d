#include "runtime/session/partial_run.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using PartialRun = Session::PartialRun;

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

std::unique_ptr<Session> Open(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph());
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

std::unique_ptr<PartialRun> NewRun(Session& session, const RunSignature& signature) {
  absl::StatusOr<std::unique_ptr<PartialRun>> run = session.SetUpPartialRun(signature);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

std::pair<std::string, Tensor> Feed(const std::string& name, float value) {
  return {name, Tensor::Scalar<float>(value)};
}

float Value(const absl::StatusOr<std::vector<Tensor>>& results, size_t i = 0) {
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[i].ScalarValue<float>() : -12345.f;
}

absl::StatusCode CodeOf(const absl::StatusOr<std::vector<Tensor>>& results) {
  return results.status().code();
}

// sum = a + b; product = sum * c.
Scope SumAndProduct() {
  Scope s = Scope::NewRoot();
  const Output sum = s.WithOpName("sum").Call("AddV2", {Placeholder(s, "a"), Placeholder(s, "b")});
  s.WithOpName("product").Call("Mul", {sum, Placeholder(s, "c")});
  return s;
}

const RunSignature& SumThenProduct() {
  static const auto* signature = new RunSignature{{"a", "b", "c"}, {"sum", "product"}, {}};
  return *signature;
}

// "taken" waits for a queue that stays empty.
Scope WithEmptyQueue() {
  Scope s = SumAndProduct();
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  s.WithOpName("taken").Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  return s;
}

TEST(PartialRun, TakesFeedsAndGivesResultsBitByBit) {
  auto session = Open(SumAndProduct());
  for (int i = 0; i < 3; ++i) {
    auto run = NewRun(*session, SumThenProduct());
    const float a = static_cast<float>(i);
    EXPECT_EQ(Value(run->Run({Feed("a", a), Feed("b", 2)}, {"sum"})), a + 2);
    EXPECT_FALSE(run->is_over());
    EXPECT_EQ(Value(run->Run({Feed("c", 10)}, {"product"})), (a + 2) * 10);
    EXPECT_TRUE(run->is_over());
  }
}

TEST(PartialRun, NamesWithAndWithoutTheOutputAreTheSame) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, {{"a:0", "b"}, {"sum"}, {}});
  EXPECT_EQ(Value(run->Run({Feed("a", 1), Feed("b:0", 2)}, {"sum:0"})), 3);
}

TEST(PartialRun, SeveralOfOneSessionDoNotMeet) {
  auto session = Open(SumAndProduct());
  auto one = NewRun(*session, SumThenProduct());
  auto other = NewRun(*session, SumThenProduct());
  EXPECT_EQ(Value(one->Run({Feed("a", 1), Feed("b", 2)}, {"sum"})), 3);
  EXPECT_EQ(Value(other->Run({Feed("a", 10), Feed("b", 20)}, {"sum"})), 30);
  EXPECT_EQ(Value(one->Run({Feed("c", 2)}, {"product"})), 6);
  EXPECT_EQ(Value(other->Run({Feed("c", 3)}, {"product"})), 90);
}

TEST(PartialRun, FeedsMayComeWithoutFetchesAndTheOtherWayRound) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, SumThenProduct());
  EXPECT_TRUE(run->Run({Feed("a", 1)}, {}).ok());
  EXPECT_TRUE(run->Run({Feed("b", 2), Feed("c", 3)}, {}).ok());
  EXPECT_EQ(Value(run->Run({}, {"product"})), 9);
  EXPECT_FALSE(run->is_over());
  EXPECT_EQ(Value(run->Run({}, {"sum"})), 3);
  EXPECT_TRUE(run->is_over());
}

TEST(PartialRun, ResultsAreInTheOrderOfTheCallsFetches) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, SumThenProduct());
  const auto results = run->Run({Feed("a", 1), Feed("b", 2), Feed("c", 3)}, {"product", "sum"});
  EXPECT_EQ(Value(results, 0), 9);
  EXPECT_EQ(Value(results, 1), 3);
}

TEST(PartialRun, AFeedMayBeFetchedAndAnInnerValueFed) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, {{"sum", "c"}, {"sum", "product"}, {}});
  EXPECT_EQ(Value(run->Run({Feed("sum", 7)}, {"sum"})), 7);
  EXPECT_EQ(Value(run->Run({Feed("c", 2)}, {"product"})), 14);
}

TEST(PartialRun, RefusesWhatCannotBeAndGoesOn) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, SumThenProduct());
  EXPECT_EQ(CodeOf(run->Run({}, {"product"})), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(run->Run({Feed("a", 1)}, {}).ok());
  const auto early = run->Run({}, {"sum"});
  EXPECT_EQ(CodeOf(early), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(early.status().message(), "'b:0'")) << early.status();
  EXPECT_EQ(CodeOf(run->Run({Feed("a", 1)}, {})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(run->Run({Feed("sum", 1)}, {})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(run->Run({}, {"c"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(run->Run({{"b", Tensor::Scalar<int32_t>(1)}}, {})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(run->Run({{"b", Tensor::Vector<float>({1, 2})}}, {})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(run->Run({Feed("b", 2)}, {"sum", "sum"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Value(run->Run({Feed("b", 2)}, {"sum"})), 3);
  EXPECT_EQ(CodeOf(run->Run({}, {"sum"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Value(run->Run({Feed("c", 2)}, {"product"})), 6);
  EXPECT_EQ(CodeOf(run->Run({}, {})), absl::StatusCode::kInvalidArgument);
}

TEST(PartialRun, SetupNamesWhatIsWrong) {
  auto session = Open(SumAndProduct());
  EXPECT_EQ(session->SetUpPartialRun({{"a"}, {"summ"}, {}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(session->SetUpPartialRun({{"a", "a:0"}, {"sum"}, {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session->SetUpPartialRun({{"a"}, {"sum", "sum:0"}, {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session->SetUpPartialRun({{"a"}, {}, {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PartialRun, TargetsRunOnceAndTheLastCallWaitsForThem) {
  Scope s = SumAndProduct();
  const Output v =
      s.WithOpName("v").Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, 1.0f});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, Output(s.graph()->FindNode("sum"), 0)});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  auto session = Open(s);
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  auto run = NewRun(*session, {{"a", "b"}, {"sum"}, {"add"}});
  ASSERT_TRUE(run->Run({Feed("a", 1)}, {}).ok());
  EXPECT_EQ(Value(session->Run({}, {"value"})), 1);
  EXPECT_EQ(Value(run->Run({Feed("b", 2)}, {"sum"})), 3);
  EXPECT_EQ(Value(session->Run({}, {"value"})), 4);
}

TEST(PartialRun, WhoWaitsForAFedPlaceholderWaitsForItsFeed) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("after").WithControlDependencies({x.node}).Call("Identity", {s.Constant(5.0f)});
  auto session = Open(s);
  auto run = NewRun(*session, {{"x"}, {"after"}, {}});
  EXPECT_EQ(CodeOf(run->Run({}, {"after"})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Value(run->Run({Feed("x", 1)}, {"after"})), 5);
}

TEST(PartialRun, TheFirstErrorEndsIt) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kInt32}});
  s.WithOpName("quotient").Call("Div", {s.Constant(int32_t{6}), x});
  const Output y = s.WithOpName("y").Call("Placeholder", {}, {{"dtype", kInt32}});
  s.WithOpName("same").Call("Identity", {y});
  auto session = Open(s);
  auto run = NewRun(*session, {{"x", "y"}, {"quotient", "same"}, {}});
  const auto failed = run->Run({{"x", Tensor::Scalar<int32_t>(0)}}, {"quotient"});
  EXPECT_EQ(CodeOf(failed), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(failed.status().message(), "quotient")) << failed.status();
  EXPECT_TRUE(run->is_over());
  EXPECT_EQ(CodeOf(run->Run({{"y", Tensor::Scalar<int32_t>(1)}}, {"same"})),
            absl::StatusCode::kInvalidArgument);
}

TEST(PartialRun, AnErrorBetweenTwoCallsReachesTheNextOne) {
  Scope s = SumAndProduct();
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kInt32}});
  s.WithOpName("quotient").Call("Div", {s.Constant(int32_t{6}), x});
  auto session = Open(s);
  auto run = NewRun(*session, {{"x", "a", "b"}, {"quotient", "sum"}, {}});
  auto failed = run->Run({{"x", Tensor::Scalar<int32_t>(0)}}, {});
  // Unless it had failed by then: what is asked for now cannot be had.
  if (failed.ok()) failed = run->Run({Feed("a", 1), Feed("b", 2)}, {"quotient", "sum"});
  EXPECT_EQ(CodeOf(failed), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(failed.status().message(), "quotient")) << failed.status();
  EXPECT_TRUE(run->is_over());
}

TEST(PartialRun, ADeadlineEndsIt) {
  auto session = Open(WithEmptyQueue());
  auto run = NewRun(*session, {{"a", "b"}, {"sum", "taken"}, {}});
  EXPECT_EQ(Value(run->Run({Feed("a", 1), Feed("b", 2)}, {"sum"})), 3);
  RunOptions options;
  options.timeout = absl::Milliseconds(20);
  EXPECT_EQ(CodeOf(run->Run(options, {}, {"taken"}, nullptr)), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(run->is_over());
}

TEST(PartialRun, CancellingACallEndsIt) {
  auto session = Open(WithEmptyQueue());
  auto run = NewRun(*session, {{"a", "b", "c"}, {"sum", "taken", "product"}, {}});
  CancellationManager cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  absl::Status status;
  Event ended;
  run->Start(options, {}, {"taken"}, nullptr, [&](absl::StatusOr<std::vector<Tensor>> results) {
    status = results.status();
    ended.Set();
  });
  EXPECT_EQ(Value(run->Run({Feed("a", 1), Feed("b", 2)}, {"sum"})), 3);
  EXPECT_FALSE(ended.IsSet());
  cancellation.Cancel(errors::Aborted("enough"));
  ended.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(run->is_over());
}

TEST(PartialRun, TheSessionsEndIsItsEnd) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, SumThenProduct());
  auto not_begun = NewRun(*session, SumThenProduct());
  EXPECT_EQ(Value(run->Run({Feed("a", 1), Feed("b", 2)}, {"sum"})), 3);
  session->Close(errors::Unavailable("it closes"));
  EXPECT_EQ(CodeOf(run->Run({Feed("c", 2)}, {"product"})), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(not_begun->Run({Feed("a", 2)}, {})), absl::StatusCode::kUnavailable);
}

TEST(PartialRun, MayBeGivenUpAtAnyTime) {
  auto session = Open(WithEmptyQueue());
  { auto run = NewRun(*session, SumThenProduct()); }
  {
    auto run = NewRun(*session, {{"a", "b"}, {"sum", "taken"}, {}});
    ASSERT_TRUE(run->Run({Feed("a", 1)}, {}).ok());
  }
  auto run = NewRun(*session, SumThenProduct());
  Event ended;
  ASSERT_TRUE(run->Run({Feed("a", 1)}, {}).ok());
  run->End(errors::Cancelled("given up"), [&ended] { ended.Set(); });
  ended.Wait();
  EXPECT_TRUE(run->is_over());
}

TEST(PartialRun, AFetchOfWhatWasNotTakenEndsIt) {
  Scope s = Scope::NewRoot();
  const Output which = s.WithOpName("which").Call("Placeholder", {}, {{"dtype", kBool}});
  s.WithOpName("switch").Call("Switch", {Placeholder(s, "x"), which});
  const Output untaken(s.graph()->FindNode("switch"), 0);
  s.WithOpName("no").Call("Identity", {untaken});
  s.WithOpName("yes").Call("Identity", {Output(untaken.node, 1)});
  auto session = Open(s);
  auto run = NewRun(*session, {{"x", "which"}, {"yes", "no"}, {}});
  ASSERT_TRUE(run->Run({{"which", Tensor::Scalar<bool>(true)}}, {}).ok());
  EXPECT_EQ(Value(run->Run({Feed("x", 4)}, {"yes"})), 4);
  const auto dead = run->Run({}, {"no"});
  EXPECT_EQ(CodeOf(dead), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(dead.status().message(), "'no:0'")) << dead.status();
}

TEST(PartialRun, TheLastCallHasTheTraceThatTheFirstAskedFor) {
  auto session = Open(SumAndProduct());
  auto run = NewRun(*session, SumThenProduct());
  RunOptions options;
  options.trace = true;
  options.partition_graphs = true;
  RunMetadata first, last;
  ASSERT_TRUE(run->Run(options, {Feed("a", 1), Feed("b", 2)}, {"sum"}, &first).ok());
  ASSERT_TRUE(run->Run({}, {Feed("c", 1)}, {"product"}, &last).ok());
  EXPECT_TRUE(first.events.empty());
  EXPECT_FALSE(last.events.empty());
  EXPECT_EQ(last.partition_graphs.size(), 1u);
}

}  // namespace
}  // namespace tandem
