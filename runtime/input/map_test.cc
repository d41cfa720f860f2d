#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"
#include "runtime/threads/run_tokens.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const bool square_registered = RegisterMapFunction(
    "map_test_square", [](const MapContext& context, Element element) -> absl::StatusOr<Element> {
      const int64_t n = element[0].ScalarValue<int64_t>();
      return Element{Tensor::Scalar<int64_t>(n * n + 1000 * context.index +
                                             1000000 * static_cast<int64_t>(context.iteration))};
    });

const bool multiples_registered = RegisterMapFunction(
    "map_test_no_multiple_of_5", [](const MapContext&, Element element) -> absl::StatusOr<Element> {
      const int64_t n = element[0].ScalarValue<int64_t>();
      if (n % 5 == 4) return errors::DataLoss("the image of ", n, " is torn");
      return element;
    });

const bool token_registered = RegisterMapFunction(
    "map_test_token", [](const MapContext&, Element) -> absl::StatusOr<Element> {
      return Element{Tensor::Scalar<int64_t>(ThisThreadHoldsRunToken())};
    });

// A function that waits until it is let go, so that a test can look at what waits for it.
struct Gate {
  Event entered;
  Event open;
};
std::atomic<Gate*> gate{nullptr};

const bool gate_registered = RegisterMapFunction(
    "map_test_gate", [](const MapContext&, Element element) -> absl::StatusOr<Element> {
      Gate* const g = gate.load();
      g->entered.Set();
      ScopedRunTokenRelease released;
      g->open.Wait();
      return element;
    });

const bool hungry_registered = RegisterMapFunction(
    "map_test_hungry", [](const MapContext&, Element element) -> absl::StatusOr<Element> {
      const int64_t n = element[0].ScalarValue<int64_t>();
      if (n % 5 == 3) throw std::bad_alloc();
      if (n % 5 == 4) throw std::length_error("a vector");
      return element;
    });

TEST(MapTest, AFunctionThatFindsNoMemoryFailsItsElement) {
  for (const int threads : {1, 2, 4}) {
    const auto iterator = Dataset::Range(10).Map("map_test_hungry", {.threads = threads}).Open();
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    for (int64_t n = 0; n < 10; ++n) {
      const auto element = (*iterator)->Next();
      if (n % 5 < 3) {
        ASSERT_TRUE(element.ok()) << element.status();
        EXPECT_EQ((**element)[0].ScalarValue<int64_t>(), n);
      } else {
        EXPECT_EQ(element.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(element.status().message()),
                    AllOf(HasSubstr("Map 'map_test_hungry': element " + std::to_string(n)),
                          HasSubstr("no memory")));
      }
    }
  }
}

TEST(MapTest, TheOrderIsTheInputsOnAnyNumberOfThreads) {
  const Dataset range = Dataset::Range(200).Shuffle(50, 3);
  const std::vector<std::string> expected = All(range.Map("map_test_square"), 2);
  EXPECT_EQ(expected.size(), 200u);
  for (const int threads : {0, 2, 3, 16}) {
    EXPECT_EQ(All(range.Map("map_test_square", {.threads = threads}), 2), expected);
  }
}

TEST(MapTest, TheFunctionKnowsIndexAndIteration) {
  EXPECT_THAT(Ints(Dataset::Range(5, 7).Map("map_test_square"), 3), ElementsAre(3000025, 3001036));
}

TEST(MapTest, AnErrorHasTheElementsIndexAndTheNextElementFollows) {
  for (const int threads : {1, 4}) {
    const auto iterator =
        Dataset::Range(3, 12).Map("map_test_no_multiple_of_5", {.threads = threads}).Open();
    ASSERT_TRUE(iterator.ok());
    EXPECT_EQ((**(*iterator)->Next())[0].ScalarValue<int64_t>(), 3);
    const absl::Status status = (*iterator)->Next().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status.message(),
              "Map 'map_test_no_multiple_of_5': element 1: the image of 4 is torn");
    EXPECT_EQ((**(*iterator)->Next())[0].ScalarValue<int64_t>(), 5);
    EXPECT_THAT(Rest(**iterator).back(), HasSubstr("element 6: the image of 9 is torn"));
  }
}

TEST(MapTest, AnErrorReachesTheEndOfThePipeline) {
  const absl::Status status = FirstError(Dataset::Range(12)
                                             .Map("map_test_no_multiple_of_5", {.threads = 2})
                                             .Shuffle(3, 1)
                                             .Batch(2)
                                             .Repeat(2)
                                             .Prefetch(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 4: the image of 4 is torn"));
}

TEST(MapTest, FunctionsRunWithARunToken) {
  for (const int threads : {1, 3}) {
    EXPECT_THAT(Ints(Dataset::Range(3).Map("map_test_token", {.threads = threads})),
                ElementsAre(1, 1, 1));
  }
}

TEST(MapTest, EveryPositionCanBeRestored) {
  for (const int threads : {1, 3}) {
    ExpectSameAfterRestoreEverywhere(
        Dataset::Range(20).Shuffle(5, 1).Map("map_test_square", {.threads = threads}));
  }
}

TEST(MapTest, AStateFitsAnotherNumberOfThreads) {
  const Dataset range = Dataset::Range(20);
  const std::vector<std::string> expected = All(range.Map("map_test_square"));
  for (const int from : {1, 4}) {
    const auto saved = range.Map("map_test_square", {.threads = from}).Open();
    const auto restored = range.Map("map_test_square", {.threads = 5 - from}).Open();
    ASSERT_TRUE(saved.ok() && restored.ok());
    for (int i = 0; i < 7; ++i) ASSERT_TRUE((*saved)->Next().ok());
    ASSERT_TRUE((*restored)->RestoreState(*(*saved)->SaveState()).ok());
    // A second time while what was restored is still held.
    ASSERT_TRUE((*restored)->RestoreState(*(*restored)->SaveState()).ok());
    EXPECT_EQ(Rest(**restored), std::vector<std::string>(expected.begin() + 7, expected.end()));
  }
}

TEST(MapTest, ANextThatWaitsForAFunctionCanBeCancelled) {
  Gate g;
  gate = &g;
  {
    const auto iterator = Dataset::Range(20).Map("map_test_gate", {.threads = 2}).Open();
    ASSERT_TRUE(iterator.ok());
    std::thread canceller([&] {
      g.entered.Wait();
      (*iterator)->Cancel();
    });
    EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
    canceller.join();
    g.open.Set();
  }
  gate = nullptr;
}

TEST(MapTest, AnUnknownFunctionIsRefusedWithTheNamesThatThereAre) {
  const absl::Status status = OpenStatus(Dataset::Range(2).Map("map_test_sqare"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no function 'map_test_sqare'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("map_test_square"));
  EXPECT_THAT(
      std::string(OpenStatus(Dataset::Range(2).Map("map_test_square", {.threads = -1})).message()),
      HasSubstr("threads is -1"));
}

TEST(MapTest, ANameIsRegisteredOnce) {
  EXPECT_TRUE(square_registered);
  EXPECT_FALSE(RegisterMapFunction("map_test_square", {}));
}

}  // namespace
}  // namespace tandem::data
