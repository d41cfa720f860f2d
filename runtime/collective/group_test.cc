// What a group does when members do not agree, do not come, or change their minds.
#include "runtime/collective/group.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/collective/flight_signal.h"
#include "runtime/collective/group_test_util.h"

namespace tandem::collective {
namespace {

Request Sum(std::vector<float>& values, int64_t instance, int64_t step = 1) {
  Request request;
  request.input = values.data();
  request.output = values.data();
  request.count = static_cast<int64_t>(values.size());
  request.instance = instance;
  request.step = step;
  request.name = absl::StrCat("grads/", instance);
  return request;
}

class GroupTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  void Form(int size, const std::function<void(GroupOptions&)>& change = nullptr) {
    GroupOptions options = TestOptions(size, GetParam());
    if (change) change(options);
    groups_ = FormAll(options);
  }
  ~GroupTest() override { EndAll(groups_); }
  Group& group(int rank) { return *groups_[static_cast<size_t>(rank)]; }

  Groups groups_;
};

TEST_P(GroupTest, OperationsMeetByInstanceAndStepAndNotByOrder) {
  Form(3);
  constexpr int kOperations = 8;
  OnAll(3, [&](int rank) {
    std::vector<std::vector<float>> values;
    for (int i = 0; i < kOperations; ++i) {
      values.emplace_back(static_cast<size_t>(1 + i * 30000), static_cast<float>(i + rank));
    }
    std::vector<Handle> handles;
    for (int k = 0; k < kOperations; ++k) {
      // Each member in an order of its own.
      const int i = (k * 3 + rank * 5) % kOperations;
      handles.push_back(group(rank).Start(Sum(values[static_cast<size_t>(i)], i)));
    }
    for (const Handle& handle : handles) {
      const absl::Status status = handle->Wait();
      ASSERT_TRUE(status.ok()) << status;
    }
    for (int i = 0; i < kOperations; ++i) {
      for (const float value : values[static_cast<size_t>(i)]) ASSERT_EQ(value, 3 * i + 3);
    }
  });
}

TEST_P(GroupTest, AMismatchNamesBothSidesAtAllMembers) {
  Form(3);
  const auto fails = [&](const std::function<Request(int)>& make,
                         const std::vector<std::string>& texts) {
    OnAll(3, [&](int rank) {
      const absl::Status status = group(rank).Run(make(rank));
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "worker:")) << status;
      for (const std::string& text : texts) {
        EXPECT_TRUE(absl::StrContains(status.message(), text)) << text << " in " << status;
      }
    });
  };
  std::vector<std::vector<float>> room(3, std::vector<float>(200000));
  std::vector<std::vector<int32_t>> integers(3, std::vector<int32_t>(200000));
  const auto base = [&](int rank, int64_t instance) {
    Request request = Sum(room[static_cast<size_t>(rank)], instance);
    request.count = 6;
    request.dims = {2, 3};
    return request;
  };
  fails(
      [&](int rank) {
        Request request = base(rank, 1);
        if (rank == 1) request.dims = {3, 2};
        return request;
      },
      {"float32[2,3]", "float32[3,2]", "grads/1", "step 1"});
  fails(
      [&](int rank) {
        Request request = base(rank, 2);
        if (rank == 2) {
          request.dtype = kInt32;
          request.input = request.output = integers[2].data();
        }
        return request;
      },
      {"float32[2,3]", "int32[2,3]"});
  fails(
      [&](int rank) {
        Request request = base(rank, 3);
        if (rank == 0) request.reduction = Reduction::kMax;
        return request;
      },
      {"(max)", "(sum)"});
  fails(
      [&](int rank) {
        Request request = base(rank, 4);
        if (rank == 1) request.kind = Kind::kBroadcast;
        return request;
      },
      {"broadcast", "all-reduce"});
  // So large, and so small, that other algorithms are used.
  fails(
      [&](int rank) {
        Request request = base(rank, 5);
        request.dims.clear();
        request.count = rank == 1 ? 200000 : 10;
        return request;
      },
      {"float32[200000]", "float32[10]"});
  fails(
      [&](int rank) {
        Request request = base(rank, 6);
        request.kind = Kind::kAllGather;
        request.input = integers[static_cast<size_t>(rank)].data();
        request.dims.clear();
        request.counts = rank == 2 ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{3, 2, 1};
        return request;
      },
      {"other counts"});
  // The group is none the worse.
  OnAll(3, [&](int rank) {
    std::vector<float> values(10, 1.f);
    const absl::Status status = group(rank).Run(Sum(values, 7));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(values[9], 3.f);
  });
}

TEST_P(GroupTest, SubsetsWorkAtTheSameTime) {
  Form(5);
  const std::vector<std::vector<int>> subsets = {{0, 2, 4}, {1, 3}};
  OnAll(5, [&](int rank) {
    std::vector<float> values(1000, static_cast<float>(rank));
    Request request = Sum(values, 1);
    request.members = subsets[static_cast<size_t>(rank % 2)];
    const absl::Status status = group(rank).Run(request);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(values[999], rank % 2 == 0 ? 6.f : 4.f);
  });
}

TEST_P(GroupTest, AMemberThatDoesNotComeIsNamed) {
  Form(3, [](GroupOptions& options) { options.timeout = absl::Milliseconds(900); });
  std::vector<std::string> warnings;
  Mutex mu;
  const LogSink former = SetLogSink([&](LogSeverity, absl::string_view text) {
    MutexLock lock(mu);
    warnings.emplace_back(text);
  });
  OnAll(3, [&](int rank) {
    if (rank == 2) return;
    std::vector<float> values(10);
    const absl::Status status = group(rank).Run(Sum(values, 1));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "worker:2 on 127.0.0.1")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "all-reduce 'grads/1'")) << status;
  });
  SetLogSink(former);
  {
    MutexLock lock(mu);
    bool warned = false;
    for (const std::string& text : warnings) {
      warned = warned || absl::StrContains(text, "waits for worker:2 on 127.0.0.1 since 300ms");
    }
    EXPECT_TRUE(warned);
  }
  // Who comes later hears of it at once.
  std::vector<float> values(10);
  EXPECT_EQ(group(2).Run(Sum(values, 1)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(GroupTest, AnotherOrderOfBlockingCallsIsExplained) {
  Form(2, [](GroupOptions& options) { options.timeout = absl::Milliseconds(600); });
  OnAll(2, [&](int rank) {
    std::vector<float> values(10);
    const absl::Status status = group(rank).Run(Sum(values, rank + 1));
    EXPECT_FALSE(status.ok());
    // Each sees what the other one does meanwhile.
    EXPECT_TRUE(absl::StrContains(status.message(), "which is at all-reduce")) << status;
  });
}

TEST_P(GroupTest, CancellingEndsAnOperationAtAllMembers) {
  Form(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(300000));
  std::vector<Handle> handles;
  std::atomic<int> called{0};
  for (int rank = 0; rank < 2; ++rank) {
    handles.push_back(
        group(rank).Start(Sum(values[static_cast<size_t>(rank)], 1), [&](const absl::Status& s) {
          EXPECT_EQ(s.code(), absl::StatusCode::kCancelled) << s;
          called.fetch_add(1);
        }));
  }
  EXPECT_EQ(handles[0]->Wait(absl::Now()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(handles[0]->done());
  handles[0]->Cancel(errors::Cancelled("the step was given up"));
  for (const Handle& handle : handles) {
    const absl::Status status = handle->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "the step was given up")) << status;
  }
  // Whoever waits may see the end before those that are told.
  while (called.load() < 2) absl::SleepFor(absl::Milliseconds(1));
  const absl::Status late = group(2).Run(Sum(values[2], 1));
  EXPECT_EQ(late.code(), absl::StatusCode::kCancelled) << late;
}

TEST_P(GroupTest, ALeavingMemberEndsWhatWaitsForIt) {
  Form(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(10));
  const Handle first = group(0).Start(Sum(values[0], 1));
  const Handle second = group(1).Start(Sum(values[1], 1));
  groups_[2].reset();
  for (const Handle& handle : {first, second}) {
    const absl::Status status = handle->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "worker:2 on 127.0.0.1")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "instance 1, step 1")) << status;
  }
  EXPECT_FALSE(group(0).status().ok());
  // For good: the next generation is another group.
  EXPECT_EQ(group(0).Run(Sum(values[0], 2)).code(), absl::StatusCode::kUnavailable);
  Groups next = FormAll([&] {
    GroupOptions options = TestOptions(2, GetParam());
    options.generation = 2;
    return options;
  }());
  OnAll(2, [&](int rank) {
    std::vector<float> ones(10, 1.f);
    const absl::Status status = next[static_cast<size_t>(rank)]->Run(Sum(ones, 1));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ones[0], 2.f);
  });
  EndAll(next);
}

TEST_P(GroupTest, TwoOperationsOfOneKeyAreRefused) {
  Form(2);
  std::vector<std::vector<float>> values(2, std::vector<float>(10));
  std::vector<float> other(10);
  const Handle first = group(0).Start(Sum(values[0], 1));
  EXPECT_EQ(group(0).Run(Sum(other, 1)).code(), absl::StatusCode::kInvalidArgument);
  const Handle second = group(1).Start(Sum(values[1], 1));
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
}

TEST_P(GroupTest, RowsWhoseNumbersOnlyTheirMembersKnow) {
  Form(3);
  OnAll(3, [&](int rank) {
    Tensor rows(kFloat32, Shape({rank, 2}));
    for (float& value : rows.MutableElements<float>()) value = static_cast<float>(rank);
    const absl::StatusOr<Tensor> all = AllGatherRows(group(rank), rows, {1, 1, "rows"});
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->shape(), Shape({3, 2}));
    const auto elements = all->Elements<float>();
    EXPECT_EQ(std::vector<float>(elements.begin(), elements.end()),
              (std::vector<float>{1, 1, 2, 2, 2, 2}));
    Tensor torn(kFloat32, Shape({1, rank == 1 ? 3 : 2}));
    EXPECT_EQ(AllGatherRows(group(rank), torn, {2, 1, "torn"}).status().code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TEST_P(GroupTest, WhatMember0MeasuredIsUsedByAll) {
  Form(3, [](GroupOptions& options) { options.measures = true; });
  EXPECT_EQ(group(1).choices().ToString(), group(0).choices().ToString());
  EXPECT_EQ(group(2).choices().ToString(), group(0).choices().ToString());
  EXPECT_TRUE(absl::StrContains(group(0).choices().ToString(), "all-reduce 2048 "));
}

TEST_P(GroupTest, TheTableOfMember0IsUsedByAll) {
  GroupOptions options = TestOptions(2, GetParam());
  groups_ = FormAll(options, [](GroupOptions& own) {
    if (own.rank == 0) own.table = "all-reduce 100 ring\nall-reduce inf halving_doubling\n";
  });
  EXPECT_EQ(group(1).choices().ToString(),
            "all-reduce 100 ring\nall-reduce inf halving_doubling\n");
  OnAll(2, [&](int rank) {
    std::vector<float> values(10, 1.f);
    EXPECT_TRUE(group(rank).Run(Sum(values, 1)).ok());
    EXPECT_TRUE(absl::StrContains(group(rank).FlightRecordText("test"), "\"ring\""));
  });
}

TEST_P(GroupTest, TheFlightRecordSaysWhatRanAndWhatDidNotEnd) {
  Form(2);
  OnAll(2, [&](int rank) {
    std::vector<float> values(10, 1.f);
    EXPECT_TRUE(group(rank).Run(Sum(values, 1)).ok());
  });
  std::vector<float> values(10);
  const Handle pending = group(0).Start(Sum(values, 2));
  const std::vector<std::string> list = group(0).Pending();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(absl::StrContains(list[0], "waits for worker:1")) << list[0];
  WriteAllFlightRecords("test");
  const absl::StatusOr<std::string> file = group(0).WriteFlightRecord("test");
  ASSERT_TRUE(file.ok()) << file.status();
  std::ifstream lines(*file);
  std::vector<nlohmann::json> entries;
  for (std::string line; std::getline(lines, line);) entries.push_back(nlohmann::json::parse(line));
  // The head, the group's own agreement, and two.
  ASSERT_GE(entries.size(), 3u);
  EXPECT_EQ(entries[0]["member"], "worker:0");
  EXPECT_EQ(entries[0]["why"], "test");
  EXPECT_EQ(entries[entries.size() - 2]["state"], "done");
  EXPECT_EQ(entries.back()["state"], "running");
  EXPECT_EQ(entries.back()["bytes"], 40);
  EXPECT_EQ(entries.back()["name"], "grads/2");
  pending->Cancel(errors::Cancelled("enough"));
}

INSTANTIATE_TEST_SUITE_P(All, GroupTest,
                         ::testing::Values(TransportKind::kInProcess, TransportKind::kSharedMemory,
                                           TransportKind::kTcp),
                         [](const auto& info) { return NameOf(info.param); });

// Formation.

TEST(GroupFormation, NamesWhoDidNotCome) {
  GroupOptions options = TestOptions(3, TransportKind::kTcp);
  options.form_timeout = absl::Milliseconds(200);
  InMemoryStore store;
  OnAll(2, [&](int rank) {
    GroupOptions own = options;
    own.rank = rank;
    const absl::Status status = Group::Form(own, &store).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "worker:2 on 127.0.0.1")) << status;
  });
}

TEST(GroupFormation, EndsWhenItsCallerWishes) {
  const absl::Status enough = errors::Cancelled("enough");
  for (const TransportKind transport : {TransportKind::kTcp, TransportKind::kSharedMemory}) {
    GroupOptions options = TestOptions(2, transport);
    InMemoryStore store;
    int asked = 0;
    const auto check = [&] { return ++asked < 3 ? absl::OkStatus() : enough; };
    // Where the other one is not known, and where it is known and does not connect.
    EXPECT_EQ(Group::Form(options, &store, check).status(), enough);
    EXPECT_EQ(asked, 3);
    GroupOptions other = options;
    other.rank = 1;
    EXPECT_EQ(Group::Form(other, &store, [&] { return enough; }).status(), enough);
    asked = 0;
    EXPECT_EQ(Group::Form(options, &store, check).status(), enough);
    EXPECT_EQ(asked, 3);
  }
}

TEST(GroupFormation, RefusesAnotherIncarnation) {
  GroupOptions options = TestOptions(2, TransportKind::kTcp);
  options.form_timeout = absl::Seconds(2);
  InMemoryStore store;
  OnAll(2, [&](int rank) {
    GroupOptions own = options;
    own.rank = rank;
    own.members[0].incarnation = rank == 0 ? 5 : 4;  // The other one still knows the former.
    const absl::Status status = Group::Form(own, &store).status();
    EXPECT_FALSE(status.ok());
    if (rank == 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "incarnation 5, expected was 4")) << status;
    }
  });
}

TEST(GroupFormation, ConnectionsWithoutTheNonceAreTurnedAway) {
  for (const TransportKind transport : {TransportKind::kTcp, TransportKind::kSharedMemory}) {
    GroupOptions options = TestOptions(2, transport);
    options.form_timeout = absl::Milliseconds(500);
    InMemoryStore store;
    OnAll(2, [&](int rank) {
      GroupOptions own = options;
      own.rank = rank;
      own.nonce = std::string(32, rank == 0 ? 'a' : 'b');
      EXPECT_FALSE(Group::Form(own, &store).ok());
    });
  }
}

TEST(GroupFormation, RefusesToSendInTheClearWhatWasToBeEncrypted) {
  GroupOptions options = TestOptions(2, TransportKind::kTcp);
  options.requires_tls = true;
  InMemoryStore store;
  const absl::Status status = Group::Form(options, &store).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "TLS")) << status;
}

TEST(GroupFormation, KnowsItsAlgorithms) {
  GroupOptions options = TestOptions(1, TransportKind::kAuto);
  options.algorithm = "rign";
  InMemoryStore store;
  const absl::Status status = Group::Form(options, &store).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "halving_doubling")) << status;
}

TEST(ChoiceTable, ReadsWhatItWrites) {
  const ChoiceTable table = ChoiceTable::Default(8, std::vector<int>(8, 0));
  const absl::StatusOr<ChoiceTable> read = ChoiceTable::Parse(table.ToString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToString(), table.ToString());
  for (const char* const text : {"all-reduce 12", "all-reduce x ring", "nothing 5 ring",
                                 "all-reduce 5 nothing", "all-reduce -1 ring"}) {
    EXPECT_EQ(ChoiceTable::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(DeterministicGroup, RefusesOrdersThatDependOnTheNumberOfMembers) {
  GroupOptions options = TestOptions(2, TransportKind::kInProcess);
  options.is_deterministic = true;
  options.measures = true;
  Groups groups = FormAll(options);
  OnAll(2, [&](int rank) {
    Group& group = *groups[static_cast<size_t>(rank)];
    std::vector<float> values(10, 1.f);
    EXPECT_EQ(group.Run(Sum(values, 1)).code(), absl::StatusCode::kInvalidArgument);
    Request most = Sum(values, 2);
    most.reduction = Reduction::kMax;
    EXPECT_TRUE(group.Run(most).ok());
    std::vector<int64_t> counts(1, 1);
    Request count = Sum(values, 3);
    count.dtype = kInt64;
    count.input = count.output = counts.data();
    count.count = 1;
    EXPECT_TRUE(group.Run(count).ok());
    EXPECT_EQ(counts[0], 2);
  });
  EndAll(groups);
}

// Bits of deterministic mode do not depend on the transport or the number of members.
TEST(DeterministicGroup, SameBitsForAnyNumberOfMembersAndTransport) {
  constexpr int kReplicas = 8;
  constexpr int64_t kCount = 5000;
  const auto value = [](int replica, int64_t i) {
    return static_cast<float>((i * 37 + replica * 101) % 1000) * (replica % 2 ? -1e-3f : 1e3f);
  };
  std::vector<float> expected;
  for (const TransportKind transport :
       {TransportKind::kInProcess, TransportKind::kSharedMemory, TransportKind::kTcp}) {
    for (int size = 1; size <= 4; ++size) {
      GroupOptions options = TestOptions(size, transport);
      options.is_deterministic = true;
      Groups groups = FormAll(options);
      OnAll(size, [&](int rank) {
        Request request;
        for (int r = 0; r <= size; ++r) request.replicas.push_back(r * kReplicas / size);
        std::vector<float> input;
        for (int v = request.replicas[static_cast<size_t>(rank)];
             v < request.replicas[static_cast<size_t>(rank) + 1]; ++v) {
          for (int64_t i = 0; i < kCount; ++i) input.push_back(value(v, i));
        }
        std::vector<float> output(static_cast<size_t>(kCount));
        request.input = input.data();
        request.output = output.data();
        request.count = kCount;
        const absl::Status status = groups[static_cast<size_t>(rank)]->Run(request);
        ASSERT_TRUE(status.ok()) << status;
        if (expected.empty()) expected = output;  // One member: nobody else is here.
        EXPECT_EQ(output, expected) << size << " members";
      });
      EndAll(groups);
    }
  }
}

}  // namespace
}  // namespace tandem::collective
