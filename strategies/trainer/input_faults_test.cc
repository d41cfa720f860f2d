// Trainings whose data is damaged, or finds no memory.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/io/record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "strategies/strategy.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kClasses;
using testing::kFeatures;

// A record's first byte is its class.
const bool parse_registered = data::RegisterMapFunction(
    "input_faults_parse",
    [](const data::MapContext&, data::Element element) -> absl::StatusOr<data::Element> {
      const int32_t label = element[0].ScalarValue<std::string>()[0] % kClasses;
      Tensor features = Tensor::Zeros(kFloat32, Shape({kFeatures}));
      features.MutableElements<float>()[static_cast<size_t>(label)] = 1;
      return data::Element{features, Tensor::Scalar<int32_t>(label)};
    });

const bool hungry_registered = data::RegisterMapFunction(
    "input_faults_hungry",
    [](const data::MapContext& context, data::Element element) -> absl::StatusOr<data::Element> {
      if (context.index == 20) throw std::bad_alloc();
      return element;
    });

class InputFaults : public ::testing::Test {
 protected:
  InputFaults() {
    SetLogSink([this](LogSeverity severity, absl::string_view text) {
      if (severity == LogSeverity::kWarning) warnings_.emplace_back(text);
    });
  }
  ~InputFaults() override { SetLogSink({}); }

  // Twenty records of one byte, of which `damaged` are so.
  static std::string WriteRecords(const std::string& name, int damaged) {
    const std::string path = ::testing::TempDir() + "/" + name;
    const auto writer = RecordWriter::Open(PosixFileSystem(), path);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (char i = 0; i < 20; ++i) EXPECT_TRUE((*writer)->Write(std::string(1, i)).ok());
    EXPECT_TRUE((*writer)->Close().ok());
    std::string contents = *ReadFile(PosixFileSystem(), path);
    constexpr size_t kRecordBytes = 17;
    for (int i = 0; i < damaged; ++i) contents[(2 * i + 1) * kRecordBytes + 12] ^= 0x40;
    EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), path, contents).ok());
    return path;
  }

  absl::StatusOr<std::vector<EpochResult>> Train(const data::Dataset& data, FitOptions fit) {
    Trainer trainer(*strategy_, nn::Sequential({nn::Dense({.units = kClasses})}),
                    loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({}));
    return trainer.Fit(data, fit);
  }

  const std::unique_ptr<Strategy> strategy_ = *Strategy::OneDevice({});
  std::vector<std::string> warnings_;
};

TEST_F(InputFaults, DamagedRecordsThatWerePassedOverAreShown) {
  const std::string a = WriteRecords("input_faults_a", 2);
  const std::string b = WriteRecords("input_faults_b", 1);
  const data::Dataset data = data::Dataset::Records({a, b}, {.skip_damaged = true})
                                 .Map("input_faults_parse", {.threads = 2})
                                 .Batch(8)
                                 .Prefetch(2);
  const data::Dataset sound = data::Dataset::Records({WriteRecords("input_faults_c", 0)})
                                  .Map("input_faults_parse", {.threads = 1})
                                  .Batch(8);
  std::FILE* const out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  std::vector<int64_t> seen;
  FitOptions fit;
  fit.epochs = 2;
  fit.validation = sound;
  fit.callbacks = {callback::Progress(out, /*is_terminal=*/false)};
  fit.on_step = [&seen](const TrainingProgress& progress) {
    seen.push_back(progress.damaged);
    return true;
  };
  const auto history = Train(data, fit);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 2u);
  for (const EpochResult& epoch : *history) {
    EXPECT_EQ(epoch.examples, 37);
    EXPECT_EQ(epoch.damaged, 3);
    EXPECT_EQ(epoch.validation->damaged, 0);
  }
  ASSERT_EQ(seen.size(), 10u);
  EXPECT_EQ(seen.back(), 3);
  // Once, though each epoch meets them.
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("3 damaged records were passed over"),
                                HasSubstr("input_faults_a (2)"), HasSubstr("input_faults_b (1)"))));
  std::rewind(out);
  std::string printed(1000, '\0');
  printed.resize(std::fread(printed.data(), 1, printed.size(), out));
  std::fclose(out);
  EXPECT_THAT(printed, HasSubstr("3 damaged records passed over\n"));
}

TEST_F(InputFaults, AThreadOfThePipelineThatFindsNoMemoryEndsTheTrainingWithAnError) {
  for (const int threads : {1, 3}) {
    const data::Dataset data = data::Dataset::FromTensors(testing::ClassificationBatch(0, 40))
                                   .Map("input_faults_hungry", {.threads = threads})
                                   .Batch(8)
                                   .Prefetch(2);
    const auto history = Train(data, {});
    EXPECT_EQ(history.status().code(), absl::StatusCode::kResourceExhausted) << history.status();
    EXPECT_THAT(std::string(history.status().message()),
                AllOf(HasSubstr("element 20"), HasSubstr("no memory")));
  }
}

}  // namespace
}  // namespace tandem
