#include "strategies/multi_worker_mirrored/exchange.h"

#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/collective/group_test_util.h"

namespace tandem {
namespace {

using collective::FormAll;
using collective::OnAll;
using collective::TestOptions;
using collective::TransportKind;

absl::Status NothingToSay() { return absl::OkStatus(); }

class Members {
 public:
  Members(int size, TransportKind transport) {
    for (auto& group : FormAll(TestOptions(size, transport))) {
      exchanges_.push_back(
          std::make_unique<Exchange>(std::move(group), absl::Seconds(60), absl::Seconds(60)));
    }
  }
  // Members of one job end at the same time.
  ~Members() {
    OnAll(size(), [this](int rank) { exchanges_[static_cast<size_t>(rank)].reset(); });
  }

  int size() const { return static_cast<int>(exchanges_.size()); }
  Exchange& operator[](int rank) { return *exchanges_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

void ExpectEqual(const StrategyState& got, const StrategyState& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& [name, tensor] = got[i];
    const Tensor& expected = wanted[i].second;
    EXPECT_EQ(name, wanted[i].first);
    ASSERT_EQ(tensor.dtype(), expected.dtype()) << name;
    ASSERT_EQ(tensor.shape(), expected.shape()) << name;
    if (tensor.dtype() == kString) {
      EXPECT_EQ(tensor.Elements<std::string>(), expected.Elements<std::string>()) << name;
    } else if (tensor.num_bytes() > 0) {
      EXPECT_EQ(std::memcmp(tensor.data(), expected.data(), tensor.num_bytes()), 0) << name;
    }
  }
}

Tensor Counted(int64_t count) {
  Tensor tensor(kInt32, Shape({count}));
  int32_t next = 0;
  for (int32_t& element : tensor.MutableElements<int32_t>()) element = next++ * 2654435761u;
  return tensor;
}

StrategyState ManyKinds() {
  return {{"scalar", Tensor::Scalar<float>(1.5f)},
          {"large", Counted(300000)},
          {"empty", Tensor(kFloat64, Shape({0, 3}))},
          {"", Tensor::Scalar<bool>(true)},
          {"text", Tensor::Vector<std::string>({"", std::string("a\0b", 3), "c", "d"})},
          {"long text", Tensor::Scalar<std::string>(std::string(200000, 'x'))},
          {"no text", Tensor(kString, Shape({2, 0}))},
          {"half", Tensor::Zeros(kFloat16, Shape({3, 1, 7}))},
          {"large, too", Counted(100001)}};
}

class ExchangeTest : public ::testing::TestWithParam<TransportKind> {};

TEST_P(ExchangeTest, GathersRecordsByRank) {
  Members members(3, GetParam());
  OnAll(3, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const auto records = members[rank].Gather(
          "records", absl::StrCat("member ", rank, " round ", round), NothingToSay);
      ASSERT_TRUE(records.ok()) << records.status();
      ASSERT_EQ(records->size(), 3u);
      for (int other = 0; other < 3; ++other) {
        EXPECT_EQ((*records)[static_cast<size_t>(other)],
                  absl::StrCat("member ", other, " round ", round));
      }
    }
  });
}

TEST_P(ExchangeTest, AStateArrivesAsItWas) {
  Members members(3, GetParam());
  const StrategyState state = ManyKinds();
  OnAll(3, [&](int rank) {
    if (rank == 1) {
      const absl::Status given = members[rank].Give("the state", &state, {0, 2}, NothingToSay);
      EXPECT_TRUE(given.ok()) << given;
      return;
    }
    const auto taken = members[rank].Take("the state", 1, {0, 2}, NothingToSay);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_TRUE(taken->has_value());
    ExpectEqual(**taken, state);
  });
}

TEST_P(ExchangeTest, OnlyThoseThatNeedItTakePart) {
  Members members(4, GetParam());
  const StrategyState state = ManyKinds();
  OnAll(4, [&](int rank) {
    Exchange& exchange = members[rank];
    if (rank == 2) {
      EXPECT_TRUE(exchange.Give("the state", &state, {0}, NothingToSay).ok());
    } else if (rank == 0) {
      const auto taken = exchange.Take("the state", 2, {0}, NothingToSay);
      ASSERT_TRUE(taken.ok()) << taken.status();
      ExpectEqual(**taken, state);
    } else {
      exchange.StandBy();
      EXPECT_EQ(exchange.moved_bytes(), 0);
    }
    // The numbers of what follows agree.
    const auto records = exchange.Gather("after it", absl::StrCat(rank), NothingToSay);
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(*records, (std::vector<std::string>{"0", "1", "2", "3"}));
  });
}

TEST_P(ExchangeTest, WhoHasNothingToGiveSaysSo) {
  Members members(2, GetParam());
  OnAll(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(members[0].Give("the state", nullptr, {1}, NothingToSay).ok());
      StrategyState state = {{"good", Tensor::Scalar<float>(1)},
                             {"handle", Tensor(DataType::kResource, Shape())}};
      const absl::Status given = members[0].Give("the state", &state, {1}, NothingToSay);
      EXPECT_EQ(given.code(), absl::StatusCode::kUnimplemented) << given;
      EXPECT_TRUE(absl::StrContains(given.message(), "'handle'")) << given;
      return;
    }
    for (int round = 0; round < 2; ++round) {
      const auto taken = members[1].Take("the state", 0, {1}, NothingToSay);
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_FALSE(taken->has_value());
    }
    EXPECT_TRUE(members[1].group().status().ok());
  });
}

TEST_P(ExchangeTest, WhoIsToldToStopEndsTheOperationEverywhere) {
  Members members(2, GetParam());
  int asked = 0;
  const auto stopped = members[0].Gather("records", "x", [&] {
    return ++asked < 3 ? absl::OkStatus() : errors::Cancelled("somebody wants to stop");
  });
  EXPECT_EQ(stopped.status(), errors::Cancelled("somebody wants to stop"));
  const auto other = members[1].Gather("records", "y", NothingToSay);
  EXPECT_TRUE(absl::IsCancelled(other.status())) << other.status();
  EXPECT_TRUE(absl::StrContains(other.status().message(), "somebody wants to stop"));
}

std::string NameOfTransport(const ::testing::TestParamInfo<TransportKind>& info) {
  return collective::NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(Transports, ExchangeTest,
                         ::testing::Values(TransportKind::kInProcess, TransportKind::kSharedMemory,
                                           TransportKind::kTcp),
                         NameOfTransport);

TEST(Exchange, LargeTensorsTravelInPieces) {
  Members members(2, TransportKind::kInProcess);
  // More than one piece, and not a multiple of any size.
  StrategyState state = {{"huge", Counted((80 << 20) / 4 + 3)}};
  OnAll(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(members[0].Give("the state", &state, {1}, NothingToSay).ok());
      return;
    }
    const auto taken = members[1].Take("the state", 0, {1}, NothingToSay);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ExpectEqual(**taken, state);
    EXPECT_GT(members[1].moved_bytes(), 80 << 20);
  });
}

// What a member sends that follows no rules, in the operations of a transfer: the head, the index,
// the small parts.
void GiveNonsense(Exchange& exchange, std::vector<uint64_t> head, std::string index,
                  std::string blob) {
  uint32_t phase = 0;
  const auto send = [&](void* data, size_t bytes) {
    if (bytes == 0) return;
    collective::Request request;
    request.kind = collective::Kind::kBroadcast;
    request.dtype = kUint8;
    request.input = request.output = data;
    request.count = static_cast<int64_t>(bytes);
    request.instance = -3;
    request.phase = phase++;
    exchange.group().Run(std::move(request)).IgnoreError();
  };
  send(head.data(), head.size() * sizeof(uint64_t));
  send(index.data(), index.size());
  send(blob.data(), blob.size());
}

TEST(Exchange, WhatMakesNoSenseIsDataLossAndBreaksTheGroup) {
  const auto take = [](const std::vector<uint64_t>& head, const std::string& index,
                       const std::string& blob) {
    Members members(2, TransportKind::kInProcess);
    absl::Status status;
    OnAll(2, [&](int rank) {
      if (rank == 0) {
        GiveNonsense(members[0], head, index, blob);
      } else {
        status = members[1].Take("the state", 0, {1}, NothingToSay).status();
        EXPECT_FALSE(members[1].group().status().ok());
      }
    });
    return status;
  };
  const auto entry = [](absl::string_view name, int dtype, std::vector<int> dims) {
    std::string text(1, static_cast<char>(name.size()));
    text.append(name.data(), name.size());
    text.push_back(static_cast<char>(dtype));
    text.push_back(static_cast<char>(dims.size()));
    for (const int dim : dims) text.push_back(static_cast<char>(dim));
    return text;
  };
  const std::string good = entry("v", 1, {2});
  const auto expect = [&](const std::string& index, const std::string& blob, const char* what) {
    const absl::Status status = take({1, index.size(), blob.size()}, index, blob);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << ": " << status;
  };
  expect("\xff\xff", "", "a number that does not end");
  expect(good.substr(0, 3), "12345678", "an index that is cut off");
  expect(entry("v", 20, {}), "", "a type that does not travel");
  expect(entry("v", 99, {}), "", "a type that there is not");
  expect(good, "1234567", "too few bytes");
  expect(good, "123456789", "too many bytes");
  expect(entry("v", 7, {2}),
         std::string("\x03"
                     "abc"
                     "\x7f",
                     5),
         "a string that is cut off");
  EXPECT_EQ(take({1, uint64_t{1} << 40, 0}, "", "").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tandem
