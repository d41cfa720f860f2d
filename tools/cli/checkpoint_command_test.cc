#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/io/checkpoint_state.h"
#include "core/io/file.h"
#include "core/io/npy.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/write.h"
#include "strategies/trainer/training_state.h"
#include "tools/cli/command.h"
#include "tools/cli/tensor_text.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Result {
  absl::Status status;
  std::string output;
};

Result RunCheckpoint(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  Result result;
  result.status = kCheckpointCommand.run(words);
  result.output = testing::internal::GetCapturedStdout();
  return result;
}

class CheckpointCommandTest : public testing::Test {
 protected:
  // Two checkpoints, of steps 1 and 2, in a folder of their own.
  CheckpointCommandTest() {
    SetLogSink([](LogSeverity, absl::string_view) {});
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "/checkpoint_command_", test->name());
    std::filesystem::remove_all(folder_);  // Of a former run.
    CheckpointState state;
    for (const int step : {1, 2}) {
      state.latest = Prefix(absl::StrCat("c-", step));
      state.all.push_back({state.latest, static_cast<double>(step)});
      const auto value = static_cast<float>(step);
      EXPECT_TRUE(WriteCheckpoint(PosixFileSystem(), state.latest,
                                  {{"w", Tensor::FromValues<float>({2, 2}, {1, 0.1f, 3, value})},
                                   {"words", Tensor::Vector<std::string>({"a", "b\n"})}})
                      .ok());
    }
    EXPECT_TRUE(WriteCheckpointState(PosixFileSystem(), folder_, state).ok());
  }
  ~CheckpointCommandTest() override { SetLogSink({}); }

  std::string Prefix(absl::string_view name) const { return JoinPath(folder_, name); }
  void Damage(const std::string& name) const {
    const std::string path = Prefix(name);
    std::string bytes = *ReadFile(PosixFileSystem(), path);
    bytes[0] = static_cast<char>(bytes[0] ^ 1);
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, bytes).ok());
  }

  std::string folder_;
};

TEST_F(CheckpointCommandTest, ListsTheNewestOfAFolder) {
  const Result result = RunCheckpoint({"ls", folder_});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output, AllOf(HasSubstr("w      float32  [2,2]     16\n"),
                                   HasSubstr("words  string   [2]"), HasSubstr("c-2: 2 tensors"),
                                   HasSubstr("1 shard\n"), Not(HasSubstr("VARIABLE"))));
  const Json json = Json::parse(RunCheckpoint({"ls", Prefix("c-1"), "--json"}).output);
  EXPECT_EQ(json["prefix"], Prefix("c-1"));
  EXPECT_EQ(json["tensors"][0],
            Json({{"name", "w"}, {"dtype", "float32"}, {"shape", {2, 2}}, {"bytes", 16}}));
}

TEST_F(CheckpointCommandTest, ShowsValues) {
  EXPECT_EQ(RunCheckpoint({"show", folder_, "w"}).output,
            "w: float32[2,2]\n[0,:]  1 0.1\n[1,:]  3 2\n");
  EXPECT_EQ(RunCheckpoint({"show", folder_, "words"}).output, "words: string[2]\n\"a\" \"b\\n\"\n");
  EXPECT_EQ(RunCheckpoint({"show", folder_, "w", "--max_values=3"}).output,
            "w: float32[2,2]\n[0,:]  1 0.1\n[1,:]  3 …\n");
  const Json json = Json::parse(RunCheckpoint({"show", "--json", folder_, "w"}).output);
  EXPECT_EQ(json["values"], Json::parse("[[1.0, 0.1], [3.0, 2.0]]"));
  const Result missing = RunCheckpoint({"show", folder_, "word"});
  EXPECT_TRUE(absl::IsNotFound(missing.status));
  EXPECT_THAT(missing.status.message(), HasSubstr("Did you mean 'w"));
}

TEST_F(CheckpointCommandTest, SavesATensorAsNpy) {
  const std::string path = Prefix("w.npy");
  ASSERT_TRUE(RunCheckpoint({"show", folder_, "w", "--save", path}).status.ok());
  const auto tensor = ReadNpy(path);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->Elements<float>()[3], 2);
}

TEST_F(CheckpointCommandTest, VerifiesTheNewestOrAll) {
  EXPECT_TRUE(RunCheckpoint({"verify", folder_}).status.ok());
  Damage("c-1.data-00000-of-00001");
  EXPECT_TRUE(RunCheckpoint({"verify", folder_}).status.ok());
  const Result all = RunCheckpoint({"verify", "--all", folder_});
  EXPECT_TRUE(absl::IsDataLoss(all.status)) << all.status;
  EXPECT_THAT(all.status.message(), HasSubstr("1 of 2"));
  EXPECT_THAT(all.output, AllOf(HasSubstr("good"), HasSubstr("DAMAGED"), HasSubstr("checksum")));
  Damage("c-2.index");
  const Result newest = RunCheckpoint({"verify", "--json", folder_});
  EXPECT_TRUE(absl::IsDataLoss(newest.status)) << newest.status;
  const Json json = Json::parse(newest.output);
  EXPECT_EQ(json["good"], false);
  EXPECT_EQ(json["checkpoints"].size(), 1u);
  EXPECT_EQ(json["checkpoints"][0]["prefix"], Prefix("c-2"));
}

TEST_F(CheckpointCommandTest, DiffTellsWhatDiffers) {
  EXPECT_TRUE(RunCheckpoint({"diff", Prefix("c-1"), Prefix("c-1")}).status.ok());
  const Result result = RunCheckpoint({"diff", Prefix("c-1"), folder_});
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status)) << result.status;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("w       1 of 4 elements, by up to 1"), Not(HasSubstr("words"))));
  EXPECT_TRUE(RunCheckpoint({"diff", Prefix("c-1"), folder_, "--tolerance=1"}).status.ok());
  EXPECT_FALSE(RunCheckpoint({"diff", Prefix("c-1"), folder_, "--tolerance=0.5"}).status.ok());

  ASSERT_TRUE(WriteCheckpoint(PosixFileSystem(), Prefix("other"),
                              {{"w", Tensor::Scalar<float>(1)}, {"more", Tensor::Scalar<float>(1)}})
                  .ok());
  const Json json =
      Json::parse(RunCheckpoint({"diff", "--json", Prefix("c-1"), Prefix("other")}).output);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["tensors"], 3);
  EXPECT_EQ(json["differences"][0], Json({{"name", "more"}, {"second", "float32[]"}}));
  EXPECT_EQ(json["differences"][1],
            Json({{"name", "w"}, {"first", "float32[2,2]"}, {"second", "float32[]"}}));
  EXPECT_EQ(json["differences"][2], Json({{"name", "words"}, {"first", "string[2]"}}));
}

TEST_F(CheckpointCommandTest, ConvertsToAnotherNumberOfShards) {
  const std::string to = Prefix("below/model");
  const Result result = RunCheckpoint({"convert", folder_, to, "--shards=3"});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output, HasSubstr("2 tensors, in 3 shards"));
  EXPECT_TRUE(RunCheckpoint({"diff", folder_, to}).status.ok());
  EXPECT_EQ((*Checkpoint::Open(to))->bundle().num_shards(), 3);
  EXPECT_TRUE(absl::IsAlreadyExists(RunCheckpoint({"convert", Prefix("c-1"), to}).status));
  EXPECT_TRUE(RunCheckpoint({"convert", "--overwrite", Prefix("c-1"), to}).status.ok());
  EXPECT_TRUE(RunCheckpoint({"diff", Prefix("c-1"), to}).status.ok());
}

TEST_F(CheckpointCommandTest, ConvertsACheckpointInItsPlace) {
  const std::string prefix = Prefix("c-1");
  const std::string copy = Prefix("copy");
  ASSERT_TRUE(RunCheckpoint({"convert", prefix, copy}).status.ok());
  for (const int shards : {3, 3, 2, 1, 1}) {
    const Result result = RunCheckpoint(
        {"convert", prefix, prefix, "--overwrite", absl::StrCat("--shards=", shards)});
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ((*Checkpoint::Open(prefix))->bundle().num_shards(), shards);
    EXPECT_TRUE(RunCheckpoint({"diff", prefix, copy}).status.ok()) << shards;
  }
}

TEST_F(CheckpointCommandTest, ConvertsIntoAFolderUnderTheSameName) {
  const std::string inside = Prefix("existing/c-2");
  std::filesystem::create_directory(Prefix("existing"));
  const Result result = RunCheckpoint({"convert", folder_, Prefix("existing")});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output, HasSubstr(inside));
  EXPECT_TRUE(RunCheckpoint({"diff", folder_, inside}).status.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(RunCheckpoint({"convert", folder_, folder_}).status));
  EXPECT_TRUE(RunCheckpoint({"convert", folder_, folder_, "--overwrite"}).status.ok());
  EXPECT_FALSE(std::filesystem::exists(BundleIndexPath(folder_)));
  EXPECT_TRUE(RunCheckpoint({"convert", folder_, Prefix("new/")}).status.ok());
  EXPECT_TRUE(std::filesystem::exists(Prefix("new/c-2.index")));
}

TEST_F(CheckpointCommandTest, NotesOfATrainingAreCountedApart) {
  const std::string prefix = Prefix("noted");
  ASSERT_TRUE(WriteCheckpoint(PosixFileSystem(), prefix,
                              {{"w", Tensor::Scalar<float>(1)},
                               {absl::StrCat(kNotePrefix, "step"), Tensor::Scalar<int64_t>(7)},
                               {absl::StrCat(kNotePrefix, "seed"), Tensor::Scalar<int64_t>(1)}})
                  .ok());
  const std::string counted = "1 tensor, and 2 notes of a training";
  const Result listed = RunCheckpoint({"ls", prefix});
  EXPECT_THAT(listed.output, AllOf(HasSubstr(counted + " (--all shows them), 4 bytes"),
                                   Not(HasSubstr("_tandem"))));
  const Result all = RunCheckpoint({"ls", prefix, "--all"});
  EXPECT_THAT(all.output, AllOf(HasSubstr("_tandem/step"), HasSubstr(counted + ", 20 bytes")));
  EXPECT_EQ(Json::parse(RunCheckpoint({"ls", "--json", prefix}).output)["notes"], 2);
  const Result converted = RunCheckpoint({"convert", prefix, Prefix("copy")});
  EXPECT_THAT(converted.output, HasSubstr(counted + ", in 1 shard"));
  const Json verified = Json::parse(RunCheckpoint({"verify", "--json", Prefix("copy")}).output);
  EXPECT_EQ(verified["checkpoints"][0]["tensors"], 1);
  EXPECT_EQ(verified["checkpoints"][0]["notes"], 2);
}

// Two epochs and a part of the third.
TrainingState SomeTraining() {
  TrainingState state;
  state.step = 12;
  state.seed = 5;
  state.epoch = 2;
  state.running = TrainingState::RunningEpoch();
  state.running->steps = 2;
  state.running->metrics = {"accuracy"};
  state.running->sums.examples = 8;
  state.running->sums.loss = 2;
  state.running->sums.metrics = {Tensor::Scalar<double>(1)};
  state.input.opened = 3;
  state.input.is_open = true;
  state.input.batches = 2;
  for (const double loss : {0.5, 0.25}) {
    EpochResult epoch;
    epoch.loss = loss;
    epoch.examples = 20;
    epoch.duration = absl::Seconds(3);
    epoch.metrics = {{"accuracy", 1 - loss}};
    auto validation = std::make_shared<EpochResult>();
    validation->loss = 2 * loss;
    epoch.validation = validation;
    state.history.push_back(epoch);
  }
  state.trained_with =
      TrainingState::TrainedWith{{{"optimizer", "adam"}, {"beta1", "0.9"}}, {0, 11}, {0.1, 0.05}};
  state.callbacks["early_stopping"] = {{"best", Tensor::Scalar<double>(1)}};
  return state;
}

TEST_F(CheckpointCommandTest, ShowsTheTrainingThatWroteIt) {
  const std::string prefix = Prefix("trained");
  NamedTensors tensors = ToNotes(SomeTraining());
  tensors.emplace_back("w", Tensor::Scalar<float>(1));
  ASSERT_TRUE(WriteCheckpoint(PosixFileSystem(), prefix, std::move(tensors)).ok());
  const Result shown = RunCheckpoint({"show", prefix});
  ASSERT_TRUE(shown.status.ok()) << shown.status;
  EXPECT_EQ(shown.output.substr(prefix.size()),
            ": a training after 12 steps, 2 epochs and 2 steps of the next (8 examples, loss "
            "0.25)\n"
            "seed: 5\n"
            "trained with: optimizer adam, beta1 0.9\n"
            "learning rate: 0.05 in step 12\n"
            "input: opened 3 times, 2 batches taken from it\n"
            "callbacks: early_stopping\n"
            "EPOCH  loss  accuracy  validation_loss  EXAMPLES  SECONDS\n"
            "    1   0.5       0.5                1        20      3.0\n"
            "    2  0.25      0.75              0.5        20      3.0\n");
  const Json json = Json::parse(RunCheckpoint({"show", prefix, "--json"}).output);
  EXPECT_EQ(json["prefix"], prefix);
  EXPECT_EQ(json["step"], 12);
  EXPECT_EQ(json["running"]["steps"], 2);
  EXPECT_EQ(json["trained_with"]["beta1"], "0.9");
  EXPECT_EQ(json["learning_rates"][1], Json({{"step", 11}, {"rate", 0.05}}));
  EXPECT_EQ(json["epochs"][1]["metrics"]["accuracy"], 0.75);
  EXPECT_EQ(json["epochs"][1]["validation"]["loss"], 0.5);
  EXPECT_EQ(json["callbacks"], Json({"early_stopping"}));
  // A tensor beside them is shown as ever.
  EXPECT_EQ(RunCheckpoint({"show", prefix, "w"}).output, "w: float32[]\n1\n");
}

TEST_F(CheckpointCommandTest, NotesThatMakeNoSenseAreDamage) {
  const std::string prefix = Prefix("strange");
  ASSERT_TRUE(WriteCheckpoint(PosixFileSystem(), prefix,
                              {{absl::StrCat(kNotePrefix, "step"), Tensor::Scalar<int64_t>(-1)}})
                  .ok());
  EXPECT_TRUE(absl::IsDataLoss(RunCheckpoint({"show", prefix}).status));
  EXPECT_THAT(RunCheckpoint({"show", folder_}).status.message(),
              HasSubstr("no notes of a training"));
}

TEST_F(CheckpointCommandTest, TakesTheNamesOfItsFiles) {
  for (const char* const file : {"c-1", "c-1.index", "c-1.data-00000-of-00001"}) {
    const Result result = RunCheckpoint({"ls", Prefix(file)});
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(result.output, HasSubstr("c-1: 2 tensors"));
  }
  EXPECT_TRUE(absl::IsNotFound(RunCheckpoint({"ls", Prefix("c-3.data-00000-of-00001")}).status));
}

TEST_F(CheckpointCommandTest, TeachesWhenTheCallIsWrong) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"lst", "x"},
                                             {"ls"},
                                             {"show", folder_},
                                             {"diff", folder_},
                                             {"ls", "--jsn", folder_},
                                             {"show", folder_, "w", "--max_values=-1"},
                                             {"diff", folder_, folder_, "--tolerance=x"},
                                             {"convert", folder_, Prefix("t"), "--shards=0"},
                                             {"convert", folder_, Prefix("t"), "--shards=x"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(RunCheckpoint(words).status))
        << testing::PrintToString(words);
  }
  EXPECT_TRUE(absl::IsNotFound(RunCheckpoint({"ls", Prefix("nothing")}).status));
}

TEST(TensorText, NumbersKeepTheirDigits) {
  EXPECT_EQ(TensorText(Tensor::Vector<double>({0.1, 1e300, -kInfinity}), 10), "0.1 1e+300 -inf\n");
  EXPECT_EQ(TensorText(Tensor::Vector<int64_t>({9007199254740993}), 10), "9007199254740993\n");
  EXPECT_EQ(TensorText(Tensor::Scalar<bool>(true), 10), "true\n");
  EXPECT_EQ(TensorText(Tensor::Vector<std::complex<float>>({{1, -2}}), 10), "(1,-2)\n");
  EXPECT_EQ(TensorText(Tensor(kFloat32, Shape({0, 3})), 10), "");
  EXPECT_EQ(TensorText(Tensor::Vector<float>({1, 2}), 0), "…\n");
}

TEST(TensorText, RowsBeginWithTheirPosition) {
  Tensor tensor(kInt32, Shape({2, 2, 1}));
  for (int i = 0; i < 4; ++i) tensor.MutableElements<int32_t>()[static_cast<size_t>(i)] = i;
  EXPECT_EQ(TensorText(tensor, 10), "[0,0,:]  0\n[0,1,:]  1\n[1,0,:]  2\n[1,1,:]  3\n");
}

TEST(TensorJson, HasValuesThatJsonLacks) {
  EXPECT_EQ(TensorJson(Tensor::Vector<double>({kInfinity, -kInfinity, std::nan("")})),
            Json({"Infinity", "-Infinity", "NaN"}));
  EXPECT_EQ(TensorJson(Tensor::Vector<std::complex<double>>({{1, 2}})), Json::parse("[[1.0,2.0]]"));
  EXPECT_EQ(TensorJson(Tensor(kFloat32, Shape({2, 0}))), Json::parse("[[],[]]"));
  EXPECT_EQ(TensorJson(Tensor::Scalar<float>(0.1f)).dump(), "0.1");
}

TEST(CompareTensors, CountsBitsAndMeasuresNumbers) {
  const auto same =
      CompareTensors(Tensor::Vector<float>({1, NAN}), Tensor::Vector<float>({1, NAN}));
  EXPECT_EQ(same.elements, 0);
  const auto zeros = CompareTensors(Tensor::Scalar<double>(0.0), Tensor::Scalar<double>(-0.0));
  EXPECT_EQ(zeros.elements, 1);
  EXPECT_EQ(zeros.largest, 0);
  const auto nan = CompareTensors(Tensor::Scalar<double>(1), Tensor::Scalar<double>(NAN));
  EXPECT_EQ(nan.largest, kInfinity);
  const auto words =
      CompareTensors(Tensor::Scalar<std::string>("a"), Tensor::Scalar<std::string>("b"));
  EXPECT_EQ(words.elements, 1);
  EXPECT_FALSE(words.largest.has_value());
}

}  // namespace
}  // namespace tandem::cli
