// The ops that ask about, and join, several processes: sessions with a thread each.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/collective/group_runtime.h"
#include "runtime/collective/group_test_util.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using Result = absl::StatusOr<std::vector<Tensor>>;

// "rows" and "numbers", joined to "joined" and "joined:1"; and "first".
Scope Graph() {
  const Scope scope = Scope::NewRoot().WithDevice("/device:CPU:0");
  const auto placeholder = [&](const char* name, DataType dtype, PartialShape shape) {
    return scope.WithOpName(name).Call("Placeholder", {},
                                       {{"dtype", dtype}, {"shape", std::move(shape)}});
  };
  const Output rows = placeholder("rows", kFloat32, PartialShape({-1, 2}));
  const Output numbers = placeholder("numbers", kInt64, PartialShape({3}));
  scope.WithOpName("joined").CallMulti("_TandemAllGatherRows", {rows, numbers},
                                       {{"group", "replicas"}, {"instance", 1024}});
  scope.WithOpName("first").Call("_TandemFirstReplica", {}, {{"group", "replicas"}});
  // A pass that took the first replica for a constant would fold this.
  scope.WithOpName("doubled").Call("Mul", {scope.graph()->FindNode("first"), int64_t{2}});
  EXPECT_TRUE(scope.ok()) << scope.status();
  return scope;
}

class CollectiveOps : public ::testing::Test {
 protected:
  // Sessions with so many replicas.
  void Open(const std::vector<int>& replicas) {
    const Scope scope = Graph();
    for (const int count : replicas) {
      between_.push_back(std::make_shared<collective::GroupRuntime>(false));
      SessionOptions options;
      options.collective_groups = {{"replicas", count}};
      options.between_processes = between_.back();
      auto session = Session::Create(*scope.graph(), options);
      ASSERT_TRUE(session.ok()) << session.status();
      sessions_.push_back(*std::move(session));
    }
    Form(replicas, 1);
  }
  void Form(const std::vector<int>& replicas, int64_t generation) {
    collective::GroupOptions options = collective::TestOptions(
        static_cast<int>(replicas.size()), collective::TransportKind::kInProcess);
    options.generation = generation;
    collective::Groups groups = collective::FormAll(options);
    for (size_t i = 0; i < replicas.size(); ++i) {
      groups_[i] = std::move(groups[i]);
      ASSERT_TRUE(between_[i]->SetGroup(groups_[i], replicas).ok());
    }
  }

  Result Run(int process, const Session::Feeds& feeds, const std::vector<std::string>& fetches,
             int64_t step) {
    RunOptions options;
    options.collective_step = step;
    options.timeout = absl::Seconds(60);
    return sessions_[static_cast<size_t>(process)]->Run(options, feeds, fetches, {}, nullptr);
  }

  std::vector<std::shared_ptr<collective::GroupRuntime>> between_;
  std::shared_ptr<collective::Group> groups_[4];
  std::vector<std::unique_ptr<Session>> sessions_;
};

Tensor Rows(int64_t count, float first) {
  Tensor rows(kFloat32, Shape({count, 2}));
  for (float& value : rows.MutableElements<float>()) value = first++;
  return rows;
}

TEST_F(CollectiveOps, RowsOfAllProcessesAreJoinedByRank) {
  Open({1, 2, 1});
  for (int64_t step = 1; step < 4; ++step) {
    collective::OnAll(3, [&](int rank) {
      // The middle one has none.
      const Result joined =
          Run(rank,
              {{"rows", Rows(rank == 1 ? 0 : step + rank, static_cast<float>(100 * rank))},
               {"numbers", Tensor::Vector<int64_t>({rank, int64_t{10} * rank, step})}},
              {"joined", "joined:1"}, step);
      ASSERT_TRUE(joined.ok()) << joined.status();
      ASSERT_EQ((*joined)[0].shape(), Shape({2 * step + 2, 2}));
      const auto rows = (*joined)[0].Elements<float>();
      EXPECT_EQ(rows[0], 0);
      EXPECT_EQ(rows[static_cast<size_t>(2 * step) - 1], static_cast<float>(2 * step - 1));
      EXPECT_EQ(rows[static_cast<size_t>(2 * step)], 200);
      const auto numbers = (*joined)[1].Elements<int64_t>();
      ASSERT_EQ((*joined)[1].shape(), Shape({9}));
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(numbers[3 * i], static_cast<int64_t>(i));
        EXPECT_EQ(numbers[3 * i + 1], static_cast<int64_t>(10 * i));
        EXPECT_EQ(numbers[3 * i + 2], step);
      }
    });
  }
}

TEST_F(CollectiveOps, OfTheJoinedOnlyTheNumberOfRowsIsUnknown) {
  const Scope scope = Graph();
  EXPECT_EQ(scope.graph()->GetOutput("joined")->shape(), PartialShape({-1, 2}));
  EXPECT_EQ(scope.graph()->GetOutput("joined:1")->shape(), PartialShape({-1}));
  const Output unknown = scope.Call("Placeholder", {}, {{"dtype", kFloat32}});
  const std::vector<Output> of_unknown = scope.CallMulti(
      "_TandemAllGatherRows", {unknown}, {{"group", "replicas"}, {"instance", 2048}});
  ASSERT_EQ(of_unknown.size(), 1u);
  EXPECT_FALSE(of_unknown[0].shape().has_rank());
  scope.CallMulti("_TandemAllGatherRows", {scope.Constant(1.0f)},
                  {{"group", "replicas"}, {"instance", 3072}});
  EXPECT_EQ(scope.status().code(), absl::StatusCode::kInvalidArgument) << scope.status();
}

TEST_F(CollectiveOps, TheFirstReplicaIsAskedForWhenAStepRuns) {
  Open({2, 3, 1});
  const auto expect = [&](const std::vector<int64_t>& first) {
    for (size_t i = 0; i < first.size(); ++i) {
      const Result result = Run(static_cast<int>(i), {}, {"first", "doubled"}, 1);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ((*result)[0].ScalarValue<int64_t>(), first[i]);
      EXPECT_EQ((*result)[1].ScalarValue<int64_t>(), 2 * first[i]);
    }
  };
  expect({0, 2, 5});
  Form({2, 3}, 2);
  expect({0, 2});
}

TEST_F(CollectiveOps, AloneASessionIsTheFirstAndKeepsItsRows) {
  const Scope scope = Graph();
  SessionOptions options;
  options.collective_groups = {{"replicas", 2}};
  const auto session = Session::Create(*scope.graph(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Result result =
      (*session)->Run({{"rows", Rows(2, 1)}, {"numbers", Tensor::Vector<int64_t>({7, 8, 9})}},
                      {"first", "joined", "joined:1"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].ScalarValue<int64_t>(), 0);
  EXPECT_EQ((*result)[1].shape(), Shape({2, 2}));
  EXPECT_EQ((*result)[1].Elements<float>()[3], 4);
  EXPECT_EQ((*result)[2].Elements<int64_t>()[0], 7);
}

TEST_F(CollectiveOps, OutsideAStrategyThereIsNothingToAsk) {
  const Scope scope = Graph();
  const auto session = Session::Create(*scope.graph(), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const Result result = (*session)->Run({}, {"first"});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound) << result.status();
  EXPECT_TRUE(absl::StrContains(result.status().message(), "replicas")) << result.status();
}

}  // namespace
}  // namespace tandem
