#include "strategies/trainer/log_callback.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/graph.h"
#include "proto/config.pb.h"
#include "runtime/session/step_stats.h"
#include "runtime/session/timeline.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

double PerSecond(int64_t examples, absl::Duration time) {
  return static_cast<double>(examples) / std::max(1e-9, absl::ToDoubleSeconds(time));
}

// The steps that are traced.
class Traces {
 public:
  Traces(std::pair<int64_t, int64_t> steps) : first_(steps.first), last_(steps.second) {}

  bool Wants(int64_t number) const { return number >= first_ && number <= last_ && last_ > 0; }
  void Add(const std::vector<StepTracer::Event>& events) {
    events_.insert(events_.end(), events.begin(), events.end());
    ++steps_;
  }
  bool complete() const { return steps_ == last_ - first_ + 1; }
  bool empty() const { return events_.empty(); }

  absl::Status Write(FileSystem* files, const std::string& folder) {
    const std::string path =
        JoinPath(folder, absl::StrCat("steps_", first_, "-", last_, ".trace.json"));
    const absl::Status status = WriteFileAtomically(files, path, ChromeTrace(events_));
    events_.clear();
    return status;
  }

 private:
  const int64_t first_;
  const int64_t last_;
  int64_t steps_ = 0;
  std::vector<StepTracer::Event> events_;
};

// One training. Its functions return errors of the training; what goes wrong with the log is noted.
class TrainingLog {
 public:
  TrainingLog(std::string folder, const LogOptions& options)
      : folder_(std::move(folder)), options_(options), traces_(options.trace_steps) {}

  absl::Status Begin() {
    TANDEM_ASSIGN_OR_RETURN(train_, Open("train"));
    if (options_.hyperparameters.empty()) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(run_, LogWriter::Open(folder_, options_.writer));
    return run_->WriteHyperparameters(options_.hyperparameters, options_.group);
  }

  bool WantsTrace(int64_t number) const { return traces_.Wants(number); }

  void Step(const Trainer& trainer, const TrainingProgress& progress) {
    if (first_step_ == 0) {
      first_step_ = progress.number;
      if (first_step_ > 1) Note(train_->WriteRestart(first_step_));
      if (options_.graph && trainer.graph() != nullptr) Note(train_->WriteGraph(*trainer.graph()));
    }
    if (progress.trace != nullptr) Trace(progress);
    learning_rate_ = progress.learning_rate;
    window_loss_ += progress.step_loss * static_cast<double>(progress.step_examples);
    window_examples_ += progress.step_examples;
    if (options_.every_steps == 0 || progress.number % options_.every_steps != 0) return;
    const auto write = [&](absl::string_view name, double value) {
      Note(train_->WriteScalar(progress.number, absl::StrCat("batch_", name), value));
    };
    write("loss", window_loss_ / static_cast<double>(window_examples_));
    for (const auto& [name, value] : progress.metrics) write(name, value);
    write("learning_rate", progress.learning_rate);
    write("examples_per_second", PerSecond(window_examples_, progress.elapsed - window_begin_));
    if (progress.gradient_norm.has_value()) write("gradient_norm", *progress.gradient_norm);
    ForgetWindow(progress.elapsed);
  }

  absl::Status Epoch(Trainer& trainer, int epoch, const EpochResult& result) {
    ForgetWindow(absl::ZeroDuration());
    WriteEpoch(*train_, epoch, result);
    Note(train_->WriteScalar(epoch, "epoch_learning_rate", learning_rate_));
    Note(train_->WriteScalar(epoch, "epoch_examples_per_second",
                             PerSecond(result.examples, result.duration)));
    if (result.damaged > 0) {
      Note(
          train_->WriteScalar(epoch, "epoch_damaged_records", static_cast<double>(result.damaged)));
    }
    if (result.validation != nullptr) Validation(trainer.step(), epoch, *result.validation);
    if (options_.histogram_epochs == 0 || (epoch + 1) % options_.histogram_epochs != 0) {
      return absl::OkStatus();
    }
    return Histograms(trainer, epoch);
  }

  void End(const absl::Status& status) {
    if (!traces_.empty()) Note(traces_.Write(options_.writer.files, folder_));
    if (run_ != nullptr) {
      Note(run_->WriteRunEnd(status.ok() ? RunStatus::kSuccess : RunStatus::kFailure));
    }
    for (LogWriter* const writer : {train_.get(), validation_.get(), run_.get()}) {
      if (writer == nullptr) continue;
      const absl::Status closed = writer->Close();
      if (closed == writer->status()) {
        status_.Update(closed);  // The writer has said it.
      } else {
        Note(closed);
      }
    }
  }

  absl::Status status() const {
    absl::Status status = status_;
    for (const LogWriter* const writer : {train_.get(), validation_.get(), run_.get()}) {
      if (writer != nullptr) status.Update(writer->status());
    }
    return status;
  }

 private:
  absl::StatusOr<std::unique_ptr<LogWriter>> Open(const char* run) const {
    return LogWriter::Open(JoinPath(folder_, run), options_.writer);
  }

  void Note(const absl::Status& status) {
    if (status.ok()) return;
    if (status_.ok()) {
      TANDEM_LOG(Warning) << "the log '" << folder_ << "' is not complete: " << status.message();
    }
    status_.Update(status);
  }

  void ForgetWindow(absl::Duration now) {
    window_loss_ = 0;
    window_examples_ = 0;
    window_begin_ = now;
  }

  void Trace(const TrainingProgress& progress) {
    traces_.Add(*progress.trace);
    tensorflow::RunMetadata metadata;
    FillStepStats(*progress.trace, metadata.mutable_step_stats());
    Note(train_->WriteRunMetadata(progress.number, absl::StrCat("step ", progress.number),
                                  metadata));
    if (traces_.complete()) Note(traces_.Write(options_.writer.files, folder_));
  }

  void WriteEpoch(LogWriter& writer, int epoch, const EpochResult& result) {
    Note(writer.WriteScalar(epoch, "epoch_loss", result.loss));
    for (const auto& [name, value] : result.metrics) {
      Note(writer.WriteScalar(epoch, absl::StrCat("epoch_", name), value));
    }
  }

  void Validation(int64_t step, int epoch, const EpochResult& result) {
    if (validation_ == nullptr) {
      absl::StatusOr<std::unique_ptr<LogWriter>> opened = Open("validation");
      Note(opened.status());
      if (!opened.ok()) return;
      validation_ = *std::move(opened);
      if (first_step_ > 1) Note(validation_->WriteRestart(first_step_));
    }
    WriteEpoch(*validation_, epoch, result);
    const auto write = [&](absl::string_view name, double value) {
      Note(validation_->WriteScalar(step, absl::StrCat("evaluation_", name, "_vs_iterations"),
                                    value));
    };
    write("loss", result.loss);
    for (const auto& [name, value] : result.metrics) write(name, value);
  }

  absl::Status Histograms(Trainer& trainer, int epoch) {
    const std::vector<std::string> trained = trainer.TrainableVariableNames();
    TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
    for (const auto& [name, value] : state) {
      if (!absl::c_linear_search(trained, name)) continue;
      Note(train_->WriteHistogram(epoch, absl::StrCat(name, "/histogram"), value));
    }
    return absl::OkStatus();
  }

  const std::string folder_;
  const LogOptions& options_;
  std::unique_ptr<LogWriter> train_;
  std::unique_ptr<LogWriter> validation_;  // Null: nothing was validated yet.
  std::unique_ptr<LogWriter> run_;         // Of the hyperparameters.
  absl::Status status_;
  int64_t first_step_ = 0;
  double learning_rate_ = 0;
  Traces traces_;

  // Since the last value of batch_….
  double window_loss_ = 0;
  int64_t window_examples_ = 0;
  absl::Duration window_begin_;  // Since the epoch began.
};

class LogCallbackImpl final : public LogCallback {
 public:
  LogCallbackImpl(std::string folder, LogOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {}

  absl::Status OnBegin(Trainer& trainer) override {
    TANDEM_RETURN_IF_ERROR(Check());
    log_.reset();
    return Follow(trainer);
  }
  bool WantsTrace(int64_t number) const override {
    return log_ != nullptr && log_->WantsTrace(number);
  }
  absl::StatusOr<Next> OnStep(Trainer& trainer, const TrainingProgress& progress) override {
    TANDEM_RETURN_IF_ERROR(Follow(trainer));
    if (log_ != nullptr) log_->Step(trainer, progress);
    return Next::kGoOn;
  }
  absl::StatusOr<Next> OnEpoch(Trainer& trainer, int epoch, const EpochResult& result) override {
    TANDEM_RETURN_IF_ERROR(Follow(trainer));
    if (log_ != nullptr) TANDEM_RETURN_IF_ERROR(log_->Epoch(trainer, epoch, result));
    return Next::kGoOn;
  }
  absl::Status OnEnd(Trainer&, const absl::Status& status) override {
    if (log_ != nullptr) log_->End(status);
    return absl::OkStatus();
  }

  absl::Status status() const override {
    return log_ == nullptr ? absl::OkStatus() : log_->status();
  }

 private:
  // The chief of several workers may be another one than before.
  absl::Status Follow(const Trainer& trainer) {
    if (trainer.is_chief() == (log_ != nullptr)) return absl::OkStatus();
    if (log_ != nullptr) {
      log_.reset();
      return absl::OkStatus();
    }
    log_ = std::make_unique<TrainingLog>(folder_, options_);
    return log_->Begin();
  }

  absl::Status Check() const {
    const auto [first, last] = options_.trace_steps;
    const bool traces = first != 0 || last != 0;
    if (options_.every_steps < 0 || options_.histogram_epochs < 0) {
      return errors::InvalidArgument("the log '", folder_, "' is written every ",
                                     options_.every_steps, " steps, with histograms every ",
                                     options_.histogram_epochs, " epochs; neither can be negative");
    }
    if (traces && (first < 1 || last < first || last - first >= kMaxTracedSteps)) {
      return errors::InvalidArgument("the log '", folder_, "' traces the steps ", first, " to ",
                                     last, "; they are counted from 1, and ", kMaxTracedSteps,
                                     " are the most");
    }
    if (folder_.empty()) return errors::InvalidArgument("a log has no folder");
    return absl::OkStatus();
  }

  const std::string folder_;
  const LogOptions options_;
  // Of the training that runs, or ran last. Null: another worker has it.
  std::unique_ptr<TrainingLog> log_;
};

}  // namespace

namespace callback {

std::shared_ptr<LogCallback> Log(std::string log_dir, LogOptions options) {
  return std::make_shared<LogCallbackImpl>(std::move(log_dir), std::move(options));
}

}  // namespace callback
}  // namespace tandem
