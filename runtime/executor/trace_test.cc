#include "runtime/executor/trace.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(StepTracer, KeepsEventsInOrderUntilTheyAreTaken) {
  StepTracer tracer;
  tracer.Record("a", "Add", "CPU:0", 1, 5);
  tracer.Record("b", "Mul", "CPU:1", 2, 6);
  const std::vector<StepTracer::Event> events = tracer.Take();
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[0].node, "a");
  EXPECT_EQ(events[1].op, "Mul");
  EXPECT_EQ(events[1].device, "CPU:1");
  EXPECT_EQ(events[1].start_nanoseconds, 2);
  EXPECT_EQ(events[1].end_nanoseconds, 6);
  EXPECT_TRUE(tracer.Take().empty());
}

TEST(StepTracer, AStepThatLoopsForEverFillsNoMemory) {
  constexpr size_t kKept = size_t{1} << 18;
  StepTracer tracer;
  for (size_t i = 0; i < kKept + 1000; ++i) {
    tracer.Record("n", "NoOp", "", static_cast<int64_t>(i), static_cast<int64_t>(i));
  }
  const std::vector<StepTracer::Event> events = tracer.Take();
  ASSERT_EQ(events.size(), kKept);
  EXPECT_EQ(events.front().start_nanoseconds, 0) << "the first are kept";
}

}  // namespace
}  // namespace tandem
