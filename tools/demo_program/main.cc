// Trains a network on MNIST. tools/demo builds and starts this program; its --help explains the
// flags.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "runtime/input/dataset.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"
#include "tools/demo_program/models.h"

ABSL_FLAG(std::string, model, "cnn", "cnn, lenet or mlp");
ABSL_FLAG(std::string, strategy, "mirrored", "mirrored or one_device");
ABSL_FLAG(int, replicas, 2, "how many virtual CPU devices mirrored trains on");
ABSL_FLAG(int, epochs, 5, "passes over the training images");
ABSL_FLAG(int64_t, batch_size, 64, "images a step, all replicas together");
ABSL_FLAG(double, learning_rate, 0.001, "step width of the optimizer");
ABSL_FLAG(int64_t, seed, 1, "of the initial weights and of the order of the images");
ABSL_FLAG(bool, deterministic, false, "the same weights bit for bit on any number of replicas");
ABSL_FLAG(std::string, data, "tools/datasets/mnist", "folder with the four MNIST files");

namespace tandem::demo {
namespace {

Trainer* stopped_by_signal = nullptr;

void OnSignal(int) {
  if (stopped_by_signal != nullptr) stopped_by_signal->Stop();
}

std::string Minutes(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

// One live line on a terminal, one line an epoch elsewhere.
class Display {
 public:
  Display(int epochs, int64_t steps) : epochs_(epochs), steps_(steps), live_(isatty(1) != 0) {}

  void Step(const TrainingProgress& progress) {
    const absl::Time now = absl::Now();
    if (!live_ || (now - last_ < absl::Milliseconds(100) && progress.step < steps_)) return;
    last_ = now;
    constexpr int kWidth = 24;
    const int filled = static_cast<int>(kWidth * progress.step / std::max<int64_t>(steps_, 1));
    const double rate = static_cast<double>(progress.examples) /
                        std::max(1e-9, absl::ToDoubleSeconds(progress.elapsed));
    const int64_t left = (epochs_ - progress.epoch) * steps_ - progress.step;
    const absl::Duration remaining =
        progress.elapsed * (static_cast<double>(left) / static_cast<double>(progress.step));
    absl::PrintF(
        "\r\033[Kepoch %d/%d [%s%s] step %d/%d  loss %.4f  accuracy %.4f  %.0f images/s  "
        "%s left",
        progress.epoch + 1, epochs_, std::string(filled, '='), std::string(kWidth - filled, ' '),
        progress.step, steps_, progress.loss, progress.accuracy, rate, Minutes(remaining));
    std::fflush(stdout);
  }

  void Epoch(int epoch, const EpochResult& result) {
    absl::PrintF("%sepoch %d/%d  loss %.4f  accuracy %.4f  %.0f images/s  %.1f s\n",
                 live_ ? "\r\033[K" : "", epoch + 1, epochs_, result.loss, result.accuracy,
                 static_cast<double>(result.examples) / absl::ToDoubleSeconds(result.duration),
                 absl::ToDoubleSeconds(result.duration));
    std::fflush(stdout);
  }

 private:
  const int epochs_;
  const int64_t steps_;
  const bool live_;
  absl::Time last_ = absl::InfinitePast();
};

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy() {
  const std::string name = absl::GetFlag(FLAGS_strategy);
  const int virtual_replicas = absl::GetFlag(FLAGS_deterministic) ? 8 : 0;
  if (name == "one_device") return Strategy::OneDevice({.virtual_replicas = virtual_replicas});
  if (name == "mirrored") {
    if (absl::GetFlag(FLAGS_replicas) < 1) {
      return errors::InvalidArgument("--replicas=", absl::GetFlag(FLAGS_replicas),
                                     ": it must be at least 1");
    }
    return Strategy::Mirrored(
        {.replicas = absl::GetFlag(FLAGS_replicas), .virtual_replicas = virtual_replicas});
  }
  return errors::InvalidArgument("--strategy=", name, ": it can be mirrored or one_device");
}

absl::Status Run() {
  const absl::Time begin = absl::Now();
  const int64_t batch_size = absl::GetFlag(FLAGS_batch_size);
  const uint64_t seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  if (absl::GetFlag(FLAGS_epochs) < 1) {
    return errors::InvalidArgument("--epochs=", absl::GetFlag(FLAGS_epochs),
                                   ": it must be at least 1");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy());
  TANDEM_ASSIGN_OR_RETURN(
      Model model, MakeModel(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_learning_rate)));
  const std::string folder = absl::GetFlag(FLAGS_data);
  const data::Dataset train =
      data::Mnist(folder, {.split = data::MnistSplit::kTrain, .label_type = kInt32})
          .Shuffle(60000, seed)
          .Batch(batch_size);
  const data::Dataset test =
      data::Mnist(folder, {.split = data::MnistSplit::kTest, .label_type = kInt32}).Batch(500);
  TANDEM_ASSIGN_OR_RETURN(const int64_t steps, train.Cardinality());

  Trainer trainer(*strategy, model.layers, loss::SparseSoftmaxCrossEntropy(), model.optimizer,
                  {.seed = absl::GetFlag(FLAGS_seed)});
  stopped_by_signal = &trainer;
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  Display display(absl::GetFlag(FLAGS_epochs), steps);
  FitOptions fit;
  fit.epochs = absl::GetFlag(FLAGS_epochs);
  fit.on_step = [&](const TrainingProgress& progress) {
    display.Step(progress);
    return true;
  };
  fit.on_epoch = [&](int epoch, const EpochResult& result) {
    display.Epoch(epoch, result);
    return true;
  };
  const auto history = trainer.Fit(train, fit);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  stopped_by_signal = nullptr;
  TANDEM_RETURN_IF_ERROR(history.status());

  TANDEM_ASSIGN_OR_RETURN(const EpochResult result, trainer.Evaluate(test));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  absl::PrintF("test accuracy %.2f %%  (loss %.4f, %d images)\ntime %.1f s, peak memory %.0f MB\n",
               100 * result.accuracy, result.loss, result.examples,
               absl::ToDoubleSeconds(absl::Now() - begin),
               static_cast<double>(usage.ru_maxrss) / 1024);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem::demo

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("trains a network on MNIST; see tools/demo --help");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = tandem::demo::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "\ndemo: %s\n", std::string(status.message()).c_str());
  return absl::IsCancelled(status) ? 130 : absl::IsInvalidArgument(status) ? 2 : 1;
}
