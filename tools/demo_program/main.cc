// Trains a network on MNIST. tools/demo builds and starts this program; its --help explains the
// flags.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/input/dataset.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"
#include "tools/demo_program/export.h"
#include "tools/demo_program/models.h"
#include "tools/flags/program_flags.h"

ABSL_FLAG(std::string, model, "cnn", "cnn, lenet or mlp");
ABSL_FLAG(std::string, strategy, "mirrored", "mirrored, central_storage or one_device");
ABSL_FLAG(absl::optional<int>, replicas, absl::nullopt,
          "how many virtual CPU devices to train on; normally 2, and one with one_device");
ABSL_FLAG(int, epochs, 5, "passes over the training images");
ABSL_FLAG(int64_t, batch_size, 64, "images a step, all replicas together");
ABSL_FLAG(double, learning_rate, 0.001,
          "step width of the optimizer; Adam's falls to 0 along a cosine");
ABSL_FLAG(int64_t, seed, 1, "of the initial weights and of the order of the images");
ABSL_FLAG(bool, deterministic, false, "the same weights bit for bit on any number of replicas");
ABSL_FLAG(std::string, checkpoint_dir, "",
          "folder for checkpoints: the training survives whatever ends this process");
ABSL_FLAG(bool, resume, false,
          "go on from the newest checkpoint in --checkpoint_dir, or begin when there is none yet");
ABSL_FLAG(absl::Duration, checkpoint_every, absl::Minutes(1),
          "time between checkpoints; there is one after each epoch and at the end, too");
ABSL_FLAG(int64_t, checkpoint_every_steps, 0, "steps between checkpoints; 0: time alone counts");
ABSL_FLAG(std::string, log_dir, "", "folder for a log that TensorBoard shows");
ABSL_FLAG(std::string, export, "",
          "folder for the trained model as a SavedModel, which TensorFlow loads, too");
ABSL_FLAG(std::string, data, "tools/datasets/mnist", "folder with the four MNIST files");

namespace tandem::demo {
namespace {

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy() {
  const std::string name = absl::GetFlag(FLAGS_strategy);
  const int virtual_replicas = absl::GetFlag(FLAGS_deterministic) ? 8 : 0;
  const absl::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
  if (replicas.has_value() && *replicas < 1) {
    return errors::InvalidArgument("--replicas=", *replicas, ": it must be at least 1");
  }
  if (name == "one_device") {
    if (replicas.value_or(1) > 1) {
      return errors::InvalidArgument("--replicas=", *replicas,
                                     ": --strategy=one_device has one; mirrored and "
                                     "central_storage have as many as wished");
    }
    return Strategy::OneDevice({.virtual_replicas = virtual_replicas});
  }
  if (name == "mirrored" || name == "central_storage") {
    const Strategy::ReplicaOptions options = {.replicas = replicas.value_or(2),
                                              .virtual_replicas = virtual_replicas};
    return name == "mirrored" ? Strategy::Mirrored(options) : Strategy::CentralStorage(options);
  }
  return errors::InvalidArgument("--strategy=", name,
                                 ": it can be mirrored, central_storage or one_device");
}

absl::Status AddCheckpoints(FitOptions& fit) {
  fit.checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir);
  fit.resume = absl::GetFlag(FLAGS_resume);
  // The learning rate falls until the last epoch, so that more epochs make another schedule.
  fit.accept_optimizer_changes = true;
  if (fit.checkpoint_dir.empty()) {
    if (!fit.resume) return absl::OkStatus();
    return errors::InvalidArgument(
        "--resume goes on from a checkpoint; say where they are (--checkpoint_dir=DIR)");
  }
  if (absl::GetFlag(FLAGS_checkpoint_every) <= absl::ZeroDuration() ||
      absl::GetFlag(FLAGS_checkpoint_every_steps) < 0) {
    return errors::InvalidArgument("--checkpoint_every must be a time above 0, as 30s or 10m, and ",
                                   "--checkpoint_every_steps not below 0");
  }
  fit.checkpoints.save_every = absl::GetFlag(FLAGS_checkpoint_every);
  fit.checkpoints.save_every_steps = absl::GetFlag(FLAGS_checkpoint_every_steps);
  fit.checkpoints.retention.max_to_keep = 3;
  if (fit.resume) return absl::OkStatus();
  const auto there = CheckpointsNewestFirst(PosixFileSystem(), fit.checkpoint_dir);
  if (there.ok() && !there->empty()) {
    return errors::FailedPrecondition(
        "--checkpoint_dir=", fit.checkpoint_dir, " has the checkpoints of a training already (",
        FileNameOf(there->front()), "); add --resume to go on with it, or give another folder");
  }
  return absl::OkStatus();
}

absl::Status FlushOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return errors::ResourceExhausted("the results could not be written: ", std::strerror(errno));
}

// The training has handlers of its own; outside of it a signal shall not end the program
// wordlessly.
std::atomic<bool> has_trained{false};

void EndOnSignal(int signal) {
  const auto say = [](absl::string_view text) {
    (void)!write(STDERR_FILENO, text.data(), text.size());
  };
  say(signal == SIGINT    ? "\ndemo: SIGINT: ended "
      : signal == SIGTERM ? "\ndemo: SIGTERM: ended "
                          : "\ndemo: SIGHUP: ended ");
  say(has_trained ? "after the training\n" : "before the training began\n");
  _exit(128 + signal);
}

// Before the first epoch ends nothing else is printed where the output is no terminal.
absl::Status PrintStart(const Strategy& strategy, int64_t images, int64_t steps) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<StrategyBuilder> builder, strategy.NewBuilder());
  const auto ending = [](int64_t count) { return count == 1 ? "" : "s"; };
  const int epochs = absl::GetFlag(FLAGS_epochs);
  const int replicas = builder->num_replicas();
  absl::PrintF("training %s on %d image%s, %d epoch%s of %d step%s; strategy %s, %d replica%s\n",
               absl::GetFlag(FLAGS_model), images, ending(images), epochs, ending(epochs), steps,
               ending(steps), strategy.name(), replicas, ending(replicas));
  return FlushOutput();
}

absl::Status Run() {
  const absl::Time begin = absl::Now();
  const int64_t batch_size = absl::GetFlag(FLAGS_batch_size);
  const uint64_t seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  if (absl::GetFlag(FLAGS_epochs) < 1) {
    return errors::InvalidArgument("--epochs=", absl::GetFlag(FLAGS_epochs),
                                   ": it must be at least 1");
  }
  FitOptions fit;
  fit.epochs = absl::GetFlag(FLAGS_epochs);
  fit.callbacks = {callback::Progress()};
  fit.log_dir = absl::GetFlag(FLAGS_log_dir);
  TANDEM_RETURN_IF_ERROR(AddCheckpoints(fit));
  const std::string export_folder = absl::GetFlag(FLAGS_export);
  if (!export_folder.empty()) {
    TANDEM_RETURN_IF_ERROR(
        CheckExportFolder(export_folder, {{"--checkpoint_dir", absl::GetFlag(FLAGS_checkpoint_dir)},
                                          {"--log_dir", absl::GetFlag(FLAGS_log_dir)}}));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy());
  const std::string folder = absl::GetFlag(FLAGS_data);
  const data::Dataset images_of_training =
      data::Mnist(folder, {.split = data::MnistSplit::kTrain, .label_type = kInt32});
  const data::Dataset train = images_of_training.Shuffle(60000, seed).Batch(batch_size);
  const data::Dataset test =
      data::Mnist(folder, {.split = data::MnistSplit::kTest, .label_type = kInt32}).Batch(500);
  TANDEM_ASSIGN_OR_RETURN(const int64_t steps, train.Cardinality());
  TANDEM_ASSIGN_OR_RETURN(const int64_t images, images_of_training.Cardinality());
  TANDEM_ASSIGN_OR_RETURN(Model model,
                          MakeModel(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_learning_rate),
                                    std::max<int64_t>(steps, 1) * absl::GetFlag(FLAGS_epochs)));
  // Opens all four files: one that is missing shall not be found after an hour of training.
  TANDEM_RETURN_IF_ERROR(test.Cardinality().status());
  Trainer trainer(*strategy, model.layers, loss::SparseSoftmaxCrossEntropy(), model.optimizer,
                  {.seed = absl::GetFlag(FLAGS_seed)});
  TANDEM_RETURN_IF_ERROR(PrintStart(*strategy, images, steps));
  TANDEM_RETURN_IF_ERROR(trainer.Fit(train, fit).status());

  has_trained = true;
  TANDEM_ASSIGN_OR_RETURN(const EpochResult result, trainer.Evaluate(test));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  absl::PrintF("test accuracy %.2f %%  (loss %.4f, %d images)\ntime %.1f s, peak memory %.0f MB\n",
               100 * result.Value("accuracy").value_or(0), result.loss, result.examples,
               absl::ToDoubleSeconds(absl::Now() - begin),
               static_cast<double>(usage.ru_maxrss) / 1024);
  if (!export_folder.empty()) {
    TANDEM_RETURN_IF_ERROR(ExportTo(export_folder, model, trainer));
    absl::PrintF("the model is in %s\n", export_folder);
  }
  return FlushOutput();
}

}  // namespace
}  // namespace tandem::demo

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, tandem::demo::EndOnSignal) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  const tandem::Program program = {"demo",
                                   "trains a network on MNIST; see tools/demo --help.",
                                   "demo_program/main.cc",
                                   {"checkpoint_dir", "log_dir", "export"}};
  if (const auto code = tandem::ParseProgramFlags(program, argc, argv)) return *code;
  const absl::Status status = tandem::CatchOutOfMemory(tandem::demo::Run);
  if (status.ok()) return 0;
  std::fprintf(stderr, "\ndemo: %s\n", std::string(status.message()).c_str());
  if (absl::IsCancelled(status) && !absl::GetFlag(FLAGS_checkpoint_dir).empty()) {
    std::fprintf(stderr, "demo: the same command with --resume goes on there\n");
  }
  return tandem::ExitCodeOf(status);
}
