// Every operation, algorithm and type over every transport, with 1 to 5 members.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/collective/group_test_util.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {
namespace {

// Small whole numbers are exact in all types, in any order.
double ValueOf(int rank, int64_t i) { return static_cast<double>((rank * 3 + i * 5) % 4 + 1); }

template <typename T>
T Make(double value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}
template <typename T>
double Read(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

double Reduced(Reduction reduction, int size, int64_t i, DataType dtype) {
  double result = ValueOf(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double value = ValueOf(rank, i);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMean:
        result += value;
        break;
      case Reduction::kMin:
        result = std::min(result, value);
        break;
      case Reduction::kMax:
        result = std::max(result, value);
        break;
      case Reduction::kProduct:
        result *= value;
        break;
    }
  }
  if (reduction == Reduction::kMean) {
    result /= size;
    if (dtype == kInt32 || dtype == kInt64) result = std::trunc(result);
  }
  return result;
}

template <typename T>
void CheckMember(Group& group, int64_t count, int64_t step) {
  const int size = group.size();
  const int rank = group.rank();
  const DataType dtype = DataTypeOf<T>();
  const double tolerance = dtype == kBfloat16 ? 0.01 : dtype == kFloat16 ? 0.001 : 1e-6;
  int64_t instance = 0;
  std::vector<T> input;
  for (int64_t i = 0; i < count * size; ++i) input.push_back(Make<T>(ValueOf(rank, i)));
  std::vector<T> output(static_cast<size_t>(count * size), Make<T>(0));
  Request base;
  base.dtype = dtype;
  base.step = step;
  base.input = input.data();
  base.output = output.data();
  base.count = count;
  const auto run = [&](Kind kind, Reduction reduction = Reduction::kSum, int root = 0) {
    Request request = base;
    request.kind = kind;
    request.reduction = reduction;
    request.root = root;
    request.instance = instance++;
    request.name = KindName(kind);
    const absl::Status status = group.Run(request);
    ASSERT_TRUE(status.ok()) << status;
  };
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kMean, Reduction::kMin, Reduction::kMax, Reduction::kProduct}) {
    run(Kind::kAllReduce, reduction);
    for (int64_t i = 0; i < count; ++i) {
      const double expected = Reduced(reduction, size, i, dtype);
      ASSERT_NEAR(Read(output[static_cast<size_t>(i)]), expected, tolerance * expected)
          << ReductionName(reduction) << " of " << DataTypeName(dtype) << ", value " << i;
    }
  }
  const int root = size - 1;
  run(Kind::kReduce, Reduction::kSum, root);
  for (int64_t i = 0; rank == root && i < count; ++i) {
    ASSERT_EQ(Read(output[static_cast<size_t>(i)]), Reduced(Reduction::kSum, size, i, dtype));
  }
  run(Kind::kBroadcast, Reduction::kSum, root);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Read(output[static_cast<size_t>(i)]), ValueOf(root, i));
  }
  run(Kind::kReduceScatter, Reduction::kMax);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Read(output[static_cast<size_t>(i)]),
              Reduced(Reduction::kMax, size, rank * count + i, dtype));
  }
  run(Kind::kAllGather);
  for (int r = 0; r < size; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(Read(output[static_cast<size_t>(r * count + i)]), ValueOf(r, i));
    }
  }
  run(Kind::kAllToAll);
  for (int r = 0; r < size; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(Read(output[static_cast<size_t>(r * count + i)]), ValueOf(r, rank * count + i));
    }
  }
  run(Kind::kBarrier);
  // In place.
  std::vector<T> values(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(count));
  base.input = values.data();
  base.output = values.data();
  run(Kind::kAllReduce);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Read(values[static_cast<size_t>(i)]), Reduced(Reduction::kSum, size, i, dtype));
  }
}

struct Case {
  TransportKind transport;
  int size;
};

class GroupConformance : public ::testing::TestWithParam<Case> {};

TEST_P(GroupConformance, EveryOperationAlgorithmAndType) {
  std::vector<std::string> algorithms = {""};
  for (const Algorithm* algorithm : Algorithms()) algorithms.push_back(algorithm->name);
  for (const std::string& algorithm : algorithms) {
    SCOPED_TRACE(algorithm);
    GroupOptions options = TestOptions(GetParam().size, GetParam().transport);
    options.algorithm = algorithm;
    Groups groups = FormAll(options);
    OnAll(GetParam().size, [&](int rank) {
      Group& group = *groups[static_cast<size_t>(rank)];
      int64_t step = 0;
      CheckMember<double>(group, 1000, ++step);
      CheckMember<Float16>(group, 1000, ++step);
      CheckMember<Bfloat16>(group, 1000, ++step);
      CheckMember<int32_t>(group, 1000, ++step);
      CheckMember<int64_t>(group, 1000, ++step);
      CheckMember<float>(group, 1, ++step);
      CheckMember<float>(group, 100000, ++step);
      CheckMember<float>(group, 0, ++step);
    });
    EndAll(groups);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const TransportKind transport :
       {TransportKind::kInProcess, TransportKind::kSharedMemory, TransportKind::kTcp}) {
    for (int size = 1; size <= 5; ++size) cases.push_back({transport, size});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, GroupConformance, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(NameOf(info.param.transport), "_", info.param.size);
});

// Two hosts with two and three members: shared memory inside, TCP between.
TEST(GroupOverTwoHosts, UsesBothTransportsAndTheHierarchy) {
  Groups groups = FormAll(TestOptions(5, TransportKind::kAuto), [](GroupOptions& own) {
    own.host_id = own.rank < 2 ? "first" : "second";
  });
  EXPECT_EQ(groups[0]->TransportTo(1), "shared memory");
  EXPECT_EQ(groups[0]->TransportTo(2), "TCP");
  EXPECT_EQ(groups[0]->hosts(), (std::vector<int>{0, 0, 1, 1, 1}));
  Problem problem;
  problem.size = 5;
  problem.hosts = groups[0]->hosts();
  problem.count = 1 << 20;
  EXPECT_STREQ(groups[0]->choices().Choose(problem, 4 << 20)->name, "hierarchical");
  OnAll(5, [&](int rank) { CheckMember<float>(*groups[static_cast<size_t>(rank)], 50000, 1); });
  EndAll(groups);
}

}  // namespace
}  // namespace tandem::collective
