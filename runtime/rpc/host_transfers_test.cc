// Values that tasks of one host hand each other through shared memory. That steps are the same
// whichever way values go is shown by cluster_test, which is run with each.
#include <numeric>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

constexpr char kOnWorker[] = "/job:worker/task:0";
constexpr char kOnPs[] = "/job:ps/task:0";

// Counts the lines of the log that tell of values that came through shared memory.
class SharedMemoryLines {
 public:
  SharedMemoryLines()
      : before_(SetLogSink([this](LogSeverity, absl::string_view text) {
          if (!absl::StrContains(text, "come through shared memory")) return;
          MutexLock lock(mu_);
          ++count_;
        })) {
    SetLogLevel(LogSeverity::kInfo);
  }
  ~SharedMemoryLines() { SetLogSink(before_); }

  int count() const {
    MutexLock lock(mu_);
    return count_;
  }

 private:
  mutable Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  const LogSink before_;
};

Tensor Numbered(int64_t size, float first) {
  Tensor value(kFloat32, Shape({size}));
  std::iota(value.MutableElements<float>().begin(), value.MutableElements<float>().end(), first);
  return value;
}

class HostTransfersTest : public ::testing::Test {
 protected:
  HostTransfersTest() : cluster_({{"worker", 1}, {"ps", 1}}) {}

  // "y" is -x, computed by the parameter server, at the worker; "v" keeps it there.
  static Scope NegatedElsewhere() {
    Scope s = Scope::NewRoot();
    const Output x = s.WithOpName("x").Call("Placeholder", {},
                                            {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
    const Output negated = s.WithDevice(kOnPs).Call("Neg", {x});
    const Scope here = s.WithDevice(kOnWorker);
    here.WithOpName("y").Call("Identity", {negated});
    const Output v = here.WithOpName("v").Call(
        "VarHandleOp", {},
        {{"dtype", kFloat32}, {"shape", PartialShape({-1})}, {"shared_name", std::string("v")}});
    here.WithOpName("keep").AddNode("AssignVariableOp", {v, negated});
    here.WithOpName("kept").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
    return s;
  }

  // A step with a value of its own. Checks the result.
  void Step(TestClient& client, int64_t size, float first) {
    const auto y = client.Fetch("y:0", {{"x:0", Numbered(size, first)}});
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_EQ(y->num_elements(), size);
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(y->Elements<float>()[static_cast<size_t>(i)], -(first + static_cast<float>(i)));
    }
  }
  // Until a value has come through shared memory.
  void StepUntilLent(TestClient& client, const SharedMemoryLines& lines, int before) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (lines.count() == before && absl::Now() < deadline) Step(client, 100'000, 1);
    EXPECT_GT(lines.count(), before);
  }

  TestCluster cluster_;
};

TEST_F(HostTransfersTest, LargeValuesAreLentAndSmallOnesAreNot) {
  const SharedMemoryLines lines;
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
  for (int i = 0; i < 50; ++i) Step(client, 100, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 0);
  StepUntilLent(client, lines, 0);
  for (int i = 0; i < 50; ++i) Step(client, 10'000 + i * 1000, static_cast<float>(i));
}

TEST_F(HostTransfersTest, NothingIsLentWhereOneEndDoesNotWantTo) {
  const SharedMemoryLines lines;
  cluster_.Start(kWorker);
  cluster_.options().host_transfers = HostTransfers::kOff;
  cluster_.Start(kPs);
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
  for (int i = 0; i < 20; ++i) Step(client, 100'000, static_cast<float>(i));
  // And the other way round.
  cluster_.Start(kWorker);
  cluster_.options().host_transfers = HostTransfers::kAuto;
  cluster_.Start(kPs);
  TestClient again(cluster_.address(kWorker));
  ASSERT_TRUE(again.Create(NegatedElsewhere()).ok());
  for (int i = 0; i < 20; ++i) Step(again, 100'000, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 0);
}

TEST_F(HostTransfersTest, AValueThatIsKeptIsNotWrittenOver) {
  const SharedMemoryLines lines;
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
  StepUntilLent(client, lines, 0);
  // The variable takes the memory that was lent, for as long as it wants.
  ASSERT_TRUE(client.RunTarget("keep", {{"x:0", Numbered(100'000, 5)}}).ok());
  for (int i = 0; i < 20; ++i) Step(client, 100'000, 1);
  auto kept = client.Fetch("kept:0");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->Elements<float>()[99'999], -100'004);
  // Also when the task that lent it is gone.
  cluster_.Start(kPs);
  ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
  StepUntilLent(client, lines, 1);
  kept = client.Fetch("kept:0");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->Elements<float>()[99'999], -100'004);
}

TEST_F(HostTransfersTest, ATaskThatComesBackLendsAgain) {
  const SharedMemoryLines lines;
  cluster_.StartAll();
  for (int lives = 0; lives < 3; ++lives) {
    TestClient client(cluster_.address(kWorker));
    ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
    StepUntilLent(client, lines, lives);
    cluster_.Start(kPs);
  }
}

TEST_F(HostTransfersTest, ManyStepsBorrowAtOnce) {
  const SharedMemoryLines lines;
  cluster_.StartAll();
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      TestClient client(cluster_.address(kWorker));
      ASSERT_TRUE(client.Create(NegatedElsewhere()).ok());
      for (int i = 0; i < 40; ++i) Step(client, 9'000 + 500 * i, static_cast<float>(c));
      client.Close();
    });
  }
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace tandem
