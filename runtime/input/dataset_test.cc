// Pipelines as a whole: serialization, states, and the path of row numbers.
#include "runtime/input/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/input.pb.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const bool registered = RegisterMapFunction(
    "dataset_test_same",
    [](const MapContext&, Element element) { return absl::StatusOr<Element>(std::move(element)); });

// No rows from here on: the elements go the slow way.
Dataset Slow(const Dataset& dataset) { return dataset.Map("dataset_test_same"); }

TEST(DatasetTest, APipelineSurvivesSerialization) {
  const Dataset dataset =
      Dataset::FromTensors({Tensor::Vector<float>({1, 2, 3, 4, 5}),
                            Tensor::Vector<std::string>({"a", "b", "c", "d", "e"})})
          .Shuffle(5, 7)
          .Repeat(2)
          .Batch(3);
  const auto bytes = dataset.Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto parsed = Dataset::Parse(*bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(All(*parsed), All(dataset));
  EXPECT_EQ(*parsed->Serialize(), *bytes);
}

TEST(DatasetTest, MessagesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(Dataset::Parse("\xff\xff").status().code(), absl::StatusCode::kInvalidArgument);
  InputStage stage;
  stage.set_kind("Shufle");
  absl::Status status = OpenStatus(*Dataset::Parse(stage.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown kind 'Shufle'; known are Batch"));
  stage.set_kind("Batch");
  EXPECT_THAT(std::string(OpenStatus(*Dataset::Parse(stage.SerializeAsString())).message()),
              HasSubstr("Batch: has 0 inputs, expected 1"));
  stage.add_inputs()->set_kind("Range");
  EXPECT_THAT(std::string(OpenStatus(*Dataset::Parse(stage.SerializeAsString())).message()),
              HasSubstr("Batch: attribute 'size' is missing"));
  InputStage deep;
  InputStage* level = &deep;
  for (int i = 0; i < kMaxStageDepth; ++i) level = level->add_inputs();
  EXPECT_THAT(std::string(Dataset::Parse(deep.SerializeAsString()).status().message()),
              HasSubstr("more than 64 stages"));
}

TEST(DatasetTest, RowsGiveWhatElementsGive) {
  const Dataset source = Dataset::FromTensors(
      {Tensor::FromValues<int32_t>({7, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}),
       Tensor::Vector<std::string>({"a", "b", "c", "d", "e", "f", "g"})});
  const auto stages = {
      +[](const Dataset& d) { return d; },
      +[](const Dataset& d) { return d.Shuffle(3, 1); },
      +[](const Dataset& d) { return d.Shuffle(100, 1); },
      +[](const Dataset& d) { return d.Skip(2).Take(4); },
      +[](const Dataset& d) { return d.Shard(3, 1); },
      +[](const Dataset& d) { return d.Shuffle(4, 2).Repeat(3).Shard(2, 0).Skip(1).Take(8); },
      +[](const Dataset& d) { return d.Repeat(2).Shuffle(5, 3); },
  };
  for (const auto& stage : stages) {
    for (const int64_t size : {1, 2, 3, 50}) {
      EXPECT_EQ(All(stage(source).Batch(size)), All(stage(Slow(source)).Batch(size)));
      EXPECT_EQ(All(stage(source).Batch(size, true)), All(stage(Slow(source)).Batch(size, true)));
    }
    EXPECT_EQ(All(stage(source)), All(stage(Slow(source))));
  }
}

TEST(DatasetTest, EveryPositionOfAPipelineOfRowsCanBeRestored) {
  ExpectSameAfterRestoreEverywhere(
      Dataset::Range(23).Skip(1).Shard(2, 1).Shuffle(4, 9).Repeat(2).Take(19).Batch(2));
}

TEST(DatasetTest, EveryPositionOfAPipelineOfElementsCanBeRestored) {
  ExpectSameAfterRestoreEverywhere(Slow(Dataset::Range(23))
                                       .Skip(1)
                                       .Shard(2, 1)
                                       .Shuffle(4, 9)
                                       .Repeat(2)
                                       .Take(19)
                                       .Batch(2)
                                       .Prefetch(2));
}

TEST(DatasetTest, AStateOfAnotherPipelineIsRefusedAndChangesNothing) {
  const auto from = Dataset::Range(5).Shuffle(5, 1).Open();
  const auto to = Dataset::Range(5).Batch(2).Open();
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE((*to)->Next().ok());
  absl::Status status = (*to)->RestoreState(*(*from)->SaveState());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("of a stage 'Shuffle' where this pipeline has 'Batch'"));
  EXPECT_EQ((*to)->RestoreState("\xff\xff").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Rest(**to), ElementsAre("int64[2] = 2 3", "int64[1] = 4"));
}

TEST(DatasetTest, NumbersOfAStateThatAreOutOfRangeAreRefused) {
  const auto iterator = Dataset::Range(3).Shuffle(2, 1).Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  InputState state;
  ASSERT_TRUE(state.ParseFromString(*(*iterator)->SaveState()));
  InputState bad = state;
  bad.mutable_inputs(0)->set_rows(0, 3);
  EXPECT_THAT(std::string((*iterator)->RestoreState(bad.SerializeAsString()).message()),
              HasSubstr("holds row 3 of 3"));
  bad = state;
  bad.mutable_inputs(0)->mutable_inputs(0)->set_numbers(0, 4);
  EXPECT_THAT(std::string((*iterator)->RestoreState(bad.SerializeAsString()).message()),
              HasSubstr("row 4 of 3"));
  bad = state;
  for (int i = 0; i < 5; ++i) bad.mutable_inputs(0)->add_rows(0);
  EXPECT_THAT(std::string((*iterator)->RestoreState(bad.SerializeAsString()).message()),
              HasSubstr("the buffer is 2"));
}

TEST(DatasetTest, CardinalitiesAreKnownWhereTheyCanBe) {
  const Dataset ten = Dataset::Range(10);
  EXPECT_EQ(*ten.Cardinality(), 10);
  EXPECT_EQ(*ten.Batch(3).Cardinality(), 4);
  EXPECT_EQ(*ten.Batch(3, true).Cardinality(), 3);
  EXPECT_EQ(*ten.Shard(3, 0).Cardinality(), 4);
  EXPECT_EQ(*ten.Shard(3, 1).Cardinality(), 3);
  EXPECT_EQ(*ten.Take(4).Cardinality(), 4);
  EXPECT_EQ(*ten.Skip(4).Cardinality(), 6);
  EXPECT_EQ(*ten.Skip(40).Cardinality(), 0);
  EXPECT_EQ(*ten.Repeat(3).Shuffle(2, 1).Prefetch(1).Cache().Cardinality(), 30);
  EXPECT_EQ(*ten.Repeat().Cardinality(), kInfiniteCardinality);
  EXPECT_EQ(*ten.Repeat().Take(5).Cardinality(), 5);
}

TEST(DatasetTest, ACancelledIteratorGivesNothingMore) {
  const auto iterator = Dataset::Range(5).Open();
  ASSERT_TRUE(iterator.ok());
  (*iterator)->Cancel();
  EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*iterator)->SaveState().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tandem::data
