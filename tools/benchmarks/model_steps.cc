// model_steps: times one model's training steps, or its inference, in one process; tools/bench runs
// it in turn with the same of TensorFlow and PyTorch (peers/).
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/io/npz.h"
#include "runtime/executor/trace.h"
#include "strategies/nn/loss.h"
#include "strategies/strategy.h"
#include "strategies/trainer/train_step.h"
#include "tools/benchmarks/models.h"
#include "tools/flags/program_flags.h"

ABSL_FLAG(std::string, model, "", "which model; --list names them");
ABSL_FLAG(bool, list, false, "print the names of the models");
ABSL_FLAG(double, seconds, 6, "how long steps are timed; 0: only the first one is run");
ABSL_FLAG(bool, inference, false, "outputs for one example instead of training steps");
ABSL_FLAG(int, replicas, 0, "train on so many mirrored replicas; 0: on one device");
ABSL_FLAG(std::string, save, "",
          "a .npz file to write the initial variables and the batch into; then no step is timed, "
          "but the losses of the first 20 are printed");
ABSL_FLAG(bool, profile, false, "print where the time of a step goes, by op");

namespace tandem::benchmarks {
namespace {

constexpr int kCheckedSteps = 20;
constexpr int kWarmUp = 5;

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// A strategy's program of the model, ready to run.
class Steps {
 public:
  static absl::StatusOr<std::unique_ptr<Steps>> Create(const Model& model, bool inference,
                                                       int replicas) {
    auto steps = std::unique_ptr<Steps>(new Steps());
    if (replicas > 0) {
      TANDEM_ASSIGN_OR_RETURN(steps->strategy_, Strategy::Mirrored({.replicas = replicas}));
    } else {
      TANDEM_ASSIGN_OR_RETURN(steps->strategy_, Strategy::OneDevice({}));
    }
    steps->batch_ = MakeBatch(model, inference ? 1 : model.batch_size);
    TrainStepOptions options;
    for (const Tensor& tensor : steps->batch_) {
      PartialShape shape(tensor.shape());
      shape.SetDim(0, -1);
      options.batch.push_back({shape, tensor.dtype()});
    }
    TANDEM_ASSIGN_OR_RETURN(steps->builder_, steps->strategy_->NewBuilder());
    TANDEM_ASSIGN_OR_RETURN(const TrainStep built, BuildTrainStep(*steps->builder_, *model.layers,
                                                                  loss::SparseSoftmaxCrossEntropy(),
                                                                  *model.optimizer, options));
    TANDEM_ASSIGN_OR_RETURN(steps->runner_, steps->strategy_->NewRunner(*steps->builder_));
    if (inference) steps->batch_.pop_back();
    TANDEM_ASSIGN_OR_RETURN(steps->program_,
                            steps->runner_->AddProgram(inference ? built.predict : built.train));
    TANDEM_RETURN_IF_ERROR(steps->runner_->Initialize());
    steps->is_inference_ = inference;
    steps->learning_rate_ = static_cast<float>(model.optimizer->LearningRate(0));
    return steps;
  }

  // The fetches of the next step: of a training step its loss.
  absl::StatusOr<std::vector<Tensor>> Next(std::vector<StepTracer::Event>* trace = nullptr) {
    StepInput input;
    input.step = step_;
    input.batch = batch_;
    input.trace = trace;
    if (!is_inference_) {
      input.values = {Tensor::Scalar<float>(static_cast<float>(batch_[0].shape().dim(0))),
                      Tensor::Scalar<float>(learning_rate_), Tensor::Scalar<int64_t>(step_)};
    }
    ++step_;
    return runner_->Run(program_, std::move(input));
  }

  absl::Status Save(const std::string& path) {
    TANDEM_ASSIGN_OR_RETURN(const StrategyState state, runner_->CaptureState());
    std::vector<NamedArray> arrays;
    for (const auto& [name, tensor] : state) arrays.push_back({name, tensor});
    for (size_t i = 0; i < batch_.size(); ++i) {
      arrays.push_back({absl::StrCat("batch_", i), batch_[i]});
    }
    return WriteNpz(PosixFileSystem(), path, arrays);
  }

 private:
  Steps() = default;

  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<StrategyRunner> runner_;
  std::vector<Tensor> batch_;
  int program_ = 0;
  bool is_inference_ = false;
  float learning_rate_ = 0;
  int64_t step_ = 0;
};

double PeakMegabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

absl::Status Time(Steps& steps, double seconds) {
  TANDEM_RETURN_IF_ERROR(steps.Next().status());
  // Whoever waits for this line knows how long it took from the process's start.
  std::printf("first step\n");
  std::fflush(stdout);
  if (seconds <= 0) return absl::OkStatus();
  for (int i = 1; i < kWarmUp; ++i) TANDEM_RETURN_IF_ERROR(steps.Next().status());
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  while (times.empty() || Clock::now() < end) {
    const Clock::time_point begin = Clock::now();
    TANDEM_RETURN_IF_ERROR(steps.Next().status());
    times.push_back(Milliseconds(Clock::now() - begin));
  }
  std::sort(times.begin(), times.end());
  const auto quantile = [&times](double part) {
    return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
  };
  std::printf(
      "{\"median_ms\": %.6f, \"p10_ms\": %.6f, \"p90_ms\": %.6f, \"steps\": %zu, "
      "\"peak_mb\": %.1f}\n",
      quantile(0.5), quantile(0.1), quantile(0.9), times.size(), PeakMegabytes());
  return absl::OkStatus();
}

absl::Status SaveAndCheck(Steps& steps, const std::string& path) {
  TANDEM_RETURN_IF_ERROR(steps.Save(path));
  std::vector<double> losses;
  for (int i = 0; i < kCheckedSteps; ++i) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, steps.Next());
    losses.push_back(fetched[0].ScalarValue<float>());
  }
  std::printf("{\"losses\": [%s]}\n", absl::StrJoin(losses, ", ").c_str());
  return absl::OkStatus();
}

// Nanoseconds in which at least one, and in which no node ran: what is left is the executor's and
// whoever waits.
struct Cover {
  int64_t busy = 0;
  int64_t span = 0;
};
Cover CoverOf(std::vector<StepTracer::Event> events) {
  std::sort(events.begin(), events.end(),
            [](const auto& a, const auto& b) { return a.start_nanoseconds < b.start_nanoseconds; });
  Cover cover;
  if (events.empty()) return cover;
  int64_t end = events[0].start_nanoseconds;
  for (const StepTracer::Event& event : events) {
    const int64_t begin = std::max(end, event.start_nanoseconds);
    if (event.end_nanoseconds > begin) cover.busy += event.end_nanoseconds - begin;
    end = std::max(end, event.end_nanoseconds);
  }
  cover.span = end - events[0].start_nanoseconds;
  return cover;
}

int64_t BytesOf(const std::vector<StepTracer::Value>& values) {
  int64_t bytes = 0;
  for (const StepTracer::Value& value : values) {
    if (value.dtype == DataType::kInvalid) continue;
    bytes += value.shape.num_elements() * static_cast<int64_t>(DataTypeSize(value.dtype));
  }
  return bytes;
}

absl::Status Profile(Steps& steps) {
  constexpr int kSteps = 50;
  struct Sum {
    int64_t nanoseconds = 0;
    int64_t bytes = 0;
    int calls = 0;
  };
  std::map<std::string, Sum> by_op;
  Sum all;
  Cover cover;
  double wall = 0;
  for (int i = 0; i < kWarmUp; ++i) TANDEM_RETURN_IF_ERROR(steps.Next().status());
  for (int i = 0; i < kSteps; ++i) {
    std::vector<StepTracer::Event> events;
    const Clock::time_point begin = Clock::now();
    TANDEM_RETURN_IF_ERROR(steps.Next(&events).status());
    wall += Milliseconds(Clock::now() - begin);
    for (const StepTracer::Event& event : events) {
      const int64_t bytes = BytesOf(event.inputs) + BytesOf(event.outputs);
      for (Sum* const sum : {&by_op[event.op], &all}) {
        sum->nanoseconds += event.end_nanoseconds - event.start_nanoseconds;
        sum->bytes += bytes;
        ++sum->calls;
      }
    }
    const Cover one = CoverOf(std::move(events));
    cover.busy += one.busy;
    cover.span += one.span;
  }
  std::vector<std::pair<std::string, Sum>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.nanoseconds > b.second.nanoseconds;
  });
  rows.emplace_back("all ops", all);
  std::printf("%-40s %8s %10s %7s %9s %9s\n", "op", "a step", "us a step", "share", "MB", "GB/s");
  for (const auto& [op, sum] : rows) {
    const double micros = static_cast<double>(sum.nanoseconds) / 1e3 / kSteps;
    const double megabytes = static_cast<double>(sum.bytes) / 1e6 / kSteps;
    std::printf("%-40s %8.1f %10.1f %6.1f%% %9.2f %9.1f\n", op.c_str(),
                static_cast<double>(sum.calls) / kSteps, micros,
                100 * static_cast<double>(sum.nanoseconds) /
                    static_cast<double>(std::max<int64_t>(1, all.nanoseconds)),
                megabytes, micros > 0 ? megabytes / micros * 1e3 : 0);
  }
  std::printf(
      "a traced step: %.3f ms; some op ran in %.3f ms of it, none in %.3f ms between the "
      "first op and the last, %.3f ms before and after\n",
      wall / kSteps, static_cast<double>(cover.busy) / 1e6 / kSteps,
      static_cast<double>(cover.span - cover.busy) / 1e6 / kSteps,
      wall / kSteps - static_cast<double>(cover.span) / 1e6 / kSteps);
  return absl::OkStatus();
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_list)) {
    std::printf("%s\n", absl::StrJoin(ModelNames(), "\n").c_str());
    return absl::OkStatus();
  }
  const bool inference = absl::GetFlag(FLAGS_inference);
  const std::string save = absl::GetFlag(FLAGS_save);
  if (inference && !save.empty()) {
    return errors::InvalidArgument("--save checks training; it does not go with --inference");
  }
  TANDEM_ASSIGN_OR_RETURN(const Model model, MakeModel(absl::GetFlag(FLAGS_model)));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Steps> steps,
                          Steps::Create(model, inference, absl::GetFlag(FLAGS_replicas)));
  if (!save.empty()) return SaveAndCheck(*steps, save);
  if (absl::GetFlag(FLAGS_profile)) return Profile(*steps);
  return Time(*steps, absl::GetFlag(FLAGS_seconds));
}

constexpr Program kProgram = {"model_steps",
                              "model_steps --model=NAME - time a model's training steps\n"
                              "\n"
                              "Prints \"first step\" after the first one, then a JSON object: "
                              "median, 10th and 90th percentile\n"
                              "in milliseconds, and the peak memory of the process. "
                              "TANDEM_NUM_THREADS says how many threads\n"
                              "it has. tools/bench runs it beside other systems.",
                              "model_steps.cc"};

}  // namespace
}  // namespace tandem::benchmarks

int main(int argc, char** argv) {
  using namespace tandem;
  if (const absl::optional<int> code = ParseProgramFlags(benchmarks::kProgram, argc, argv)) {
    return *code;
  }
  const absl::Status status = benchmarks::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "model_steps: %s\n", std::string(status.message()).c_str());
  return 1;
}
