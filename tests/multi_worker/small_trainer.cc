// A worker whose training is small, says what it does, and can be told where to die. The tests of
// this folder start it, by `tandem launch` or with a TF_CONFIG of their own.
//
// It prints
//   group of 3, rank 1       when members have come or gone, or it was given the state of another
//   step 17 loss 0x1.8p-1    after each step, with all bits of its loss
//   done                     at the end, when the final variables are in --result
// and ends with 143 when SIGTERM has told it to.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/kernel/factories.h"
#include "runtime/cluster/job_environment.h"
#include "runtime/input/dataset.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/layer_call.h"
#include "strategies/nn/loss.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"
#include "strategies/workers.h"
#include "tests/multi_worker/fault_plan.h"
#include "tools/flags/program_flags.h"

ABSL_FLAG(std::string, strategy, "multi_worker_mirrored", "or one_device");
ABSL_FLAG(bool, deterministic, false, "with 8 virtual replicas");
ABSL_FLAG(int, replicas, 1, "of each worker");
ABSL_FLAG(int, epochs, 10, "of 20 steps");
ABSL_FLAG(absl::Duration, step_time, absl::ZeroDuration(),
          "how long a step takes at least, until the file hurry is in --scratch");
ABSL_FLAG(std::string, checkpoint_dir, "", "folder of checkpoints");
ABSL_FLAG(int64_t, save_every_steps, 20, "steps between checkpoints");
ABSL_FLAG(bool, resume, false, "go on from a checkpoint");
ABSL_FLAG(bool, validate, false, "after each epoch");
ABSL_FLAG(bool, evaluate, false, "after the training");
ABSL_FLAG(std::string, result, "", "file for the final variables");
ABSL_FLAG(std::string, scratch, "", "folder for what has happened");
ABSL_FLAG(std::string, die, "", "see fault_plan.h");

namespace tandem::testing {
namespace {

constexpr int64_t kExamples = 480;
constexpr int64_t kBatch = 24;
constexpr int64_t kFeatures = 16;
constexpr int32_t kClasses = 4;

// TestFaultPoint: 0, unless the process is to die where it is.
class FaultPointKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    trains_ = init.Attr<bool>("trains");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (FaultPlan* const plan = FaultPlan::Get()) {
      if (trains_) plan->set_step(c.input(0).Elements<int64_t>()[0] + 1);
      plan->Reach(trains_ ? Place::kStep : Place::kValidate, plan->step());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * zero, c.AllocateOutput(0, Shape()));
    zero->MutableElements<float>()[0] = 0;
    return absl::OkStatus();
  }

 private:
  bool trains_ = false;
};

TANDEM_OP("TestFaultPoint")
    .Inputs("step:int64")
    .Outputs("zero:float32")
    .Attrs("trains:bool")
    .Stateful()
    .Shape(ScalarShape)
    .Cpu(Make<FaultPointKernel>());

nn::LayerPtr FaultPoint() {
  return nn::MakeLayer("fault_point", [](const nn::LayerCall& call) -> absl::StatusOr<Output> {
    const bool trains = call.options().training && call.replica().has_step();
    const Scope& scope = call.scope();
    const Output step = trains ? call.replica().step() : scope.Constant(Tensor::Scalar<int64_t>(0));
    const Output zero = scope.Call("TestFaultPoint", {step}, {{"trains", trains}});
    return scope.Call("AddV2", {call.input(), zero});
  });
}

// Numbers that look random, the same in each process.
std::vector<Tensor> Examples(int64_t count, int64_t first) {
  Tensor x(kFloat32, Shape({count, kFeatures}));
  Tensor y(kInt32, Shape({count}));
  for (int64_t i = 0; i < count; ++i) {
    int32_t best = 0;
    for (int64_t j = 0; j < kFeatures; ++j) {
      const double noise = std::sin(static_cast<double>((first + i) * 97 + j * 31 + 1)) * 1e4;
      const float value = static_cast<float>(noise - std::floor(noise));
      const auto row = x.MutableElements<float>().subspan(static_cast<size_t>(i * kFeatures));
      row[static_cast<size_t>(j)] = value;
      if (j < kClasses && value > row[static_cast<size_t>(best)]) best = static_cast<int32_t>(j);
    }
    y.MutableElements<int32_t>()[static_cast<size_t>(i)] = best;
  }
  return {x, y};
}

// Says what happens, and dies where it is told to.
class Reporter final : public Callback {
 public:
  Reporter(WorkerGroup* workers, FaultPlan* plan) : workers_(workers), plan_(plan) {}

  absl::Status OnBegin(Trainer& trainer) override {
    trainer_ = &trainer;
    NoteGroup(/*has_changed=*/true);
    return absl::OkStatus();
  }
  absl::StatusOr<Next> OnStep(Trainer& trainer, const TrainingProgress& progress) override {
    const bool was_moved = progress.number != last_ + 1;
    NoteGroup(!trainer.TakeMemberEvents().empty() || (was_moved && last_ > 0));
    last_ = progress.number;
    std::printf("step %lld loss %s\n", static_cast<long long>(progress.number),
                absl::StrFormat("%a", progress.step_loss).c_str());
    std::fflush(stdout);
    plan_->Reach(Place::kAfter, progress.number);
    const absl::Duration rest = absl::GetFlag(FLAGS_step_time);
    if (rest > absl::ZeroDuration() &&
        !std::filesystem::exists(absl::GetFlag(FLAGS_scratch) + "/hurry")) {
      absl::SleepFor(rest);
    }
    return Next::kGoOn;
  }
  absl::Status OnEnd(Trainer& trainer, const absl::Status& status) override {
    if (status.ok()) plan_->Reach(Place::kEnd, trainer.step());
    return absl::OkStatus();
  }

  std::string state_name() const override { return "reporter"; }
  // Called where a checkpoint begins, and where another worker is given the state.
  absl::StatusOr<StrategyState> SaveState() override {
    if (trainer_->is_chief()) plan_->BeginSave(trainer_->step());
    StrategyState state;
    state.emplace_back("saves", Tensor::Scalar<int64_t>(++saves_));
    return state;
  }
  absl::Status RestoreState(const StrategyState& state) override {
    for (const auto& [name, value] : state) {
      if (name == "saves") saves_ = value.Elements<int64_t>()[0];
    }
    return absl::OkStatus();
  }

 private:
  void NoteGroup(bool has_changed) {
    plan_->set_is_chief(trainer_->is_chief());
    if (workers_ == nullptr) return;
    const std::pair<int, int> now = {workers_->size(), workers_->rank()};
    if (!has_changed && now == group_) return;
    group_ = now;
    std::printf("group of %d, rank %d\n", now.first, now.second);
    std::fflush(stdout);
  }

  WorkerGroup* const workers_;
  FaultPlan* const plan_;
  Trainer* trainer_ = nullptr;
  std::pair<int, int> group_ = {0, 0};
  int64_t last_ = 0;  // The step that was completed last.
  int64_t saves_ = 0;
};

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy() {
  const int virtual_replicas = absl::GetFlag(FLAGS_deterministic) ? 8 : 0;
  if (absl::GetFlag(FLAGS_strategy) == "one_device") {
    return Strategy::OneDevice({.virtual_replicas = virtual_replicas});
  }
  Strategy::MultiWorkerOptions options;
  options.replicas = absl::GetFlag(FLAGS_replicas);
  options.virtual_replicas = virtual_replicas;
  return Strategy::MultiWorkerMirrored(std::move(options));
}

// The bytes of all variables, slots too.
absl::Status WriteResult(Trainer& trainer, int worker) {
  if (absl::GetFlag(FLAGS_result).empty()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
  std::string bytes;
  for (const auto& [name, value] : state) {
    absl::StrAppend(&bytes, name, "\n",
                    absl::string_view(static_cast<const char*>(value.data()), value.num_bytes()),
                    "\n");
  }
  return WriteFileAtomically(PosixFileSystem(),
                             absl::StrCat(absl::GetFlag(FLAGS_result), ".", worker), bytes);
}

absl::Status Train() {
  TANDEM_ASSIGN_OR_RETURN(const absl::optional<JobEnvironment> job, ReadJobEnvironment());
  const bool is_worker = job.has_value() && job->config.task.has_value();
  const int worker = is_worker ? job->config.task->index : 0;
  TANDEM_ASSIGN_OR_RETURN(
      FaultPlan* const plan,
      FaultPlan::Make(absl::GetFlag(FLAGS_die), absl::GetFlag(FLAGS_scratch), worker));
  plan->Reach(Place::kStart, 0);
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy());
  // Dropout makes the seeds of a step count, and the slots of Adam are part of the result.
  const nn::LayerPtr model = nn::Sequential({
      FaultPoint(),
      nn::Dense({.units = 32, .activation = "relu"}),
      nn::Dropout({.rate = 0.1}),
      nn::Dense({.units = kClasses}),
  });
  Trainer trainer(*strategy, model, loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({.learning_rate = 0.01}));
  FitOptions fit;
  fit.epochs = absl::GetFlag(FLAGS_epochs);
  fit.checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir);
  const char* const restarts = std::getenv("TANDEM_RESTART_COUNT");
  const bool begins_again = restarts != nullptr && absl::string_view(restarts) != "0";
  fit.resume = !fit.checkpoint_dir.empty() && (absl::GetFlag(FLAGS_resume) || begins_again);
  fit.checkpoints.save_every_steps = absl::GetFlag(FLAGS_save_every_steps);
  fit.checkpoints.retention.max_to_keep = 3;
  fit.checkpoint_epochs = false;
  fit.callbacks = {std::make_shared<Reporter>(strategy->workers(), plan)};
  const data::Dataset train = data::Dataset::FromTensors(Examples(kExamples, 0))
                                  .Shuffle(100, /*seed=*/7)
                                  .Batch(kBatch)
                                  .Prefetch(2);
  // Its last batch is a part of one.
  const data::Dataset others = data::Dataset::FromTensors(Examples(70, kExamples)).Batch(kBatch);
  if (absl::GetFlag(FLAGS_validate)) fit.validation = others;
  TANDEM_RETURN_IF_ERROR(trainer.Fit(train, fit).status());
  if (absl::GetFlag(FLAGS_evaluate)) {
    TANDEM_ASSIGN_OR_RETURN(const EpochResult result, trainer.Evaluate(others));
    std::printf("evaluated %lld, loss %s\n", static_cast<long long>(result.examples),
                absl::StrFormat("%a", result.loss).c_str());
  }
  TANDEM_RETURN_IF_ERROR(WriteResult(trainer, worker));
  std::printf("done\n");
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main() {
  const absl::Status status = Train();
  if (status.ok()) return 0;
  std::fprintf(stderr, "small_trainer: %s\n", status.ToString().c_str());
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  // Where there is no training yet.
  std::signal(SIGTERM, [](int) { _exit(143); });
  const tandem::Program program = {"small_trainer", "trains a little; a part of tests.",
                                   "multi_worker/small_trainer.cc"};
  if (const auto code = tandem::ParseProgramFlags(program, argc, argv)) return *code;
  return tandem::testing::Main();
}
