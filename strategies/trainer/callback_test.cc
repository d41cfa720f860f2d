// What the progress callback writes.
#include "strategies/trainer/callback.h"

#include <memory>

#include "gtest/gtest.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

class ProgressLine : public ::testing::Test {
 protected:
  ProgressLine()
      : strategy_(*Strategy::OneDevice({})),
        trainer_(*strategy_, nn::Sequential({nn::Dense({.units = 1})}),
                 loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({})) {}

  // What is written from the first step of an epoch of four to its end.
  std::string Written(absl::optional<bool> is_terminal, int64_t steps = 4) {
    std::FILE* const file = std::tmpfile();
    if (file == nullptr) return "no temporary file";
    const CallbackPtr callback = callback::Progress(file, is_terminal);
    EXPECT_TRUE(callback->OnBegin(trainer_).ok());
    TrainingProgress progress;
    progress.epochs = 2;
    progress.steps = steps;
    progress.loss = 0.5;
    progress.metrics = {{"accuracy", 0.25}};
    for (const int64_t step : {1, 4}) {
      progress.step = step;
      progress.examples = 100 * step;
      progress.elapsed = absl::Seconds(20 * step);
      // An intermediate step may be left out: only the first and the last are certain.
      EXPECT_TRUE(callback->OnStep(trainer_, progress).ok());
    }
    EpochResult result;
    result.loss = 0.5;
    result.metrics = progress.metrics;
    result.examples = 400;
    result.duration = absl::Seconds(80);
    EXPECT_TRUE(callback->OnEpoch(trainer_, 0, result).ok());
    EpochResult validation;
    validation.loss = 0.625;
    result.validation = std::make_shared<EpochResult>(validation);
    EXPECT_TRUE(callback->OnEpoch(trainer_, 1, result).ok());
    std::rewind(file);
    std::string text(10000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  }

  const std::unique_ptr<Strategy> strategy_;
  Trainer trainer_;
};

constexpr char kFirstEpoch[] = "epoch 1/2  loss 0.5000  accuracy 0.2500  5 examples/s  80.0 s\n";
constexpr char kSecondEpoch[] =
    "epoch 2/2  loss 0.5000  accuracy 0.2500  validation: loss 0.6250  5 examples/s  80.0 s\n";

TEST_F(ProgressLine, IsWrittenAnewOnATerminalAfterSteps) {
  const std::string erase = "\r\033[K";
  EXPECT_EQ(Written(true),
            erase +
                "epoch 1/2 [======                  ] step 1/4  loss 0.5000  accuracy 0.2500"
                "  5 examples/s  2:20 left" +
                erase +
                "epoch 1/2 [========================] step 4/4  loss 0.5000"
                "  accuracy 0.2500  5 examples/s  1:20 left" +
                erase + kFirstEpoch + erase + kSecondEpoch);
}

TEST_F(ProgressLine, HasNoBarWhenTheNumberOfStepsIsNotKnown) {
  const std::string text = Written(true, -1);
  EXPECT_EQ(text.substr(0, text.find('\r', 1)),
            "\r\033[Kepoch 1/2 step 1  loss 0.5000  accuracy 0.2500  5 examples/s");
}

TEST_F(ProgressLine, IsOneAnEpochElsewhere) {
  EXPECT_EQ(Written(false), std::string(kFirstEpoch) + kSecondEpoch);
  // A file is no terminal.
  EXPECT_EQ(Written(absl::nullopt), std::string(kFirstEpoch) + kSecondEpoch);
}

}  // namespace
}  // namespace tandem
