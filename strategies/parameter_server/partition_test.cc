#include "strategies/parameter_server/partition.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "strategies/parameter_server/placement.h"

namespace tandem::parameter_server {
namespace {

constexpr int64_t kColumns = 3;

// Element i is i.
Tensor Counted(int64_t rows) {
  Tensor tensor(kFloat32, Shape({rows, kColumns}));
  float next = 0;
  for (float& value : tensor.MutableElements<float>()) value = next++;
  return tensor;
}

std::vector<Tensor> Evaluate(const Scope& scope, const std::vector<Output>& outputs) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  if (!scope.ok()) return {};
  std::vector<std::string> fetches;
  for (const Output& output : outputs) fetches.push_back(output.name());
  auto session = Session::Create(*scope.graph());
  EXPECT_TRUE(session.ok()) << session.status();
  auto values = (*session)->Run({}, fetches);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *std::move(values) : std::vector<Tensor>(outputs.size());
}

struct Case {
  int64_t rows;
  int parts;
  bool spread;
};

class Partitions : public ::testing::TestWithParam<Case> {
 protected:
  const Partition& partition() const { return partition_; }

 private:
  const Partition partition_{GetParam().rows, GetParam().parts, GetParam().spread};
};

TEST_P(Partitions, EachRowIsInOnePart) {
  std::vector<int> seen(static_cast<size_t>(GetParam().rows), 0);
  int64_t least = GetParam().rows;
  int64_t most = 0;
  for (const Partition::Part& part : partition().parts()) {
    for (int64_t i = 0; i < part.rows; ++i) {
      const int64_t row = part.first + i * part.stride;
      ASSERT_LT(row, GetParam().rows);
      ++seen[static_cast<size_t>(row)];
    }
    least = std::min(least, part.rows);
    most = std::max(most, part.rows);
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
  EXPECT_LE(most - least, 1);
}

TEST_P(Partitions, PartsJoinToTheWhole) {
  const Scope scope = Scope::NewRoot();
  const Tensor whole = Counted(GetParam().rows);
  const Output value = scope.Constant(whole);
  const std::vector<Output> parts = partition().Split(scope, value);
  std::vector<Output> slices;
  for (int p = 0; p < GetParam().parts; ++p) slices.push_back(partition().Slice(scope, value, p));
  std::vector<Output> fetched = {partition().Join(scope, parts), partition().Join(scope, slices)};
  fetched.insert(fetched.end(), parts.begin(), parts.end());
  const std::vector<Tensor> values = Evaluate(scope, fetched);
  ASSERT_EQ(values.size(), fetched.size());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(values[static_cast<size_t>(i)].shape(), whole.shape());
    EXPECT_TRUE(std::equal(whole.Elements<float>().begin(), whole.Elements<float>().end(),
                           values[static_cast<size_t>(i)].Elements<float>().begin()));
  }
  for (size_t p = 0; p < partition().parts().size(); ++p) {
    const Partition::Part& part = partition().parts()[p];
    ASSERT_EQ(values[2 + p].shape(), Shape({part.rows, kColumns}));
    for (int64_t i = 0; i < part.rows; ++i) {
      EXPECT_EQ(values[2 + p].Elements<float>()[static_cast<size_t>(i * kColumns)],
                static_cast<float>((part.first + i * part.stride) * kColumns));
    }
  }
}

TEST_P(Partitions, IdsGoWhereTheirRowsAre) {
  if (GetParam().parts == 1) return;
  const int64_t rows = GetParam().rows;
  for (const DataType dtype : {kInt32, kInt64}) {
    // All rows backwards, some twice, and numbers that are none.
    std::vector<int64_t> ids;
    for (int64_t i = rows; i-- > 0;) ids.push_back(i);
    ids.push_back(0);
    ids.push_back(rows - 1);
    const size_t valid = ids.size();
    for (const int64_t bad : {int64_t{-1}, rows, rows + 1, 3 * rows, -5 * rows}) ids.push_back(bad);
    const Scope scope = Scope::NewRoot();
    const Output given =
        dtype == kInt64
            ? scope.Constant(Tensor::Vector<int64_t>(ids))
            : scope.Constant(Tensor::Vector<int32_t>(std::vector<int32_t>(ids.begin(), ids.end())));
    const Partition::Route route = partition().Divide(scope, given);
    std::vector<Output> fetched = route.ids;
    fetched.insert(fetched.end(), route.positions.begin(), route.positions.end());
    const std::vector<Tensor> values = Evaluate(scope, fetched);
    ASSERT_EQ(values.size(), 2 * partition().parts().size());
    std::vector<int> seen(ids.size(), 0);
    for (size_t p = 0; p < partition().parts().size(); ++p) {
      const Partition::Part& part = partition().parts()[p];
      const Tensor& local = values[p];
      const Tensor& positions = values[partition().parts().size() + p];
      ASSERT_EQ(local.dtype(), dtype);
      ASSERT_EQ(local.num_elements(), positions.num_elements());
      int32_t before = -1;
      for (size_t i = 0; i < static_cast<size_t>(local.num_elements()); ++i) {
        const int32_t position = positions.Elements<int32_t>()[i];
        const int64_t id =
            dtype == kInt64 ? local.Elements<int64_t>()[i] : local.Elements<int32_t>()[i];
        EXPECT_GT(position, before);  // The order stays.
        before = position;
        ++seen[static_cast<size_t>(position)];
        const bool is_row = id >= 0 && id < part.rows;
        EXPECT_EQ(is_row, static_cast<size_t>(position) < valid);
        if (!is_row) continue;
        EXPECT_EQ(part.first + id * part.stride, ids[static_cast<size_t>(position)]);
      }
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
}

TEST_P(Partitions, RowsOfSparseGradientsGoWithTheirIds) {
  const Scope scope = Scope::NewRoot();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < GetParam().rows; i += 2) ids.push_back(GetParam().rows - 1 - i);
  const int64_t count = static_cast<int64_t>(ids.size());
  const Gradient gradient(scope.Constant(Counted(count)),
                          scope.Constant(Tensor::Vector<int64_t>(ids)),
                          scope.Constant(Tensor::Vector<int64_t>({GetParam().rows, kColumns})));
  const std::vector<Gradient> parts = partition().SplitSparse(scope, gradient);
  ASSERT_EQ(parts.size(), partition().parts().size());
  std::vector<Output> fetched;
  for (const Gradient& part : parts) {
    fetched.push_back(part.values);
    fetched.push_back(part.indices);
  }
  const std::vector<Tensor> values = Evaluate(scope, fetched);
  ASSERT_EQ(values.size(), fetched.size());
  int64_t total = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Partition::Part& part = partition().parts()[p];
    const Tensor& rows = values[2 * p];
    const Tensor& indices = values[2 * p + 1];
    ASSERT_EQ(rows.shape(), Shape({indices.num_elements(), kColumns}));
    for (size_t i = 0; i < static_cast<size_t>(indices.num_elements()); ++i) {
      const int64_t row = part.first + indices.Elements<int64_t>()[i] * part.stride;
      const int64_t place = std::find(ids.begin(), ids.end(), row) - ids.begin();
      ASSERT_LT(place, count);
      EXPECT_EQ(rows.Elements<float>()[i * kColumns], static_cast<float>(place * kColumns));
    }
    total += indices.num_elements();
  }
  EXPECT_EQ(total, count);
}

INSTANTIATE_TEST_SUITE_P(All, Partitions,
                         ::testing::Values(Case{5, 1, false}, Case{1, 1, true}, Case{6, 3, false},
                                           Case{7, 3, false}, Case{8, 3, false}, Case{3, 3, false},
                                           Case{6, 3, true}, Case{7, 3, true}, Case{8, 3, true},
                                           Case{3, 3, true}, Case{64, 7, false},
                                           Case{64, 7, true}));

TEST(NumParts, FollowsTheSizes) {
  PartitionOptions options;
  options.min_part_bytes = 1000;
  options.most_parts = 4;
  const auto parts = [&](const Shape& shape) { return NumParts(options, kFloat32, shape); };
  EXPECT_EQ(parts(Shape({100, 4})), 1);  // 1600 bytes make no two parts of 1000.
  EXPECT_EQ(parts(Shape({100, 5})), 2);
  EXPECT_EQ(parts(Shape({100, 10})), 4);
  EXPECT_EQ(parts(Shape({100, 1000})), 4);  // At most.
  EXPECT_EQ(parts(Shape({3, 10000})), 3);   // A part has a row.
  EXPECT_EQ(parts(Shape({})), 1);
  EXPECT_EQ(parts(Shape({0, 10})), 1);
  options.max_part_bytes = 2000;
  EXPECT_EQ(parts(Shape({100, 1000})), 100);  // A row alone has more.
  EXPECT_EQ(parts(Shape({1000, 10})), 20);    // 50 rows a part.
  EXPECT_EQ(parts(Shape({100, 10})), 4);
  options.min_part_bytes = 0;
  options.max_part_bytes = 0;
  EXPECT_EQ(parts(Shape({100, 1})), 4);
  EXPECT_EQ(parts(Shape({2})), 2);
  options.min_part_bytes = -1;
  options.max_part_bytes = 10;
  EXPECT_EQ(parts(Shape({100, 1000})), 1);
}

TEST(Placement, OneAfterTheOtherOrWhereTheFewestBytesAre) {
  Placement turns(3, /*by_bytes=*/false);
  for (const int expected : {0, 1, 2, 0, 1}) EXPECT_EQ(turns.Place(1000 * expected), expected);
  EXPECT_EQ(turns.bytes_of(1), 2000);

  Placement fewest(3, /*by_bytes=*/true);
  EXPECT_EQ(fewest.Place(100), 0);
  EXPECT_EQ(fewest.Place(10), 1);
  EXPECT_EQ(fewest.Place(10), 2);
  EXPECT_EQ(fewest.Place(50), 1);  // Of equals the first.
  EXPECT_EQ(fewest.Place(10), 2);
  fewest.AddTo(2, 1000);
  EXPECT_EQ(fewest.Place(1), 1);
  EXPECT_EQ(fewest.bytes_of(2), 1020);
}

}  // namespace
}  // namespace tandem::parameter_server
