#include "core/base/status.h"

#include <memory>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

absl::Status FailIf(bool fail) {
  return fail ? errors::NotFound("no node '", "x", "' among ", 3) : absl::OkStatus();
}
absl::StatusOr<std::unique_ptr<int>> MakeInt(int value) {
  if (value < 0) return errors::OutOfRange(value, " is negative");
  return std::make_unique<int>(value);
}

absl::Status Returns(bool fail, bool* went_on) {
  TANDEM_RETURN_IF_ERROR(FailIf(fail));
  *went_on = true;
  return absl::OkStatus();
}
absl::StatusOr<int> Sum(int a, int b) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, MakeInt(a));
  std::unique_ptr<int> second;
  TANDEM_ASSIGN_OR_RETURN(second, MakeInt(b));
  return *first + *second;
}

TEST(Errors, JoinTheirArgumentsAndCarryTheirCode) {
  EXPECT_EQ(FailIf(true), absl::NotFoundError("no node 'x' among 3"));
  EXPECT_EQ(errors::DataLoss("a").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(errors::Unavailable("a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(errors::Aborted("a").code(), absl::StatusCode::kAborted);
}

TEST(ReturnIfError, LeavesTheFunctionOnAnErrorOnly) {
  bool went_on = false;
  EXPECT_EQ(Returns(true, &went_on).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(Returns(false, &went_on).ok());
  EXPECT_TRUE(went_on);
}

TEST(AssignOrReturn, MovesTheValueOrReturnsTheError) {
  EXPECT_EQ(Sum(1, 2).value(), 3);
  EXPECT_EQ(Sum(-1, 2).status(), absl::OutOfRangeError("-1 is negative"));
  EXPECT_EQ(Sum(1, -2).status(), absl::OutOfRangeError("-2 is negative"));
}

TEST(WithContext, PutsTheContextFirstAndKeepsCodeAndPayloads) {
  absl::Status status = errors::Aborted("peer left");
  status.SetPayload("url", absl::Cord("payload"));
  const absl::Status result = WithContext(status, "step 7");
  EXPECT_EQ(result.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(result.message(), "step 7: peer left");
  EXPECT_EQ(result.GetPayload("url"), absl::Cord("payload"));
  EXPECT_TRUE(WithContext(absl::OkStatus(), "step 7").ok());
}

}  // namespace
}  // namespace tandem
