#include "core/op/attr_value.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(AttrValueKey, TellsLongTensorsApart) {
  std::vector<float> values(10000, 1.f);
  const Tensor a = Tensor::Vector<float>(values);
  values[5000] = 2.f;
  const Tensor b = Tensor::Vector<float>(values);
  EXPECT_NE(AttrValue(a).Key(), AttrValue(b).Key());
  EXPECT_EQ(AttrValue(b).Key(), AttrValue(Tensor::Vector<float>(values)).Key());
}

TEST(AttrValueKey, TellsKindsTypesAndShapesApart) {
  const std::vector<AttrValue> all = {
      AttrValue(),
      AttrValue(1),
      AttrValue(true),
      AttrValue(1.0f),
      AttrValue("1"),
      AttrValue("$1"),
      AttrValue(AttrValue::Placeholder{"1"}),
      AttrValue(AttrValue::EmptyList()),
      AttrValue(std::vector<int64_t>{}),
      AttrValue(std::vector<int64_t>{1}),
      AttrValue(std::vector<bool>{true}),
      AttrValue(DataType::kFloat32),
      AttrValue(Tensor::Scalar<int32_t>(1)),
      AttrValue(Tensor::Scalar<int64_t>(1)),
      AttrValue(Tensor::Vector<int32_t>({1})),
      AttrValue(PartialShape({1})),
      AttrValue(PartialShape::Unknown()),
      AttrValue(FunctionRef{"1", {}}),
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      EXPECT_EQ(all[i].Key() == all[j].Key(), i == j)
          << all[i].DebugString() << " and " << all[j].DebugString();
    }
  }
}

TEST(AttrValueKey, PartsDoNotRunIntoEachOther) {
  const auto strings = [](std::vector<std::string> list) {
    return AttrValue(std::move(list)).Key();
  };
  EXPECT_NE(strings({"ab", "c"}), strings({"a", "bc"}));
  EXPECT_NE(strings({"1:a"}), strings({"", "a"}));
  const auto function = [](std::string name, AttrMap attrs) {
    return AttrValue(FunctionRef{std::move(name), std::move(attrs)}).Key();
  };
  EXPECT_NE(function("f", {{"a", "x"}, {"b", "y"}}), function("f", {{"a", "x[b=y]"}}));
  EXPECT_NE(function("f", {{"a", 1}}), function("f[a=1]", {}));
  EXPECT_EQ(function("f", {{"a", 1}, {"b", "y"}}), function("f", {{"b", "y"}, {"a", 1}}));
}

}  // namespace
}  // namespace tandem
