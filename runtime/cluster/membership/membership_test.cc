// Several members in one process, over real sockets, with short heartbeats.
#include "runtime/cluster/membership/membership.h"

#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "gtest/gtest.h"
#include "runtime/cluster/membership/rendezvous.h"

namespace tandem {
namespace {

// An address of this test process's own, so that ports cannot collide: numbers of processes repeat
// in sandboxes.
std::string Host() {
  static const std::string host = [] {
    std::random_device random;
    return absl::StrCat("127.", 10 + random() % 200, ".", 1 + random() % 250, ".",
                        1 + random() % 250);
  }();
  return host;
}

// Generous: the machine may be busy. What ends earlier does not wait.
absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() { first_port_ = next_port_ += 20; }

  MembershipConfig Config(int index, int num_seeds, int min, int max) const {
    MembershipConfig config;
    config.name = absl::StrCat("worker:", index);
    config.address = absl::StrCat(Host(), ":", first_port_ + index);
    config.security = Security();
    config.endpoint = absl::StrCat("data of ", index);
    config.options.min_members = min;
    config.options.max_members = max;
    // Slow enough for a busy machine, quick enough for a test.
    config.options.heartbeat = absl::Milliseconds(200);
    config.options.lost_after = absl::Seconds(4);
    config.options.minority_after = absl::Seconds(2);
    config.options.settle = absl::Milliseconds(100);
    for (int i = 0; i < num_seeds; ++i) {
      config.options.seeds.push_back(
          {absl::StrCat("worker:", i), absl::StrCat(Host(), ":", first_port_ + i)});
    }
    return config;
  }

  std::unique_ptr<Membership> Start(MembershipConfig config) {
    auto membership = Membership::Create(std::move(config));
    EXPECT_TRUE(membership.ok()) << membership.status();
    const absl::Status joined = (*membership)->Join();
    EXPECT_TRUE(joined.ok()) << joined;
    return *std::move(membership);
  }

  std::vector<std::unique_ptr<Membership>> StartAll(int count, int min) {
    std::vector<std::unique_ptr<Membership>> members;
    for (int i = 0; i < count; ++i) members.push_back(Start(Config(i, count, min, count)));
    return members;
  }

 private:
  static int next_port_;
  int first_port_ = 0;
};

int MembershipTest::next_port_ = 20000;

Group GroupOf(Membership& membership, uint64_t after = 0) {
  const absl::StatusOr<Group> group = membership.WaitForGroup(Soon(), after);
  EXPECT_TRUE(group.ok()) << group.status();
  return group.ok() ? *group : Group();
}

TEST_F(MembershipTest, MembersFormAGroupAndKnowOneAnother) {
  const auto members = StartAll(3, 3);
  std::vector<Group> groups;
  for (const auto& member : members) groups.push_back(GroupOf(*member));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(groups[i].rank, i);
    EXPECT_EQ(groups[i].generation.SerializeAsString(), groups[0].generation.SerializeAsString());
    EXPECT_EQ(groups[0].generation.members(i).endpoint(), absl::StrCat("data of ", i));
    EXPECT_EQ(groups[i].start_step, -1);
    EXPECT_EQ(members[i]->is_chief(), i == 0);
  }
  EXPECT_NE(groups[0].generation.nonce(), 0u);
}

TEST_F(MembershipTest, ABarrierOpensForAllAndAnAbsentMemberIsNamed) {
  const auto members = StartAll(2, 2);
  const uint64_t generation = GroupOf(*members[0]).generation.number();
  GroupOf(*members[1]);
  for (int round = 0; round < 3; ++round) {
    std::thread other([&] {
      const absl::Status passed = members[1]->Barrier(generation, "same name", Soon());
      EXPECT_TRUE(passed.ok()) << passed;
    });
    const absl::Status passed = members[0]->Barrier(generation, "same name", Soon());
    EXPECT_TRUE(passed.ok()) << passed;
    other.join();
  }
  Mutex mu;
  std::vector<std::string> warnings;
  SetLogSink([&](LogSeverity severity, absl::string_view text) {
    MutexLock lock(mu);
    if (severity == LogSeverity::kWarning) warnings.emplace_back(text);
  });
  const absl::Status alone =
      members[0]->Barrier(generation, "alone", absl::Now() + absl::Milliseconds(900));
  SetLogSink({});
  EXPECT_TRUE(absl::IsDeadlineExceeded(alone)) << alone;
  EXPECT_TRUE(absl::StrContains(alone.message(), "barrier 'alone'")) << alone;
  EXPECT_TRUE(absl::StrContains(alone.message(), "worker:1")) << alone;
  MutexLock lock(mu);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(warnings[0], "worker:1")) << warnings[0];
}

TEST_F(MembershipTest, ValuesReachWhoWaitsForThem) {
  const auto members = StartAll(2, 2);
  const uint64_t generation = GroupOf(*members[0]).generation.number();
  GroupOf(*members[1]);
  std::thread waiter([&] {
    const auto value = members[1]->WaitKey(generation, "port", Soon());
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, "4711");
  });
  EXPECT_TRUE(members[0]->Put(generation, "port", "4711", Soon()).ok());
  waiter.join();
  const auto never = members[0]->WaitKey(generation, "never", absl::Now() + absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(never.status())) << never.status();
  EXPECT_TRUE(absl::StrContains(never.status().message(), "never"));
  const absl::Status large = members[0]->Put(generation, "k", std::string(2 << 20, 'x'), Soon());
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
}

TEST_F(MembershipTest, TheOthersGoOnWhenAMemberDies) {
  auto members = StartAll(3, 1);
  uint64_t generation = 0;
  for (const auto& member : members) generation = GroupOf(*member).generation.number();
  ASSERT_TRUE(members[0]->CompletedStep(7, Soon()).ok());
  ASSERT_TRUE(members[1]->CompletedStep(8, Soon()).ok());
  absl::Status waited;
  std::thread waiter([&] { waited = members[1]->Barrier(generation, "never", Soon()); });
  members[2].reset();
  waiter.join();
  EXPECT_TRUE(absl::IsAborted(waited) || absl::IsUnavailable(waited)) << waited;
  EXPECT_TRUE(absl::StrContains(waited.message(), "worker:2")) << waited;
  for (int i = 0; i < 2; ++i) {
    const Group group = GroupOf(*members[i], generation);
    EXPECT_EQ(group.generation.members_size(), 2);
    EXPECT_EQ(group.rank, i);
    // Who was ahead gives its state.
    EXPECT_EQ(group.start_step, 8);
    EXPECT_EQ(group.source_rank, 1);
  }
  // What belongs to the old generation is refused.
  const absl::Status stale = members[0]->Barrier(generation, "late", Soon());
  EXPECT_TRUE(absl::IsAborted(stale) || absl::IsUnavailable(stale)) << stale;
}

TEST_F(MembershipTest, AVoteReplacesADeadChief) {
  auto members = StartAll(3, 1);
  uint64_t generation = 0;
  for (const auto& member : members) generation = GroupOf(*member).generation.number();
  members[0].reset();
  for (int i = 1; i < 3; ++i) {
    const Group group = GroupOf(*members[i], generation);
    EXPECT_EQ(group.generation.members(0).name(), "worker:1");
    EXPECT_EQ(group.generation.members_size(), 2);
  }
  EXPECT_TRUE(members[1]->is_chief());
}

TEST_F(MembershipTest, AGroupThatIsGivenUpIsFormedAgain) {
  const auto members = StartAll(3, 3);
  uint64_t generation = 0;
  for (const auto& member : members) generation = GroupOf(*member).generation.number();
  // By the chief, and by another one.
  for (const int who : {0, 2}) {
    members[who]->GiveUpGroup(generation + 7, errors::Unavailable("of another generation"));
    EXPECT_TRUE(members[who]->CurrentGroup().has_value());
    absl::Status waited;
    std::thread waiter([&] { waited = members[1]->Barrier(generation, "never", Soon()); });
    members[who]->GiveUpGroup(generation, errors::Unavailable("the cable is broken"));
    EXPECT_FALSE(members[who]->CurrentGroup().has_value());
    waiter.join();
    EXPECT_TRUE(absl::IsAborted(waited)) << waited;
    EXPECT_TRUE(absl::StrContains(waited.message(), absl::StrCat("worker:", who))) << waited;
    EXPECT_TRUE(absl::StrContains(waited.message(), "the cable is broken")) << waited;
    const uint64_t former = generation;
    for (const auto& member : members) {
      const Group group = GroupOf(*member, former);
      EXPECT_EQ(group.generation.members_size(), 3);
      generation = group.generation.number();
    }
  }
}

TEST_F(MembershipTest, FoldersThatMembersDoNotShareDecideNothing) {
  std::vector<std::unique_ptr<Membership>> members;
  for (int i = 0; i < 2; ++i) {
    MembershipConfig config = Config(i, 2, 2, 2);
    config.folder = absl::StrCat(::testing::TempDir(), "/own_", getpid(), "_", i);
    config.folder_decides = false;
    members.push_back(Start(std::move(config)));
  }
  for (int i = 0; i < 2; ++i) {
    const Group group = GroupOf(*members[i]);
    EXPECT_EQ(group.generation.members_size(), 2);
    EXPECT_EQ(group.rank, i);
  }
  // The fence is there all the same.
  const uint64_t generation = GroupOf(*members[0]).generation.number();
  const std::string file = absl::StrCat(::testing::TempDir(), "/own_", getpid(), "_0/checkpoint");
  EXPECT_TRUE(WriteFileAtomically(members[0]->ChiefFiles(generation).get(), file, "x").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      WriteFileAtomically(members[0]->ChiefFiles(generation + 1).get(), file, "y")));
}

TEST_F(MembershipTest, HalfWithoutAnArbiterIsAMinorityAndSaysSo) {
  auto members = StartAll(2, 1);
  for (const auto& member : members) GroupOf(*member);
  members[0].reset();
  const auto group = members[1]->WaitForGroup(Soon(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(group.status())) << group.status();
  EXPECT_TRUE(absl::StrContains(group.status().message(), "minority")) << group.status();
  EXPECT_TRUE(absl::StrContains(group.status().message(), "worker:0")) << group.status();
}

TEST_F(MembershipTest, WithAFolderTheLastOneGoesOnAndTheOldChiefMayNotWrite) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/shared_", getpid());
  std::vector<std::unique_ptr<Membership>> members;
  for (int i = 0; i < 2; ++i) {
    MembershipConfig config = Config(i, 2, 1, 2);
    config.folder = folder;
    // The group begins when both are there, although one would do.
    config.options.settle = absl::Seconds(30);
    members.push_back(Start(std::move(config)));
  }
  const Group first = GroupOf(*members[0]);
  const uint64_t generation = GroupOf(*members[1]).generation.number();
  ASSERT_EQ(first.generation.members_size(), 2);
  const int chief = first.rank == 0 ? 0 : 1;
  const auto write = [&](Membership& membership, uint64_t number) {
    return WriteFileAtomically(membership.ChiefFiles(number).get(), folder + "/checkpoint", "x");
  };
  EXPECT_TRUE(write(*members[chief], generation).ok());
  EXPECT_TRUE(members[chief]->NoteCheckpoint(generation, 4).ok());
  members[chief].reset();
  const Group second = GroupOf(*members[1 - chief], generation);
  EXPECT_EQ(second.generation.members_size(), 1);
  EXPECT_GT(second.generation.number(), generation);
  // What the old chief saved is newer than what the other one has.
  EXPECT_TRUE(second.from_checkpoint);
  EXPECT_EQ(second.start_step, 4);
  Membership& left = *members[1 - chief];
  EXPECT_TRUE(write(left, second.generation.number()).ok());
  // As the old chief, had it only been asleep.
  EXPECT_TRUE(absl::IsFailedPrecondition(write(left, generation)));
}

TEST_F(MembershipTest, TheLauncherIsAnArbiterAndTakesInWhoComesLater) {
  membership::MemoryArbiter arbiter;
  auto server =
      membership::RendezvousServer::Start(absl::StrCat(Host(), ":0"), Security(), &arbiter);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto config = [&](int index) {
    MembershipConfig result = Config(index, 0, 1, 3);
    result.rendezvous = (*server)->address();
    return result;
  };
  auto first = Start(config(0));
  const Group alone = GroupOf(*first);
  EXPECT_EQ(alone.generation.members_size(), 1);
  // It trains, until it is told that somebody wants to come.
  auto second = Start(config(1));
  int64_t step = 0;
  StepAdvice advice;
  const absl::Time deadline = Soon();
  while (!advice.regroup && absl::Now() < deadline) {
    const auto said = first->CompletedStep(step++, Soon());
    ASSERT_TRUE(said.ok()) << said.status();
    advice = *said;
  }
  ASSERT_TRUE(advice.regroup);
  EXPECT_FALSE(advice.save);
  first->ReachedSync(advice.sync);
  const Group both = GroupOf(*first, alone.generation.number());
  EXPECT_EQ(both.generation.members_size(), 2);
  // No step is lost or repeated, and the newcomer gets the state.
  EXPECT_EQ(both.start_step, step - 1);
  EXPECT_EQ(both.source_rank, 0);
  EXPECT_EQ(GroupOf(*second).rank, 1);
  // The chief dies, which the launcher has seen.
  first.reset();
  arbiter.NoteEnd(second->self().host(), second->self().pid());
  const Group last = GroupOf(*second, both.generation.number());
  EXPECT_EQ(last.generation.members_size(), 1);
}

TEST_F(MembershipTest, APreemptionSavesAtOneStepAndLeavesTheOthersToGoOn) {
  const auto members = StartAll(3, 2);
  uint64_t generation = 0;
  for (const auto& member : members) generation = GroupOf(*member).generation.number();
  // A group takes its steps together: nobody is more than one ahead.
  Mutex mu;
  CondVar changed;
  std::vector<int64_t> begun(3, -1);
  std::vector<int64_t> saved(3, -1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t step = 0;; ++step) {
        {
          MutexLock lock(mu);
          begun[i] = step;
          changed.NotifyAll();
          while (begun[0] < step || begun[1] < step || begun[2] < step) changed.Wait(mu);
        }
        if (i == 2 && step == 5) members[2]->RequestPreemption();
        const auto advice = members[i]->CompletedStep(step, Soon());
        ASSERT_TRUE(advice.ok()) << advice.status();
        if (advice->save) saved[i] = step;
        if (!advice->regroup) continue;
        members[i]->ReachedSync(advice->sync);
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(saved[0], 5);
  EXPECT_EQ(saved[1], saved[0]);
  EXPECT_EQ(saved[2], saved[0]);
  for (int i = 0; i < 2; ++i) {
    const Group group = GroupOf(*members[i], generation);
    EXPECT_EQ(group.generation.members_size(), 2);
    EXPECT_EQ(group.start_step, saved[0]);
  }
  const auto left = members[2]->WaitForGroup(Soon(), generation);
  EXPECT_TRUE(absl::IsCancelled(left.status())) << left.status();
}

TEST_F(MembershipTest, WhoAsksIsToldHowTheJobIs) {
  const auto members = StartAll(2, 2);
  for (const auto& member : members) GroupOf(*member);
  const auto asked =
      membership::AskStatus(members[0]->self().address(), Security(), absl::Seconds(30));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->from_chief());
  EXPECT_TRUE(asked->started());
  ASSERT_EQ(asked->members_size(), 2);
  EXPECT_EQ(asked->members(1).member().name(), "worker:1");
  const auto other =
      membership::AskStatus(members[1]->self().address(), Security(), absl::Seconds(30));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->from_chief());
  EXPECT_EQ(other->generation().members(0).name(), "worker:0");
  const auto nobody =
      membership::AskStatus(absl::StrCat(Host(), ":9"), Security(), absl::Seconds(30));
  EXPECT_TRUE(absl::IsUnavailable(nobody.status())) << nobody.status();
}

TEST_F(MembershipTest, AllLeaveTogether) {
  const auto members = StartAll(2, 2);
  for (const auto& member : members) GroupOf(*member);
  std::thread other([&] { EXPECT_TRUE(members[1]->Leave(Soon()).ok()); });
  EXPECT_TRUE(members[0]->Leave(Soon()).ok());
  other.join();
}

TEST_F(MembershipTest, ChangesAreTold) {
  Mutex mu;
  CondVar changed;
  std::vector<MembershipChange> changes;
  auto created = Membership::Create(Config(0, 1, 1, 1));
  ASSERT_TRUE(created.ok()) << created.status();
  (*created)->OnChange([&](const MembershipChange& change) {
    MutexLock lock(mu);
    changes.push_back(change);
    changed.NotifyAll();
  });
  ASSERT_TRUE((*created)->Join().ok());
  GroupOf(**created);
  EXPECT_TRUE((*created)->Leave(Soon()).ok());
  {
    MutexLock lock(mu);
    while (changes.size() < 3) ASSERT_TRUE(changed.WaitUntil(mu, Soon()));
    EXPECT_TRUE(changes[0].group.has_value());
    EXPECT_FALSE(changes[1].group.has_value());
    EXPECT_TRUE(changes[2].is_end);
    EXPECT_TRUE(changes[2].reason.ok());
  }
}

TEST_F(MembershipTest, ConfigurationsThatMakeNoSenseAreRefused) {
  const auto refuse = [&](auto edit, const char* words) {
    MembershipConfig config = Config(0, 2, 1, 2);
    edit(config);
    const auto created = Membership::Create(std::move(config));
    EXPECT_FALSE(created.ok()) << words;
    EXPECT_TRUE(absl::StrContains(created.status().message(), words)) << created.status();
  };
  refuse([](MembershipConfig& c) { c.name.clear(); }, "name");
  refuse([](MembershipConfig& c) { c.address = "nowhere"; }, "nowhere");
  refuse([](MembershipConfig& c) { c.options.min_members = 3; }, "MIN");
  refuse([](MembershipConfig& c) { c.options.lost_after = absl::Milliseconds(1); }, "lost after");
  refuse([](MembershipConfig& c) { c.options.seeds.clear(); }, "cannot find them");
  refuse([](MembershipConfig& c) { c.address = "10.1.2.3:4"; }, "TANDEM_TOKEN");
}

}  // namespace
}  // namespace tandem
