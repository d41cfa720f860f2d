#include "runtime/rendezvous/step_table.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(StepTable, WhoeverComesFirstBeginsTheStep) {
  StepTable table;
  const auto first = table.FindOrBegin(7);
  const auto second = table.FindOrBegin(7);
  const auto other = table.FindOrBegin(8);
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(table.size(), 2u);
}

TEST(StepTable, AStepThatEndedDoesNotBeginAgain) {
  StepTable table;
  const auto rendezvous = table.FindOrBegin(7);
  ASSERT_TRUE(rendezvous.ok());
  absl::Status answer;
  (*rendezvous)->Receive("a", nullptr, [&](absl::StatusOr<Rendezvous::Entry> entry) {
    answer = entry.status();
  });
  table.End(7, absl::UnavailableError("a worker is gone"));
  EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.FindOrBegin(7).status().code(), absl::StatusCode::kAborted);
  // Also one that never was here.
  table.End(9, absl::CancelledError("done"));
  EXPECT_EQ(table.FindOrBegin(9).status().code(), absl::StatusCode::kAborted);
}

TEST(StepTable, RemembersOnlySoManyEnds) {
  StepTable table;
  for (int64_t step = 0; step <= static_cast<int64_t>(StepTable::kRemembered); ++step) {
    table.End(step, absl::CancelledError("done"));
  }
  EXPECT_TRUE(table.FindOrBegin(0).ok());
  EXPECT_FALSE(table.FindOrBegin(1).ok());
}

TEST(StepTable, OfTooManyStepsTheOldestIsEnded) {
  StepTable table(/*most_steps=*/2);
  const auto oldest = table.FindOrBegin(5);
  ASSERT_TRUE(oldest.ok());
  absl::Status answer;
  (*oldest)->Receive("a", nullptr,
                     [&](absl::StatusOr<Rendezvous::Entry> entry) { answer = entry.status(); });
  ASSERT_TRUE(table.FindOrBegin(3).ok());
  ASSERT_TRUE(table.FindOrBegin(5).ok());
  EXPECT_TRUE(answer.ok());
  ASSERT_TRUE(table.FindOrBegin(4).ok());
  EXPECT_EQ(answer.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table.FindOrBegin(5).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table.size(), 2u);
}

}  // namespace
}  // namespace tandem
