// ParseExamples and ParseSequenceExamples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/io/example.h"
#include "core/io/testing/mutations.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Example i: f = [i, i + 0.5], n = i numbers 0, 1, …, s = "s<i>" when i is even.
std::string Serialized(int i) {
  tensorflow::Example example;
  SetFeature("f", FloatFeature({static_cast<float>(i), static_cast<float>(i) + 0.5f}), &example);
  std::vector<int64_t> numbers;
  for (int k = 0; k < i; ++k) numbers.push_back(k);
  SetFeature("n", Int64Feature(numbers), &example);
  if (i % 2 == 0) SetFeature("s", BytesFeature({absl::StrCat("s", i)}), &example);
  return *SerializeExample(example);
}

Dataset Examples(int count) {
  std::vector<std::string> serialized;
  for (int i = 0; i < count; ++i) serialized.push_back(Serialized(i));
  return Dataset::FromTensors({Tensor::Vector<std::string>(absl::MakeConstSpan(serialized))});
}

std::vector<FeatureSpec> Dense() {
  return {FeatureSpec::Fixed("s", kString, {}, Tensor::Scalar<std::string>("none")),
          FeatureSpec::Fixed("f", kFloat32, {2})};
}

TEST(ParseExamplesTest, SingleExamples) {
  EXPECT_THAT(All(Examples(2).ParseExamples(Dense())),
              ElementsAre("string[] = \"s0\"; float32[2] = 0 0.5",
                          "string[] = \"none\"; float32[2] = 1 1.5"));
  EXPECT_THAT(All(Examples(3).Skip(2).ParseExamples({FeatureSpec::Sparse("n", kInt64),
                                                     FeatureSpec::Ragged("s", kString),
                                                     FeatureSpec::Padded("f", kFloat32)})),
              ElementsAre("int64[2,1] = 0 1; int64[2] = 0 1; int64[1] = 2; string[1] = \"s2\"; "
                          "float32[2] = 2 2.5"));
}

TEST(ParseExamplesTest, Batches) {
  const Dataset batches = Examples(3).Batch(2);
  EXPECT_THAT(All(batches.ParseExamples(Dense())),
              ElementsAre("string[2] = \"s0\" \"none\"; float32[2,2] = 0 0.5 1 1.5",
                          "string[1] = \"s2\"; float32[1,2] = 2 2.5"));
  EXPECT_THAT(
      All(batches.ParseExamples(
          {FeatureSpec::Sparse("n", kInt64), FeatureSpec::Ragged("n2", kInt64, kInt32),
           FeatureSpec::Padded("s", kString, {}, Tensor::Scalar<std::string>("-"))})),
      ElementsAre("int64[1,2] = 1 0; int64[1] = 0; int64[2] = 2 1; int64[0] =; int32[3] = 0 0 0; "
                  "string[2,1] = \"s0\" \"-\"",
                  "int64[2,2] = 0 0 0 1; int64[2] = 0 1; int64[2] = 1 2; int64[0] =; "
                  "int32[2] = 0 0; string[1,1] = \"s2\""));
}

TEST(ParseExamplesTest, TheOrderIsTheInputsOnAnyNumberOfThreads) {
  const Dataset shuffled = Examples(50).Shuffle(20, 1);
  const std::vector<std::string> expected = All(shuffled.ParseExamples(Dense()));
  EXPECT_EQ(expected.size(), 50u);
  EXPECT_EQ(All(shuffled.ParseExamples(Dense(), {.threads = 3})), expected);
}

TEST(ParseExamplesTest, EveryPositionCanBeRestored) {
  std::vector<FeatureSpec> specs = Dense();
  specs.push_back(FeatureSpec::Sparse("n", kInt64));
  specs.push_back(FeatureSpec::Padded("m", kInt64, {2}, Tensor::Scalar<int64_t>(-1)));
  for (const int threads : {1, 3}) {
    ExpectSameAfterRestoreEverywhere(
        Examples(7).Shuffle(3, 1).ParseExamples(specs, {.threads = threads}));
    ExpectSameAfterRestoreEverywhere(
        Examples(7).Batch(2).ParseExamples(specs, {.threads = threads}));
  }
}

TEST(ParseExamplesTest, AnErrorHasTheElementsIndexAndTheNextElementFollows) {
  const auto iterator = Examples(3).ParseExamples({FeatureSpec::Fixed("s", kString, {})}).Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_THAT(Rest(**iterator),
              ElementsAre("string[] = \"s0\"",
                          AllOf(HasSubstr("INVALID_ARGUMENT: ParseExamples: element 1: "),
                                HasSubstr("'s'"))));
  EXPECT_THAT(Rest(**iterator), ElementsAre("string[] = \"s2\""));
  EXPECT_THAT(std::string(FirstError(Dataset::Range(2).ParseExamples(Dense())).message()),
              HasSubstr("element 0: is int64[]; expected serialized examples"));
}

TEST(ParseExamplesTest, ImpossibleFeaturesAreRefused) {
  const auto error = [](std::vector<FeatureSpec> features) {
    const absl::Status status = OpenStatus(Examples(1).ParseExamples(std::move(features)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({}), HasSubstr("no features"));
  EXPECT_THAT(error({FeatureSpec::Fixed("a", kInt32, {})}), HasSubstr("'a'"));
  EXPECT_THAT(error({FeatureSpec::Fixed("a", kInt64, {}), FeatureSpec::Sparse("a", kInt64)}),
              HasSubstr("twice"));
  EXPECT_THAT(error({FeatureSpec::Fixed("a", kInt64, {2}, Tensor::Scalar<int64_t>(1))}),
              HasSubstr("default"));
}

TEST(ParseExamplesTest, DamagedDescriptionsAndExamplesNeverCrash) {
  std::mt19937_64 random(1);
  std::vector<FeatureSpec> specs = Dense();
  specs.push_back(FeatureSpec::Ragged("n", kInt64));
  const std::string pipeline = *Examples(2).ParseExamples(specs).Serialize();
  for (int i = 0; i < 1000; ++i) {
    const auto dataset = Dataset::Parse(Mutate(pipeline, random));
    // Threads are left alone: a mutated number of them is only slow.
    if (dataset.ok() && absl::StrContains(dataset->stage()->kind(), "Parse")) {
      const auto threads = dataset->stage()->Int("threads");
      if (threads.ok() && *threads == 1) All(*dataset);
    }
  }
}

TEST(ParseSequenceExamplesTest, ContextAndLists) {
  tensorflow::SequenceExample example;
  SetContextFeature("id", Int64Feature({7}), &example);
  AddStep("words", BytesFeature({"a", "b"}), &example);
  AddStep("words", BytesFeature({"c"}), &example);
  AddStep("x", FloatFeature({1}), &example);
  AddStep("x", FloatFeature({2}), &example);
  const Dataset source =
      Dataset::FromTensors({Tensor::Vector<std::string>({*SerializeExample(example)})});
  const Dataset parsed = source.ParseSequenceExamples(
      {FeatureSpec::Fixed("id", kInt64, {})},
      {FeatureSpec::Ragged("words", kString), FeatureSpec::Padded("x", kFloat32)});
  const std::string expected =
      "int64[1] = 7; string[3] = \"a\" \"b\" \"c\"; int64[2] = 0 2; int64[3] = 0 2 3; "
      "float32[1,2] = 1 2; int64[1] = 2";
  EXPECT_THAT(All(parsed), ElementsAre(expected));
  EXPECT_THAT(All(source.Batch(4).ParseSequenceExamples(
                  {FeatureSpec::Fixed("id", kInt64, {})},
                  {FeatureSpec::Ragged("words", kString), FeatureSpec::Padded("x", kFloat32)})),
              ElementsAre(expected));
  ExpectSameAfterRestoreEverywhere(parsed.Repeat(3));
}

}  // namespace
}  // namespace tandem::data
