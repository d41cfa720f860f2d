#include "core/op/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NearNames, ASlipOfThePenIsNear) {
  EXPECT_THAT(NearNames("matmul", {"MatMul", "Mul"}), ElementsAre("MatMul"));
  EXPECT_THAT(NearNames("Identitty", {"Identity", "IdentityN"}),
              ElementsAre("Identity", "IdentityN"));
  EXPECT_THAT(NearNames("AddV3", {"AddV2", "AddN", "Add"}), ElementsAre("AddV2"));
  EXPECT_THAT(NearNames("rnu", {"run", "ops"}), ElementsAre("run"));
  EXPECT_THAT(NearNames("fecth", {"fetch", "feed"}), ElementsAre("fetch"));
  EXPECT_THAT(NearNames("xx", {"x", "y"}), ElementsAre("x"));
}

TEST(NearNames, AnotherWordIsNotNear) {
  EXPECT_THAT(NearNames("Foo", {"Pow", "Mod", "Floor"}), IsEmpty());
  EXPECT_THAT(NearNames("StackV2", {"Pack", "Slice", "RangeV2"}), IsEmpty());
  EXPECT_THAT(NearNames("QueueEnqueueManyV2", {"QueueEnqueueV2", "QueueDequeueV2"}), IsEmpty());
  EXPECT_THAT(NearNames("y", {"x", "z"}), IsEmpty());
}

}  // namespace
}  // namespace tandem
