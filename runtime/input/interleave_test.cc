#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// n to n, n: n times.
const bool registered =
    RegisterDatasetFunction("interleave_test_n_times", [](const Element& element) {
      const int64_t n = element[0].ScalarValue<int64_t>();
      return absl::StatusOr<Dataset>(Dataset::Range(n, n + 1).Repeat(n));
    });

const bool six_registered =
    RegisterDatasetFunction("interleave_test_six_times", [](const Element& element) {
      const int64_t n = element[0].ScalarValue<int64_t>();
      return absl::StatusOr<Dataset>(Dataset::Range(n, n + 1).Repeat(6));
    });

const bool failing_registered = RegisterDatasetFunction(
    "interleave_test_fail_at_2", [](const Element& element) -> absl::StatusOr<Dataset> {
      const int64_t n = element[0].ScalarValue<int64_t>();
      if (n == 2) return errors::NotFound("no file 2");
      return Dataset::Range(n);
    });

TEST(InterleaveTest, TheOrderIsTensorFlows) {
  // What tf.data.Dataset.range(1, 6).interleave gives for these repeats, cycle and block lengths.
  EXPECT_THAT(
      Ints(Dataset::Range(1, 6).Interleave("interleave_test_six_times", {.cycle = 2, .block = 4})),
      ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5,
                  5, 5, 5));
}

TEST(InterleaveTest, DataSetsOfDifferentLengthsTakeTurns) {
  const Dataset range = Dataset::Range(1, 5);
  EXPECT_THAT(Ints(range.Interleave("interleave_test_n_times", {.cycle = 1})),
              ElementsAre(1, 2, 2, 3, 3, 3, 4, 4, 4, 4));
  EXPECT_THAT(Ints(range.Interleave("interleave_test_n_times", {.cycle = 2, .block = 1})),
              ElementsAre(1, 2, 2, 3, 3, 4, 3, 4, 4, 4));
  EXPECT_THAT(Ints(range.Interleave("interleave_test_n_times", {.cycle = 2, .block = 2})),
              ElementsAre(1, 2, 2, 3, 3, 3, 4, 4, 4, 4));
  EXPECT_THAT(Ints(range.Interleave("interleave_test_n_times", {.cycle = 9, .block = 3})),
              ElementsAre(1, 2, 2, 3, 3, 3, 4, 4, 4, 4));
}

TEST(InterleaveTest, EveryPositionCanBeRestored) {
  for (const int64_t cycle : {1, 2, 3, 9}) {
    ExpectSameAfterRestoreEverywhere(
        Dataset::Range(1, 6).Interleave("interleave_test_n_times", {.cycle = cycle, .block = 2}));
  }
}

TEST(InterleaveTest, AnErrorHasTheElementsIndex) {
  const absl::Status status = FirstError(Dataset::Range(4).Interleave("interleave_test_fail_at_2"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "Interleave 'interleave_test_fail_at_2': element 2: no file 2");
}

TEST(InterleaveTest, ImpossibleSettingsAreRefused) {
  for (const InterleaveOptions& options :
       {InterleaveOptions{.cycle = 0}, InterleaveOptions{.block = 0}}) {
    const absl::Status status =
        OpenStatus(Dataset::Range(4).Interleave("interleave_test_n_times", options));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected both at least 1"));
  }
  EXPECT_THAT(std::string(OpenStatus(Dataset::Range(4).Interleave("interleave_test_x")).message()),
              HasSubstr("no function 'interleave_test_x'"));
}

}  // namespace
}  // namespace tandem::data
