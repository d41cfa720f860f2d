// Tasks that are killed and stopped while others use their values, or wait for them.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/cluster/server_processes.h"

namespace tandem::testing {
namespace {

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

constexpr char kOnWorker[] = "/job:worker/task:0";
constexpr char kOnPs[] = "/job:ps/task:0";
constexpr char kLent[] = "come through shared memory";

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int Count(const std::string& text, absl::string_view words) {
  int count = 0;
  for (size_t at = text.find(words.data(), 0, words.size()); at != std::string::npos;
       at = text.find(words.data(), at + 1, words.size())) {
    ++count;
  }
  return count;
}

// How many values' segments a process has mapped.
int MappedValues(pid_t pid) {
  return Count(Contents(absl::StrCat("/proc/", pid, "/maps")), "memfd:tandem-value");
}

// The names of the abstract sockets that a process listens on.
std::vector<std::string> SocketNames(pid_t pid) {
  std::set<std::string> inodes;
  for (const auto& fd : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"))) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
    absl::string_view inode = target;
    if (absl::ConsumePrefix(&inode, "socket:[") && absl::ConsumeSuffix(&inode, "]")) {
      inodes.insert(std::string(inode));
    }
  }
  std::vector<std::string> names;
  for (const absl::string_view line : absl::StrSplit(Contents("/proc/net/unix"), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() == 8 && absl::StartsWith(words[7], "@tandem-") && inodes.count(words[6]) > 0) {
      names.push_back(words[7]);
    }
  }
  return names;
}

Tensor Numbered(int64_t size, float first) {
  Tensor value(kFloat32, Shape({size}));
  std::iota(value.MutableElements<float>().begin(), value.MutableElements<float>().end(), first);
  return value;
}

// "y" is -x, computed by the parameter server and taken by the worker; "v" keeps it there. "taken"
// waits for ever at the parameter server, where "begun_size" tells how many such steps have begun.
Scope Program() {
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
  const Scope there = s.WithDevice(kOnPs);
  const std::vector<DataType> types = {kFloat32};
  const auto queue = [&](const char* name) {
    return there.WithOpName(name).Call("FIFOQueueV2", {},
                                       {{"component_types", types}, {"shared_name", name}});
  };
  const Output begun = queue("begun");
  there.WithOpName("begun_size").Call("QueueSizeV2", {begun});
  Node* const begins =
      there.WithOpName("begins").AddNode("QueueEnqueueV2", {begun, 1.0f}, {{"Tcomponents", types}});
  const Output taken = there.WithControlDependencies({begins}).Call(
      "QueueDequeueV2", {queue("empty")}, {{"component_types", types}});
  here.WithOpName("taken").Call("Neg", {taken});
  return s;
}

class LostTasksTest : public ::testing::Test {
 protected:
  LostTasksTest() : cluster_({{"worker", 1}, {"ps", 1}}) {}

  std::unique_ptr<Session> Connect(const TaskId& master = kWorker) {
    const Scope s = Program();
    EXPECT_TRUE(s.ok()) << s.status();
    auto session = Session::Create(cluster_.target(master), *s.graph());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  void Step(Session& session) {
    const auto y = session.Run({{"x", Numbered(100'000, 1)}}, {"y"});
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_EQ((*y)[0].Elements<float>()[99'999], -100'000);
  }
  // Until a value has come through shared memory.
  void StepUntilLent(Session& session) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (cluster_.process(kWorker).CountLines(kLent) == 0 && absl::Now() < deadline) {
      Step(session);
    }
    EXPECT_GT(cluster_.process(kWorker).CountLines(kLent), 0);
  }

  ProcessCluster cluster_;
};

TEST_F(LostTasksTest, ValuesOutliveTheKilledTaskThatLentThem) {
  cluster_.StartAll();
  std::unique_ptr<Session> session = Connect();
  ASSERT_NE(session, nullptr);
  StepUntilLent(*session);
  ASSERT_TRUE(session->Run({{"x", Numbered(100'000, 7)}}, {}, {"keep"}).ok());
  cluster_.process(kPs).Kill();
  const auto lost = session->Run({{"x", Numbered(100'000, 1)}}, {"y"});
  EXPECT_TRUE(absl::IsUnavailable(lost.status())) << lost.status();
  EXPECT_TRUE(absl::StrContains(lost.status().message(), "/job:ps")) << lost.status();
  cluster_.Start(kPs);
  session = Connect();
  ASSERT_NE(session, nullptr);
  const auto kept = session->Run({}, {"kept"});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)[0].Elements<float>()[99'999], -100'006);
  // And the one that came in its place lends again.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (cluster_.process(kWorker).CountLines(kLent) < 2 && absl::Now() < deadline) Step(*session);
  EXPECT_GE(cluster_.process(kWorker).CountLines(kLent), 2);
}

TEST_F(LostTasksTest, AKilledTaskGivesBackWhatItBorrowedAndNothingIsLeft) {
  cluster_.StartAll();
  std::unique_ptr<Session> session = Connect();
  ASSERT_NE(session, nullptr);
  StepUntilLent(*session);
  ASSERT_TRUE(session->Run({{"x", Numbered(100'000, 7)}}, {}, {"keep"}).ok());
  const pid_t ps = cluster_.process(kPs).pid();
  EXPECT_GT(MappedValues(ps), 0);
  EXPECT_GT(MappedValues(cluster_.process(kWorker).pid()), 0);
  const std::vector<std::string> names = SocketNames(ps);
  EXPECT_FALSE(names.empty());
  cluster_.process(kWorker).Kill();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (MappedValues(ps) > 0 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(MappedValues(ps), 0);
  cluster_.process(kPs).Kill();
  for (const std::string& name : names) {
    EXPECT_FALSE(absl::StrContains(Contents("/proc/net/unix"), name));
  }
}

TEST_F(LostTasksTest, AStoppedMasterLosesTheStepsThatWaitForIt) {
  cluster_.StartAll();
  const std::unique_ptr<Session> session = Connect();
  ASSERT_NE(session, nullptr);
  Step(*session);
  absl::Status status;
  std::thread waits([&] { status = session->Run({}, {"taken"}).status(); });
  const std::unique_ptr<Session> observer = Connect(kPs);
  ASSERT_NE(observer, nullptr);
  int32_t begun = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (begun == 0 && absl::Now() < deadline) {
    const auto size = observer->Run({}, {"begun_size"});
    ASSERT_TRUE(size.ok()) << size.status();
    begun = (*size)[0].ScalarValue<int32_t>();
  }
  EXPECT_EQ(begun, 1);
  cluster_.process(kWorker).Signal(SIGSTOP);
  EXPECT_TRUE(cluster_.process(kPs).WaitForLine("is closed: /job:worker"));
  cluster_.process(kWorker).Signal(SIGCONT);
  waits.join();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsAborted(status)) << status;
  // On waking it is told; a new session is what helps.
  const auto old = session->Run({{"x", Numbered(10, 1)}}, {"y"});
  EXPECT_TRUE(absl::IsAborted(old.status())) << old.status();
  const std::unique_ptr<Session> again = Connect();
  ASSERT_NE(again, nullptr);
  Step(*again);
}

TEST_F(LostTasksTest, AKilledMastersSessionsGoAlsoWhenTheyWaitForNobody) {
  cluster_.StartAll();
  const std::unique_ptr<Session> session = Connect();
  ASSERT_NE(session, nullptr);
  Step(*session);
  cluster_.process(kWorker).Kill();
  EXPECT_TRUE(cluster_.process(kPs).WaitForLine("is closed: /job:worker"));
}

}  // namespace
}  // namespace tandem::testing
