#include "runtime/parameter_server/snapshot.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "core/base/log.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/parameter_server/shard_test_util.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "/snapshots/shard_0";

SnapshotterOptions Options(FileSystem* files) {
  SnapshotterOptions options;
  options.files = files;
  options.every = absl::Hours(1);
  return options;
}

std::unique_ptr<Snapshotter> MakeSnapshotter(FileSystem* files, Shard* shard) {
  absl::StatusOr<std::unique_ptr<Snapshotter>> made =
      Snapshotter::Create(kFolder, shard, Options(files));
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

void Push(Shard& shard, int64_t sequence) {
  const absl::Status status =
      StartPush(shard, Id(7, sequence), "count/push", {Tensor::Scalar<int64_t>(1)}).status();
  EXPECT_TRUE(status.ok()) << status;
}

// A shard with the newest snapshot's state.
std::unique_ptr<Shard> Restored(FileSystem* files) {
  const Definition definition = CounterDefinition();
  auto shard = *Shard::Create({});
  EXPECT_TRUE(shard->Extend(definition.graph, definition.programs, definition.variables).ok());
  absl::StatusOr<ShardState> state = LoadSnapshot(files, kFolder);
  EXPECT_TRUE(state.ok()) << state.status();
  if (state.ok()) {
    const absl::Status restored = shard->Restore(*std::move(state));
    EXPECT_TRUE(restored.ok()) << restored;
  }
  return shard;
}

std::vector<std::string> SnapshotNames(FileSystem* files) {
  const auto prefixes = CheckpointsNewestFirst(files, kFolder);
  EXPECT_TRUE(prefixes.ok()) << prefixes.status();
  std::vector<std::string> names;
  for (const std::string& prefix : *prefixes) names.emplace_back(FileNameOf(prefix));
  return names;
}

TEST(Snapshot, KeepsVariablesVersionAndNames) {
  FaultyFileSystem files;
  {
    const auto shard = MakeShard(CounterDefinition());
    const auto snapshotter = MakeSnapshotter(&files, shard.get());
    EXPECT_EQ(snapshotter->version(), -1);
    for (int64_t sequence : {1, 2, 5}) Push(*shard, sequence);
    ASSERT_TRUE(snapshotter->WriteNow().ok()) << snapshotter->WriteNow();
    EXPECT_EQ(snapshotter->version(), 4);
    Push(*shard, 3);  // Lost.
  }
  const auto shard = Restored(&files);
  EXPECT_EQ(shard->version(), 4);
  EXPECT_EQ(Count(*shard), 3);
  for (int64_t sequence : {1, 2, 5, 3}) Push(*shard, sequence);
  EXPECT_EQ(Count(*shard), 4);
  // It is a checkpoint, too.
  const auto checkpoint = Checkpoint::Open(kFolder, {&files});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->Names(), ElementsAre("count", "sum", "twin"));
}

TEST(Snapshot, WritesOnlyWhatHasChangedAndKeepsTheNewestTwo) {
  FaultyFileSystem files;
  const auto shard = MakeShard(CounterDefinition());
  const auto snapshotter = MakeSnapshotter(&files, shard.get());
  ASSERT_TRUE(snapshotter->WriteNow().ok());
  const int64_t effects = files.effects();
  ASSERT_TRUE(snapshotter->WriteNow().ok());
  EXPECT_EQ(files.effects(), effects);
  for (int64_t sequence = 1; sequence <= 4; ++sequence) {
    Push(*shard, sequence);
    ASSERT_TRUE(snapshotter->WriteNow().ok());
  }
  EXPECT_THAT(SnapshotNames(&files), ElementsAre("shard-4", "shard-3"));
  // Values that were written are a change, and no new version.
  ASSERT_TRUE(shard->Write({{"count", Tensor::Scalar<int64_t>(70)}}).ok());
  ASSERT_TRUE(snapshotter->WriteNow().ok());
  EXPECT_EQ(snapshotter->version(), 5);
  EXPECT_EQ(Count(*Restored(&files)), 70);
}

TEST(Snapshot, WritesFromItsThread) {
  FaultyFileSystem files;
  const auto shard = MakeShard(CounterDefinition());
  SnapshotterOptions options = Options(&files);
  {
    const auto snapshotter = MakeSnapshotter(&files, shard.get());
    Push(*shard, 1);
    snapshotter->WriteSoon();
    while (snapshotter->version() != 2) std::this_thread::yield();
  }
  // And when it is time.
  options.every = absl::Milliseconds(1);
  options.existing_version = 2;
  const auto snapshotter = *Snapshotter::Create(kFolder, shard.get(), options);
  EXPECT_EQ(snapshotter->version(), 2);
  for (int64_t sequence = 2; sequence <= 5; ++sequence) {
    Push(*shard, sequence);
    while (snapshotter->version() != sequence + 1) std::this_thread::yield();
  }
  EXPECT_EQ(LoadSnapshot(&files, kFolder)->version, 6);
}

TEST(Snapshot, ADamagedOneIsPassedOver) {
  FaultyFileSystem files;
  const auto shard = MakeShard(CounterDefinition());
  {
    const auto snapshotter = MakeSnapshotter(&files, shard.get());
    for (int64_t sequence = 1; sequence <= 2; ++sequence) {
      Push(*shard, sequence);
      ASSERT_TRUE(snapshotter->WriteNow().ok());
    }
  }
  const std::string data = std::string(kFolder) + "/shard-1.data-00000-of-00001";
  std::string contents = *ReadFile(&files, data);
  contents[contents.size() / 2] = static_cast<char>(contents[contents.size() / 2] ^ 0x10);
  files.SetContents(data, contents);
  std::vector<std::string> lines;
  const LogSink before =
      SetLogSink([&lines](LogSeverity, absl::string_view text) { lines.emplace_back(text); });
  const auto state = LoadSnapshot(&files, kFolder);
  SetLogSink(before);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->version, 2);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("shard-1"));
  // The next one comes after the damaged one, not in its place or before it.
  const auto next = Restored(&files);
  const auto snapshotter = MakeSnapshotter(&files, next.get());
  Push(*next, 9);
  ASSERT_TRUE(snapshotter->WriteNow().ok());
  EXPECT_EQ(SnapshotNames(&files)[0], "shard-2");
  EXPECT_EQ(LoadSnapshot(&files, kFolder)->version, 3);

  for (const std::string& name : SnapshotNames(&files)) {
    files.SetContents(std::string(kFolder) + "/" + name + ".index", "nothing");
  }
  EXPECT_EQ(LoadSnapshot(&files, kFolder).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Snapshot, AnotherCheckpointIsNoSnapshot) {
  FaultyFileSystem files;
  EXPECT_EQ(LoadSnapshot(&files, kFolder).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(files.MakeDirectories(kFolder).ok());
  EXPECT_EQ(LoadSnapshot(&files, kFolder).status().code(), absl::StatusCode::kNotFound);
  const std::string prefix = std::string(kFolder) + "/shard-0";
  ASSERT_TRUE(WriteCheckpoint(&files, prefix, {{"count", Tensor::Scalar<int64_t>(3)}}).ok());
  EXPECT_EQ(LoadSnapshot(&files, kFolder).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(
      WriteCheckpoint(&files, prefix, {{"_tandem/shard", Tensor::Scalar<std::string>("\xff\xff")}})
          .ok());
  EXPECT_EQ(LoadSnapshot(&files, kFolder).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Snapshot, RemovedOnesAreGone) {
  FaultyFileSystem files;
  EXPECT_TRUE(RemoveSnapshots(&files, kFolder).ok());
  const auto shard = MakeShard(CounterDefinition());
  {
    const auto snapshotter = MakeSnapshotter(&files, shard.get());
    for (int64_t sequence = 1; sequence <= 3; ++sequence) {
      Push(*shard, sequence);
      ASSERT_TRUE(snapshotter->WriteNow().ok());
    }
  }
  ASSERT_TRUE(WriteCheckpoint(&files, std::string(kFolder) + "/mine-7", {}).ok());
  EXPECT_TRUE(RemoveSnapshots(&files, kFolder).ok()) << RemoveSnapshots(&files, kFolder);
  EXPECT_THAT(SnapshotNames(&files), ElementsAre("mine-7"));
  EXPECT_TRUE(RemoveSnapshots(&files, kFolder).ok());
  const auto snapshotter = MakeSnapshotter(&files, shard.get());
  ASSERT_TRUE(snapshotter->WriteNow().ok());
  EXPECT_EQ(LoadSnapshot(&files, kFolder)->version, 4);
}

TEST(Snapshot, AVariableWithoutAValueIsNoSnapshotYet) {
  FaultyFileSystem files;
  const Definition definition = CounterDefinition();
  const auto shard = *Shard::Create({});
  ASSERT_TRUE(shard->Extend(definition.graph, definition.programs, definition.variables).ok());
  const auto snapshotter = MakeSnapshotter(&files, shard.get());
  EXPECT_TRUE(snapshotter->WriteNow().ok());  // Nothing has changed.
  ASSERT_TRUE(shard->Write({{"count", Tensor::Scalar<int64_t>(1)}}).ok());
  EXPECT_EQ(snapshotter->WriteNow().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(StartPush(*shard, Id(1, 1), "init/push", {}).status().ok());
  EXPECT_TRUE(snapshotter->WriteNow().ok());
  EXPECT_EQ(snapshotter->version(), 1);
}

// Whenever the machine stops, the snapshot before or the new one is there, whole.
TEST(Snapshot, ACrashAtAnyMomentLeavesAGoodOne) {
  const auto run = [](FaultyFileSystem& files, Shard& shard) {
    const auto snapshotter = MakeSnapshotter(&files, &shard);
    for (int64_t sequence = 1; sequence <= 3; ++sequence) {
      Push(shard, sequence);
      if (!snapshotter->WriteNow().ok()) return sequence - 1;
    }
    return int64_t{3};
  };
  FaultyFileSystem whole;
  {
    const auto shard = MakeShard(CounterDefinition());
    ASSERT_EQ(run(whole, *shard), 3);
  }
  ASSERT_GT(whole.effects(), 20);
  for (int64_t crash = 2; crash < whole.effects(); crash += 3) {
    for (const auto unsynced :
         {FaultyFileSystem::Unsynced::kKept, FaultyFileSystem::Unsynced::kLost}) {
      FaultyFileSystem files;
      ASSERT_TRUE(files.MakeDirectories(kFolder).ok());
      files.CrashAt(crash);
      const auto shard = MakeShard(CounterDefinition());
      const int64_t written = run(files, *shard);
      files.Restart(unsynced);
      const auto state = LoadSnapshot(&files, kFolder);
      if (written == 0 && !state.ok()) continue;
      ASSERT_TRUE(state.ok()) << "crash at " << crash << ": " << state.status();
      EXPECT_GE(state->version, written + 1) << "crash at " << crash;
      EXPECT_EQ(state->variables[0].second.ScalarValue<int64_t>(), state->version - 1);
    }
  }
}

TEST(Snapshot, SnapshotsDuringPushesAreOfOneVersion) {
  FaultyFileSystem files;
  const auto shard = MakeShard(CounterDefinition());
  const auto snapshotter = MakeSnapshotter(&files, shard.get());
  std::atomic<bool> at_work{true};
  std::thread pushing([&] {
    for (int64_t sequence = 1; sequence <= 200; ++sequence) {
      const Tensor ones = Tensor::Vector<float>({1, 1, 1, 1});
      EXPECT_TRUE(StartPush(*shard, Id(7, sequence), "pair/push", {ones}).status().ok());
    }
    at_work = false;
  });
  do {
    ASSERT_TRUE(snapshotter->WriteNow().ok());
    const auto state = LoadSnapshot(&files, kFolder);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(Floats(state->variables[1].second), Floats(state->variables[2].second));
    EXPECT_EQ(Floats(state->variables[1].second)[0], static_cast<float>(state->version - 1));
  } while (at_work);
  pushing.join();
}

TEST(Snapshot, TwoCannotWriteIntoOneFolder) {
  const std::string folder = ::testing::TempDir() + "/snapshot_test_folder";
  const auto shard = MakeShard(CounterDefinition());
  SnapshotterOptions options;
  options.every = absl::Hours(1);
  const auto other = *Snapshotter::Create(folder, shard.get(), options);
  {
    const auto first = *Snapshotter::Create(folder, shard.get(), options);
    ASSERT_TRUE(first->WriteNow().ok()) << first->WriteNow();
    const absl::Status refused = other->WriteNow();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  }
  EXPECT_TRUE(other->WriteNow().ok()) << other->WriteNow();
  std::filesystem::remove_all(folder);
}

TEST(Snapshot, OptionsThatMakeNoSense) {
  const auto shard = MakeShard(CounterDefinition());
  SnapshotterOptions none;
  none.keep = 0;
  SnapshotterOptions always;
  always.every = absl::ZeroDuration();
  FaultyFileSystem files;
  EXPECT_EQ(Snapshotter::Create("", shard.get(), Options(&files)).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (SnapshotterOptions options : {none, always}) {
    options.files = &files;
    EXPECT_EQ(Snapshotter::Create(kFolder, shard.get(), options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::parameter_server
