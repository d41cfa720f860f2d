// Every algorithm, run by a simulator that executes the schedules of all members in random orders:
// results are right and have the same bits whatever the order, and no order gets stuck.
#include "runtime/collective/schedule.h"

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/collective/algorithm.h"
#include "runtime/collective/in_process.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {
namespace {

struct SimulatedMember {
  Schedule schedule;
  std::vector<float> input;
  std::vector<float> output;
  std::vector<float> scratch;
  std::vector<int> waits_for;
  std::vector<int> ready;
  size_t left = 0;

  float* At(const Piece& piece, bool in_place) {
    switch (piece.place) {
      case Place::kInput:
        return (in_place ? output : input).data() + piece.begin;
      case Place::kOutput:
        return output.data() + piece.begin;
      case Place::kScratch:
        return scratch.data() + piece.begin;
    }
    return nullptr;
  }
};

class Simulator {
 public:
  // `values[r]`: the input of member r.
  Simulator(const Algorithm& algorithm, const Problem& problem,
            const std::vector<std::vector<float>>& values, size_t output_size)
      : problem_(problem) {
    for (int rank = 0; rank < problem.size; ++rank) {
      Problem own = problem;
      own.rank = rank;
      ScheduleBuilder builder(own.in_place);
      algorithm.build(own, builder);
      SimulatedMember member;
      member.schedule = std::move(builder).Build();
      member.input = values[static_cast<size_t>(rank)];
      member.output.assign(output_size, -1);
      if (own.in_place) {
        std::copy(member.input.begin(), member.input.end(), member.output.begin());
      }
      member.scratch.assign(static_cast<size_t>(member.schedule.scratch), -2);
      for (size_t i = 0; i < member.schedule.steps.size(); ++i) {
        member.waits_for.push_back(member.schedule.steps[i].waits_for);
        if (member.waits_for.back() == 0) member.ready.push_back(static_cast<int>(i));
      }
      member.left = member.schedule.steps.size();
      members_.push_back(std::move(member));
    }
  }

  // False: stuck. With `is_synchronous` a message leaves only when its receive is ready, as large
  // ones do; otherwise at once, as small ones may.
  bool Run(unsigned seed, bool is_synchronous = false) {
    std::mt19937 random(seed);
    for (;;) {
      // All that could go on: steps that are ready and, if they receive, whose message is there.
      std::vector<std::pair<int, size_t>> candidates;
      size_t left = 0;
      for (int rank = 0; rank < problem_.size; ++rank) {
        SimulatedMember& member = members_[static_cast<size_t>(rank)];
        left += member.left;
        for (size_t i = 0; i < member.ready.size(); ++i) {
          const Step& step = member.schedule.steps[static_cast<size_t>(member.ready[i])];
          const bool receives =
              step.kind == Step::Kind::kReceive || step.kind == Step::Kind::kReceiveReduce;
          const bool waits = (receives && messages_.count({step.peer, rank, step.part}) == 0) ||
                             (is_synchronous && step.kind == Step::Kind::kSend &&
                              step.a.count > 0 && !ReceiveIsReady(rank, step));
          if (!waits) candidates.emplace_back(rank, i);
        }
      }
      if (left == 0) return messages_.empty();
      if (candidates.empty()) return false;
      const auto [rank, index] = candidates[random() % candidates.size()];
      Execute(rank, index);
    }
  }

  const std::vector<float>& output(int rank) const {
    return members_[static_cast<size_t>(rank)].output;
  }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  bool ReceiveIsReady(int rank, const Step& send) const {
    const SimulatedMember& peer = members_[static_cast<size_t>(send.peer)];
    return std::any_of(peer.ready.begin(), peer.ready.end(), [&](int number) {
      const Step& step = peer.schedule.steps[static_cast<size_t>(number)];
      return (step.kind == Step::Kind::kReceive || step.kind == Step::Kind::kReceiveReduce) &&
             step.peer == rank && step.part == send.part;
    });
  }

  void Execute(int rank, size_t index) {
    SimulatedMember& member = members_[static_cast<size_t>(rank)];
    const int number = member.ready[index];
    member.ready.erase(member.ready.begin() + static_cast<std::ptrdiff_t>(index));
    const Step& step = member.schedule.steps[static_cast<size_t>(number)];
    const bool in_place = problem_.in_place;
    switch (step.kind) {
      case Step::Kind::kSend: {
        const float* const data = member.At(step.a, in_place);
        const bool is_new = messages_
                                .emplace(std::make_tuple(rank, step.peer, step.part),
                                         std::vector<float>(data, data + step.a.count))
                                .second;
        EXPECT_TRUE(is_new);
        bytes_sent_ += step.a.count * 4;
        break;
      }
      case Step::Kind::kReceive:
      case Step::Kind::kReceiveReduce: {
        const auto found = messages_.find({step.peer, rank, step.part});
        const std::vector<float> message = found->second;
        messages_.erase(found);
        ASSERT_EQ(message.size(), static_cast<size_t>(step.to.count));
        float* const to = member.At(step.to, in_place);
        if (step.kind == Step::Kind::kReceive) {
          std::copy(message.begin(), message.end(), to);
        } else {
          const float* const own = member.At(step.a, in_place);
          ReduceValues(kFloat32, problem_.reduction, step.received_first ? message.data() : own,
                       step.received_first ? own : message.data(), to, step.to.count);
        }
        break;
      }
      case Step::Kind::kCopy:
        std::copy_n(member.At(step.a, in_place), step.to.count, member.At(step.to, in_place));
        break;
      case Step::Kind::kReduce:
        ReduceValues(kFloat32, problem_.reduction, member.At(step.a, in_place),
                     member.At(step.b, in_place), member.At(step.to, in_place), step.to.count);
        break;
      case Step::Kind::kDivide:
        DivideValues(kFloat32, member.At(step.to, in_place), step.divisor, step.to.count);
        break;
    }
    --member.left;
    for (const int next : step.next) {
      if (--member.waits_for[static_cast<size_t>(next)] == 0) member.ready.push_back(next);
    }
  }

  const Problem problem_;
  std::vector<SimulatedMember> members_;
  std::map<std::tuple<int, int, uint32_t>, std::vector<float>> messages_;
  int64_t bytes_sent_ = 0;
};

std::vector<std::vector<float>> Values(int members, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(members * 1000 + count));
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<std::vector<float>> values(static_cast<size_t>(members));
  for (auto& own : values) {
    for (int64_t i = 0; i < count; ++i) own.push_back(distribution(random));
  }
  return values;
}

// What every member's output has to be, in exact arithmetic (to rounding).
std::vector<double> Expected(const Problem& p, const std::vector<std::vector<float>>& values,
                             int rank) {
  std::vector<double> result;
  const auto reduced = [&](size_t i) {
    double sum = 0;
    for (const auto& own : values) sum += own[i];
    return p.reduction == Reduction::kMean ? sum / p.size : sum;
  };
  switch (p.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      if (p.kind == Kind::kReduce && rank != p.root) return {};
      for (int64_t i = 0; i < p.count; ++i) result.push_back(reduced(static_cast<size_t>(i)));
      return result;
    case Kind::kReduceScatter:
      for (int64_t i = 0; i < p.counts[static_cast<size_t>(rank)]; ++i) {
        result.push_back(reduced(static_cast<size_t>(p.Begin(rank) + i)));
      }
      return result;
    case Kind::kAllGather:
      for (const auto& own : values) result.insert(result.end(), own.begin(), own.end());
      return result;
    case Kind::kBroadcast: {
      const auto& root = values[static_cast<size_t>(p.root)];
      return {root.begin(), root.end()};
    }
    case Kind::kAllToAll:
      for (int from = 0; from < p.size; ++from) {
        int64_t begin = 0;
        for (int to = 0; to < rank; ++to)
          begin += p.counts[static_cast<size_t>(from * p.size + to)];
        const auto& theirs = values[static_cast<size_t>(from)];
        for (int64_t i = 0; i < p.counts[static_cast<size_t>(from * p.size + rank)]; ++i) {
          result.push_back(theirs[static_cast<size_t>(begin + i)]);
        }
      }
      return result;
    case Kind::kBarrier:
      return {};
  }
  return {};
}

void CheckAll(Problem p, const std::vector<std::vector<float>>& values, size_t output_size) {
  for (const Algorithm* algorithm : Algorithms()) {
    if (!algorithm->solves(p)) continue;
    SCOPED_TRACE(absl::StrCat(algorithm->name, " ", KindName(p.kind), ", ", p.size, " members, ",
                              p.count, " values, root ", p.root, p.in_place ? ", in place" : ""));
    std::vector<std::vector<float>> first;
    for (unsigned seed = 0; seed < 4; ++seed) {
      Simulator simulator(*algorithm, p, values, output_size);
      ASSERT_TRUE(simulator.Run(seed, /*is_synchronous=*/seed % 2 == 1)) << "stuck";
      for (int rank = 0; rank < p.size; ++rank) {
        const std::vector<double> expected = Expected(p, values, rank);
        const std::vector<float>& got = simulator.output(rank);
        ASSERT_GE(got.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 1e-5) << "member " << rank << ", value " << i;
        }
        if (p.kind == Kind::kAllReduce) {
          ASSERT_EQ(got, simulator.output(0)) << "members differ in bits";
        }
        if (p.kind == Kind::kReduce && rank != p.root) continue;
        if (seed == 0) {
          first.push_back(got);
        } else if (p.kind != Kind::kReduce) {
          ASSERT_EQ(got, first[static_cast<size_t>(rank)]) << "bits depend on the order";
        }
      }
    }
  }
}

TEST(Schedules, AllReduceReduceAndBroadcast) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast}) {
    for (int size = 2; size <= 9; ++size) {
      for (const int64_t count : {0, 1, 7, 300}) {
        for (const bool in_place : {false, true}) {
          Problem p;
          p.kind = kind;
          p.size = size;
          p.count = count;
          p.in_place = in_place;
          p.root = size / 2;
          p.piece = 20;
          p.reduction = count % 2 == 0 ? Reduction::kMean : Reduction::kSum;
          for (int i = 0; i < size; ++i) p.hosts.push_back(i % 3);
          CheckAll(p, Values(size, count), static_cast<size_t>(count));
        }
      }
    }
  }
}

TEST(Schedules, OperationsOfUnevenShares) {
  for (int size = 2; size <= 6; ++size) {
    Problem p;
    p.size = size;
    p.piece = 20;
    for (int i = 0; i < size; ++i) p.counts.push_back(i == 1 ? 0 : 17 * i + 3);
    const int64_t total = p.Begin(size);
    p.kind = Kind::kReduceScatter;
    CheckAll(p, Values(size, total), static_cast<size_t>(total));
    p.kind = Kind::kAllGather;
    std::vector<std::vector<float>> shares;
    for (int i = 0; i < size; ++i) {
      shares.push_back(Values(1, p.counts[static_cast<size_t>(i)])[0]);
    }
    CheckAll(p, shares, static_cast<size_t>(total));
    p.kind = Kind::kAllToAll;
    p.counts.clear();
    for (int i = 0; i < size * size; ++i) p.counts.push_back(i % 5);
    CheckAll(p, Values(size, 5 * size), static_cast<size_t>(5 * size));
  }
}

TEST(Schedules, ABarrierHearsOfAll) {
  for (int size = 2; size <= 9; ++size) {
    Problem p;
    p.kind = Kind::kBarrier;
    p.size = size;
    CheckAll(p, std::vector<std::vector<float>>(static_cast<size_t>(size)), 0);
  }
}

// The promise of deterministic mode: the bits of one member with all virtual replicas.
TEST(Schedules, TheFixedTreeGivesTheSameBitsForAnyNumberOfMembers) {
  const Algorithm* const algorithm = FindAlgorithm("fixed_tree");
  ASSERT_NE(algorithm, nullptr);
  for (const int replicas : {1, 2, 5, 8, 12}) {
    for (const int64_t count : {1, 40}) {
      const std::vector<std::vector<float>> of_replica = Values(replicas, count);
      std::vector<Tensor> tensors;
      std::vector<const Tensor*> pointers;
      for (const auto& values : of_replica) {
        tensors.push_back(Tensor::Vector<float>(absl::MakeConstSpan(values)));
      }
      for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
      const Tensor expected = *ReduceAlongTree(Reduction::kMean, pointers);
      for (int size = 1; size <= replicas; ++size) {
        Problem p;
        p.size = size;
        p.count = count;
        p.reduction = Reduction::kMean;
        std::vector<std::vector<float>> inputs(static_cast<size_t>(size));
        for (int rank = 0; rank <= size; ++rank) {
          p.replicas.push_back(rank * replicas / size);
          if (rank == 0) continue;
          for (int v = p.replicas[static_cast<size_t>(rank) - 1]; v < p.replicas.back(); ++v) {
            auto& input = inputs[static_cast<size_t>(rank) - 1];
            const auto& values = of_replica[static_cast<size_t>(v)];
            input.insert(input.end(), values.begin(), values.end());
          }
        }
        Simulator simulator(*algorithm, p, inputs, static_cast<size_t>(count));
        ASSERT_TRUE(simulator.Run(1, true));
        for (int rank = 0; rank < size; ++rank) {
          for (int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(simulator.output(rank)[static_cast<size_t>(i)],
                      expected.Elements<float>()[static_cast<size_t>(i)])
                << replicas << " replicas, " << size << " members";
          }
        }
      }
    }
  }
}

TEST(Schedules, ARingSendsNoMoreThanItsCostSays) {
  for (const char* const name : {"ring", "halving_doubling"}) {
    Problem p;
    p.size = 4;
    p.count = 4096;
    Simulator simulator(*FindAlgorithm(name), p, Values(4, 4096), 4096);
    ASSERT_TRUE(simulator.Run(1));
    // 2 (n - 1) / n b by each of n.
    EXPECT_EQ(simulator.bytes_sent(), 4 * 2 * 3 * 4096 * 4 / 4) << name;
  }
}

TEST(Schedules, StepsOfDifferentPiecesDoNotWaitForEachOther) {
  ScheduleBuilder b(false);
  b.ReceiveReduce(1, Input(0, 10), Output(0, 10), true);
  b.ReceiveReduce(1, Input(10, 10), Output(10, 10), true);
  b.Send(2, Output(10, 10));
  b.Receive(2, Output(5, 10));
  const Schedule schedule = std::move(b).Build();
  EXPECT_EQ(schedule.steps[0].waits_for, 0);
  EXPECT_EQ(schedule.steps[1].waits_for, 0);
  EXPECT_EQ(schedule.steps[2].waits_for, 1);
  EXPECT_EQ(schedule.steps[1].next, (std::vector<int>{2, 3}));
  // After both that wrote there, and after what was sent from there.
  EXPECT_EQ(schedule.steps[3].waits_for, 3);
}

TEST(Schedules, SplitCoversEverythingOnce) {
  for (const int64_t count : {0, 1, 5, 16, 100, 1000}) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range range = Split(count, parts, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count, 0);
        next = range.begin + range.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace tandem::collective
