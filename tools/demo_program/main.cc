// Trains a network on MNIST. tools/demo builds and starts this program; its --help explains the
// flags.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/cluster/job_environment.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/input/dataset.h"
#include "strategies/parameter_server/serve_task.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"
#include "strategies/workers.h"
#include "tools/demo_program/export.h"
#include "tools/demo_program/models.h"
#include "tools/demo_program/servers.h"
#include "tools/demo_program/workers.h"
#include "tools/flags/program_flags.h"

ABSL_FLAG(std::string, model, "cnn", "cnn, lenet or mlp");
ABSL_FLAG(std::string, strategy, "mirrored",
          "mirrored, multi_worker_mirrored, parameter_server, central_storage or one_device");
ABSL_FLAG(absl::optional<std::string>, workers, absl::nullopt,
          "how many processes multi_worker_mirrored starts; normally 2. With 2:4 the training goes "
          "on as long as two of four are left. Also how many workers parameter_server has");
ABSL_FLAG(absl::optional<int>, servers, absl::nullopt,
          "how many processes with variables parameter_server starts; normally 2");
ABSL_FLAG(absl::optional<std::string>, mode, absl::nullopt,
          "how the workers of parameter_server go together: async, bounded or sync");
ABSL_FLAG(absl::optional<int>, backup_workers, absl::nullopt,
          "of parameter_server in the mode sync: how many workers a step does not wait for");
ABSL_FLAG(absl::optional<std::string>, replication, absl::nullopt,
          "of parameter_server: a copy of each server's variables on the next one: none, "
          "asynchronous or synchronous; normally asynchronous where there are two servers");
ABSL_FLAG(absl::optional<int>, replicas, absl::nullopt,
          "how many virtual CPU devices to train on; normally 2, and one with one_device and in "
          "each process of multi_worker_mirrored");
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

constexpr char kMultiWorker[] = "multi_worker_mirrored";
constexpr char kParameterServer[] = "parameter_server";
constexpr int kVirtualReplicas = 8;

// This is one of several processes, which another program has started: one of those of
// multi_worker_mirrored, or the chief of parameter_server.
std::atomic<bool> is_worker{false};
// It is the chief of those, or all that there is.
bool speaks = true;

int NumServers() { return absl::GetFlag(FLAGS_servers).value_or(2); }

// REQUIRES: CheckParameterServer.
int NumWorkers() {
  int workers = 2;
  const absl::optional<std::string> text = absl::GetFlag(FLAGS_workers);
  if (text.has_value()) (void)absl::SimpleAtoi(*text, &workers);
  return workers;
}

absl::Status CheckParameterServer() {
  if (absl::GetFlag(FLAGS_replicas).has_value() || absl::GetFlag(FLAGS_deterministic)) {
    return errors::InvalidArgument("--replicas and --deterministic: --strategy=", kParameterServer,
                                   " has a replica in each worker, whose updates come as they do");
  }
  const absl::optional<std::string> workers = absl::GetFlag(FLAGS_workers);
  int count = 0;
  if (workers.has_value() && (!absl::SimpleAtoi(*workers, &count) || count < 1)) {
    return errors::InvalidArgument("--workers=", *workers, ": with --strategy=", kParameterServer,
                                   " it is a number from 1 on");
  }
  if (NumServers() < 1) {
    return errors::InvalidArgument("--servers=", NumServers(), ": it must be at least 1");
  }
  const std::string mode = absl::GetFlag(FLAGS_mode).value_or("async");
  if (mode != "async" && mode != "bounded" && mode != "sync") {
    return errors::InvalidArgument("--mode=", mode, ": it can be async, bounded or sync");
  }
  const int backup = absl::GetFlag(FLAGS_backup_workers).value_or(0);
  if (backup < 0 || backup >= NumWorkers() || (backup > 0 && mode != "sync")) {
    return errors::InvalidArgument("--backup_workers=", backup,
                                   ": with --mode=sync it can be 0 to ", NumWorkers() - 1,
                                   ", else 0");
  }
  const std::string replication = absl::GetFlag(FLAGS_replication).value_or("none");
  if (replication != "none" && replication != "asynchronous" && replication != "synchronous") {
    return errors::InvalidArgument("--replication=", replication,
                                   ": it can be none, asynchronous or synchronous");
  }
  if (replication != "none" && NumServers() < 2) {
    return errors::InvalidArgument("--replication=", replication, ": it takes two servers");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeParameterServer() {
  Strategy::ParameterServerOptions options;
  const std::string mode = absl::GetFlag(FLAGS_mode).value_or("async");
  if (mode == "bounded") options.mode = Strategy::ParameterServerMode::kBoundedStaleness;
  if (mode == "sync") options.mode = Strategy::ParameterServerMode::kSynchronous;
  options.backup_workers = absl::GetFlag(FLAGS_backup_workers).value_or(0);
  options.replication =
      absl::GetFlag(FLAGS_replication).value_or(NumServers() > 1 ? "asynchronous" : "none");
  // Who started this process starts no chief again that has failed.
  options.ends_with_failure = true;
  return Strategy::ParameterServer(std::move(options));
}

// Of this process.
int NumReplicas() {
  const std::string name = absl::GetFlag(FLAGS_strategy);
  const int of_strategy = name == "mirrored" || name == "central_storage" ? 2 : 1;
  return absl::GetFlag(FLAGS_replicas).value_or(of_strategy);
}

// What can be known before there is a strategy.
absl::Status CheckStrategy() {
  const std::string name = absl::GetFlag(FLAGS_strategy);
  const absl::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
  if (replicas.has_value() && *replicas < 1) {
    return errors::InvalidArgument("--replicas=", *replicas, ": it must be at least 1");
  }
  if (absl::GetFlag(FLAGS_deterministic) && replicas.value_or(1) > kVirtualReplicas) {
    return errors::InvalidArgument("--replicas=", *replicas, ": with --deterministic at most ",
                                   kVirtualReplicas);
  }
  if (name == kParameterServer) return CheckParameterServer();
  for (const auto& [flag, is_set] :
       {std::pair("servers", absl::GetFlag(FLAGS_servers).has_value()),
        std::pair("mode", absl::GetFlag(FLAGS_mode).has_value()),
        std::pair("backup_workers", absl::GetFlag(FLAGS_backup_workers).has_value()),
        std::pair("replication", absl::GetFlag(FLAGS_replication).has_value())}) {
    if (!is_set) continue;
    return errors::InvalidArgument("--", flag, ": --strategy=", name, " has no servers; ",
                                   kParameterServer, " has");
  }
  const absl::optional<std::string> workers = absl::GetFlag(FLAGS_workers);
  if (!workers.has_value()) return absl::OkStatus();
  if (name != kMultiWorker) {
    return errors::InvalidArgument("--workers=", *workers, ": --strategy=", name,
                                   " trains in one process; ", kMultiWorker, " and ",
                                   kParameterServer, " do in several");
  }
  return WithContext(ParseWorkerRange(*workers).status(), "--workers");
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy() {
  TANDEM_RETURN_IF_ERROR(CheckStrategy());
  const std::string name = absl::GetFlag(FLAGS_strategy);
  const int virtual_replicas = absl::GetFlag(FLAGS_deterministic) ? kVirtualReplicas : 0;
  const absl::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
  if (name == "one_device") {
    if (replicas.value_or(1) > 1) {
      return errors::InvalidArgument("--replicas=", *replicas,
                                     ": --strategy=one_device has one; mirrored and "
                                     "central_storage have as many as wished");
    }
    return Strategy::OneDevice({.virtual_replicas = virtual_replicas});
  }
  if (name == kMultiWorker) {
    Strategy::MultiWorkerOptions options;
    options.replicas = NumReplicas();
    options.virtual_replicas = virtual_replicas;
    return Strategy::MultiWorkerMirrored(std::move(options));
  }
  if (name == kParameterServer) return MakeParameterServer();
  if (name == "mirrored" || name == "central_storage") {
    const Strategy::ReplicaOptions options = {.replicas = NumReplicas(),
                                              .virtual_replicas = virtual_replicas};
    return name == "mirrored" ? Strategy::Mirrored(options) : Strategy::CentralStorage(options);
  }
  return errors::InvalidArgument("--strategy=", name, ": it can be mirrored, ", kMultiWorker, ", ",
                                 kParameterServer, ", central_storage or one_device");
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
  // A worker that was started again goes on where its job is by now.
  if (is_worker && RestartCount() > 0) fit.resume = true;
  // Of workers that begin the chief looks at what is there.
  if (fit.resume || is_worker) return absl::OkStatus();
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

// Whether the line that shows the progress may stand there, without an end.
bool IsLineOpen() { return !is_worker && isatty(STDOUT_FILENO) == 1; }

void EndOnSignal(int signal) {
  const auto say = [](absl::string_view text) {
    (void)!write(STDERR_FILENO, text.data(), text.size());
  };
  // Not behind the line that shows the progress.
  if (IsLineOpen()) say("\n");
  say(signal == SIGINT    ? "demo: SIGINT: ended "
      : signal == SIGTERM ? "demo: SIGTERM: ended "
                          : "demo: SIGHUP: ended ");
  say(has_trained ? "after the training\n" : "before the training began\n");
  _exit(128 + signal);
}

std::string Count(int64_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// "2 replicas", "2 workers of 1 replica", "2 workers, 2 servers, async".
absl::StatusOr<std::string> DescribeReplicas(const Strategy& strategy) {
  if (strategy.name() == kParameterServer) {
    return absl::StrCat(Count(NumWorkers(), "worker"), ", ", Count(NumServers(), "server"), ", ",
                        absl::GetFlag(FLAGS_mode).value_or("async"));
  }
  if (const WorkerGroup* const workers = strategy.workers()) {
    const std::string processes = Count(workers->size(), "worker");
    if (absl::GetFlag(FLAGS_deterministic)) {
      return absl::StrCat(processes, ", ", Count(kVirtualReplicas, "virtual replica"));
    }
    return absl::StrCat(processes, " of ", Count(NumReplicas(), "replica"));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<StrategyBuilder> builder, strategy.NewBuilder());
  if (absl::GetFlag(FLAGS_deterministic)) {
    return absl::StrCat(Count(NumReplicas(), "replica"), " for ", builder->num_replicas(),
                        " virtual ones");
  }
  return Count(builder->num_replicas(), "replica");
}

// Before the first epoch ends nothing else is printed where the output is no terminal.
absl::Status PrintStart(const Strategy& strategy, int64_t images, int64_t steps) {
  TANDEM_ASSIGN_OR_RETURN(const std::string replicas, DescribeReplicas(strategy));
  absl::PrintF("training %s on %s, %s of %s; strategy %s, %s\n", absl::GetFlag(FLAGS_model),
               Count(images, "image"), Count(absl::GetFlag(FLAGS_epochs), "epoch"),
               Count(steps, "step"), strategy.name(), replicas);
  return FlushOutput();
}

// All that the flags say but the strategy.
struct Training {
  FitOptions fit;
  data::Dataset train;
  data::Dataset test;
  int64_t images = 0;
  int64_t steps = 0;  // Of an epoch.
  Model model;
};

// Those that the trainer would refuse, too, without knowing the flag's name.
absl::Status CheckTrainingFlags() {
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>("epochs", absl::GetFlag(FLAGS_epochs)),
        std::pair<const char*, int64_t>("batch_size", absl::GetFlag(FLAGS_batch_size))}) {
    if (value < 1) {
      return errors::InvalidArgument("--", name, "=", value, ": it must be at least 1");
    }
  }
  const double rate = absl::GetFlag(FLAGS_learning_rate);
  if (!std::isfinite(rate) || rate < 0) {
    return errors::InvalidArgument("--learning_rate=", rate,
                                   ": it must be a finite number and not negative");
  }
  if (absl::GetFlag(FLAGS_data).empty()) {
    return errors::InvalidArgument(
        "--data=: it must name the folder with the four MNIST files (tools/datasets/mnist)");
  }
  return absl::OkStatus();
}

absl::StatusOr<FitOptions> MakeFitOptions() {
  TANDEM_RETURN_IF_ERROR(CheckTrainingFlags());
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
  return fit;
}

// Opens all four files: one that is missing shall not be found after an hour of training.
absl::StatusOr<Training> MakeTraining(FitOptions fit) {
  const int64_t batch_size = absl::GetFlag(FLAGS_batch_size);
  const uint64_t seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  const std::string folder = absl::GetFlag(FLAGS_data);
  const data::Dataset images =
      data::Mnist(folder, {.split = data::MnistSplit::kTrain, .label_type = kInt32});
  Training training = {
      .fit = std::move(fit),
      .train = images.Shuffle(60000, seed).Batch(batch_size),
      .test =
          data::Mnist(folder, {.split = data::MnistSplit::kTest, .label_type = kInt32}).Batch(500)};
  TANDEM_ASSIGN_OR_RETURN(training.steps, training.train.Cardinality());
  TANDEM_ASSIGN_OR_RETURN(training.images, images.Cardinality());
  TANDEM_ASSIGN_OR_RETURN(
      training.model,
      MakeModel(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_learning_rate),
                std::max<int64_t>(training.steps, 1) * absl::GetFlag(FLAGS_epochs)));
  TANDEM_RETURN_IF_ERROR(training.test.Cardinality().status());
  return training;
}

absl::Status Train() {
  const absl::Time begin = absl::Now();
  TANDEM_ASSIGN_OR_RETURN(FitOptions fit, MakeFitOptions());
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy());
  if (is_worker) {
    // The chief tells how the training begins.
    const bool begins = strategy->is_chief() && RestartCount() == 0;
    if (!begins) KeepLogQuiet(/*is_chief=*/false);
    for (CallbackPtr& callback : fit.callbacks) callback = InChiefOnly(std::move(callback));
  }
  TANDEM_ASSIGN_OR_RETURN(const Training training, MakeTraining(std::move(fit)));
  Trainer trainer(*strategy, training.model.layers, loss::SparseSoftmaxCrossEntropy(),
                  training.model.optimizer, {.seed = absl::GetFlag(FLAGS_seed)});
  if (!is_worker || (strategy->is_chief() && RestartCount() == 0)) {
    TANDEM_RETURN_IF_ERROR(PrintStart(*strategy, training.images, training.steps));
  }
  const absl::Status trained = trainer.Fit(training.train, training.fit).status();
  speaks = !is_worker || trainer.is_chief();
  TANDEM_RETURN_IF_ERROR(trained);

  has_trained = true;
  TANDEM_ASSIGN_OR_RETURN(const EpochResult result, trainer.Evaluate(training.test));
  speaks = !is_worker || trainer.is_chief();
  if (!speaks) return absl::OkStatus();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  absl::PrintF(
      "test accuracy %.2f %%  (loss %.4f, %d images)\ntime %.1f s, peak memory %.0f MB%s\n",
      100 * result.Value("accuracy").value_or(0), result.loss, result.examples,
      absl::ToDoubleSeconds(absl::Now() - begin), static_cast<double>(usage.ru_maxrss) / 1024,
      strategy->name() == kParameterServer ? " in the chief"
      : is_worker                          ? " in this worker"
                                           : "");
  const std::string export_folder = absl::GetFlag(FLAGS_export);
  if (!export_folder.empty()) {
    TANDEM_RETURN_IF_ERROR(ExportTo(export_folder, training.model, trainer));
    absl::PrintF("the model is in %s\n", export_folder);
  }
  return FlushOutput();
}

// The demo that a user starts, of several workers: finds what is wrong once, not in each of them,
// and starts them.
absl::Status StartWorkers(const std::vector<std::string>& flags, int* code) {
  TANDEM_RETURN_IF_ERROR(CheckStrategy());
  TANDEM_ASSIGN_OR_RETURN(FitOptions fit, MakeFitOptions());
  TANDEM_RETURN_IF_ERROR(MakeTraining(std::move(fit)).status());
  if (absl::GetFlag(FLAGS_strategy) == kParameterServer) {
    return RunWithServers(NumWorkers(), NumServers(), flags, code);
  }
  return RunInWorkers(absl::GetFlag(FLAGS_workers).value_or("2"), flags, code);
}

// A server or a worker of parameter_server.
absl::Status ServeTask(const ClusterConfig& config, int* code) {
  KeepLogQuiet(/*is_chief=*/false);
  speaks = false;
  const absl::Status status = parameter_server::ServeTask(config);
  *code = ExitCodeOf(status);
  return status;
}

// `code` is set where it is another one than the status says.
absl::Status Run(const std::vector<std::string>& flags, int* code) {
  const std::string strategy = absl::GetFlag(FLAGS_strategy);
  if (strategy != kMultiWorker && strategy != kParameterServer) return Train();
  TANDEM_ASSIGN_OR_RETURN(const absl::optional<JobEnvironment> job, ReadJobEnvironment());
  if (!job.has_value()) return StartWorkers(flags, code);
  if (strategy == kParameterServer) {
    const absl::optional<TaskId>& task = job->config.task;
    if (task.has_value() && (task->job == "ps" || task->job == "worker")) {
      return ServeTask(job->config, code);
    }
    is_worker = true;
    return Train();
  }
  is_worker = true;
  const absl::Status status = Train();
  *code = WorkerExitCode(status);
  return status;
}

int Main(const std::vector<std::string>& flags) {
  int code = -1;
  const absl::Status status = CatchOutOfMemory([&] { return Run(flags, &code); });
  if (code < 0) code = ExitCodeOf(status);
  // Of workers that were told to stop one says so.
  if (status.ok() || (absl::IsCancelled(status) && !speaks)) return code;
  std::fprintf(stderr, "%sdemo: %s\n", IsLineOpen() ? "\n" : "",
               std::string(status.message()).c_str());
  if (!is_worker && absl::IsCancelled(status) && !absl::GetFlag(FLAGS_checkpoint_dir).empty()) {
    std::fprintf(stderr, "demo: the same command with --resume goes on there\n");
  }
  return code;
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
                                   {"workers", "servers", "mode", "backup_workers", "replication",
                                    "checkpoint_dir", "log_dir", "export"}};
  if (const auto code = tandem::ParseProgramFlags(program, argc, argv)) return *code;
  return tandem::demo::Main({argv + std::min(argc, 1), argv + argc});
}
