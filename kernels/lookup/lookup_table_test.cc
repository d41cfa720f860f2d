#include "kernels/lookup/lookup_table.h"

#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::lookup {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = LookupTable::Kind;

Tensor Words(std::initializer_list<std::string> words) {
  return Tensor::Vector<std::string>(words);
}
Tensor Longs(std::initializer_list<int64_t> values) { return Tensor::Vector<int64_t>(values); }

RefPtr<LookupTable> Make(Kind kind, DataType key = kString, DataType value = kInt64,
                         Shape value_shape = {}) {
  return MakeRef<LookupTable>(LookupTable::Type{kind, key, value, std::move(value_shape)});
}

absl::StatusOr<Tensor> Find(const LookupTable& table, const Tensor& keys, const Tensor& defaults) {
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, table.ValuesShape(keys, defaults));
  Tensor values(table.type().value, shape);
  TANDEM_RETURN_IF_ERROR(table.Find(keys, defaults, &values));
  return values;
}

TEST(StaticTable, IsFilledOnce) {
  const auto table = Make(Kind::kStatic);
  EXPECT_EQ(table->size(), 0);
  const Tensor none = Tensor::Scalar<int64_t>(-1);
  EXPECT_EQ(Find(*table, Words({"a"}), none).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table->Export().status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(table->Initialize(Words({"a", "b"}), Longs({1, 2})).ok());
  EXPECT_EQ(table->size(), 2);
  EXPECT_THAT(Find(*table, Words({"b", "c", "a"}), none)->Elements<int64_t>(),
              ElementsAre(2, -1, 1));
  // Another session's initializer.
  EXPECT_TRUE(table->Initialize(Words({"a", "b"}), Longs({1, 2})).ok());
  EXPECT_EQ(table->Initialize(Words({"a"}), Longs({1})).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table->Insert(Words({"c"}), Longs({3})).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(table->Remove(Words({"a"})).code(), absl::StatusCode::kUnimplemented);
}

TEST(StaticTable, StaysEmptyAfterAnInitializerThatContradictsItself) {
  const auto table = Make(Kind::kStatic);
  const absl::Status status = table->Initialize(Words({"a", "b", "a"}), Longs({1, 2, 3}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("\"a\""));
  EXPECT_EQ(table->size(), 0);
  EXPECT_TRUE(table->Initialize(Words({"a", "b", "a"}), Longs({1, 2, 1})).ok());
  EXPECT_EQ(table->size(), 2);
}

TEST(MutableTable, TakesTheLastValueOfAKey) {
  const auto table = Make(Kind::kMutable, kInt64, kString);
  ASSERT_TRUE(table->Insert(Longs({1, 2, 1}), Words({"x", "y", "z"})).ok());
  EXPECT_THAT(Find(*table, Longs({1, 2, 3}), Words({"?", "!", "-"}))->Elements<std::string>(),
              ElementsAre("z", "y", "-"));
}

TEST(MutableTable, ExportsInTheOrderInWhichKeysCame) {
  const auto table = Make(Kind::kMutable, kString, kInt64);
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(table->Insert(Words({absl::StrCat("key ", i)}), Longs({i})).ok());
  }
  ASSERT_TRUE(table->Remove(Words({"key 3", "key 98", "none"})).ok());
  ASSERT_TRUE(table->Insert(Words({"new"}), Longs({1000})).ok());
  const auto contents = table->Export();
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->keys.num_elements(), 99);
  for (size_t i = 0; i < 97; ++i) {
    const std::string& key = contents->keys.Elements<std::string>()[i];
    const int64_t value = contents->values.Elements<int64_t>()[i];
    EXPECT_EQ(key, absl::StrCat("key ", value));
    EXPECT_EQ(value, static_cast<int64_t>(i < 3 ? i : i + 1));
  }
  // It took the place of the one that was removed last.
  EXPECT_EQ(contents->keys.Elements<std::string>()[97], "new");
  EXPECT_EQ(contents->keys.Elements<std::string>()[98], "key 99");
}

TEST(MutableTable, HoldsRows) {
  const auto table = Make(Kind::kMutable, kInt32, kFloat32, {2});
  const Tensor keys = Tensor::FromValues<int32_t>({1, 2}, {5, 6});
  ASSERT_TRUE(table->Insert(keys, Tensor::FromValues<float>({1, 2, 2}, {1, 2, 3, 4})).ok());
  const auto found = Find(*table, Tensor::Vector<int32_t>({6, 7}), Tensor::Vector<float>({8, 9}));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->shape(), Shape({2, 2}));
  EXPECT_THAT(found->Elements<float>(), ElementsAre(3, 4, 8, 9));
  EXPECT_EQ(Find(*table, keys, Tensor::Scalar<float>(0)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MutableTable, LetsGoOfWhatIsRemoved) {
  class Value final : public VariantValue {
   public:
    absl::string_view TypeName() const override { return "test"; }
    std::string DebugString() const override { return "test"; }
  };
  const auto held = MakeRef<Value>();
  const auto table = Make(Kind::kMutable, kInt64, kVariant);
  ASSERT_TRUE(table->Insert(Longs({1}), Tensor::Vector<Variant>({Variant(held)})).ok());
  EXPECT_FALSE(held->RefCountIsOne());
  ASSERT_TRUE(table->Remove(Longs({1})).ok());
  EXPECT_TRUE(held->RefCountIsOne());
}

TEST(MutableTable, RefusesOtherTypesAndShapes) {
  const auto table = Make(Kind::kMutable);
  for (const absl::Status& status :
       {table->Insert(Longs({1}), Longs({1})), table->Insert(Words({"a"}), Words({"a"})),
        table->Insert(Words({"a", "b"}), Longs({1})), table->Import(Words({"a"}), Longs({})),
        table->Remove(Longs({1})), table->Initialize(Words({"a"}), Longs({1}))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("mutable table string -> int64"));
  }
  EXPECT_EQ(table->size(), 0);
}

// For the thread sanitizer, and: a reader sees whole inserts only.
TEST(MutableTable, MayBeUsedByManyThreads) {
  const auto table = Make(Kind::kMutable, kInt64, kInt64);
  std::vector<std::thread> threads;
  for (int64_t value = 1; value <= 3; ++value) {
    threads.emplace_back([&table, value] {
      for (int i = 0; i < 300; ++i) {
        EXPECT_TRUE(table->Insert(Longs({1, 2, 3}), Longs({value, value, value})).ok());
        const auto found = Find(*table, Longs({1, 2, 3}), Tensor::Scalar<int64_t>(0));
        ASSERT_TRUE(found.ok()) << found.status();
        const auto values = found->Elements<int64_t>();
        EXPECT_THAT(values, Each(values[0]));
        EXPECT_TRUE(table->Export().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table->size(), 3);
}

}  // namespace
}  // namespace tandem::lookup
