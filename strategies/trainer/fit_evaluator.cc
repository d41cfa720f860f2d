// Fit in the evaluator of a job: it evaluates the checkpoints that the others write.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/summary/log_writer.h"
#include "strategies/trainer/fit_run.h"

namespace tandem {
namespace {

// How often the folder is looked at, and a request to stop.
constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr absl::Duration kPollStop = absl::Milliseconds(100);
constexpr absl::Duration kSayPatience = absl::Minutes(1);

std::string ValuesOf(const EpochResult& result) {
  std::string text = absl::StrCat("loss ", result.loss);
  for (const auto& [name, value] : result.metrics) absl::StrAppend(&text, ", ", name, " ", value);
  return text;
}

absl::Status LogResult(LogWriter& log, int64_t step, const EpochResult& result) {
  TANDEM_RETURN_IF_ERROR(log.WriteScalar(step, "evaluation_loss_vs_iterations", result.loss));
  for (const auto& [name, value] : result.metrics) {
    TANDEM_RETURN_IF_ERROR(
        log.WriteScalar(step, absl::StrCat("evaluation_", name, "_vs_iterations"), value));
  }
  return log.Flush();
}

}  // namespace

absl::StatusOr<std::vector<EpochResult>> Trainer::FitRun::EvaluateCheckpoints() {
  if (options_.checkpoint_dir.empty() || !options_.validation.has_value()) {
    return errors::InvalidArgument(
        "this process is the evaluator of its job, which evaluates the checkpoints of the others: "
        "it needs their folder (FitOptions::checkpoint_dir) and the data to evaluate with "
        "(FitOptions::validation)");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, input_.Sample());
  TANDEM_RETURN_IF_ERROR(CheckBatch(batch));
  TANDEM_RETURN_IF_ERROR(trainer_.Prepare(batch));
  std::unique_ptr<LogWriter> log;
  if (!options_.log_dir.empty()) {
    TANDEM_ASSIGN_OR_RETURN(log, LogWriter::Open(JoinPath(options_.log_dir, "evaluator")));
  }
  absl::Time last_news = absl::Now();
  absl::Time last_said = last_news;
  for (std::string newest;;) {
    TANDEM_ASSIGN_OR_RETURN(const absl::optional<Evaluated> evaluated, EvaluateNewest(newest));
    const absl::Time now = absl::Now();
    if (evaluated.has_value()) {
      last_news = last_said = now;
      TANDEM_LOG(Info) << "checkpoint '" << evaluated->prefix
                       << "': " << ValuesOf(evaluated->result);
      if (log != nullptr) {
        // The log is not what this process is for.
        const absl::Status logged = LogResult(*log, evaluated->step, evaluated->result);
        if (!logged.ok()) {
          TANDEM_LOG(Warning) << "the evaluation is not logged: " << logged.message();
        }
      }
      history_.push_back(evaluated->result);
      if (evaluated->is_last) return std::move(history_);
    } else if (now - last_said >= kSayPatience) {
      last_said = now;
      TANDEM_LOG(Info) << "no new checkpoint in '" << options_.checkpoint_dir << "' for "
                       << absl::FormatDuration(absl::Trunc(now - last_news, absl::Seconds(1)));
    }
    for (const absl::Time next = now + kPoll; absl::Now() < next; absl::SleepFor(kPollStop)) {
      TANDEM_RETURN_IF_ERROR(CheckStop());
    }
  }
}

absl::StatusOr<absl::optional<Trainer::FitRun::Evaluated>> Trainer::FitRun::EvaluateNewest(
    std::string& newest) {
  const auto there = CheckpointsNewestFirst(options_.checkpoints.files, options_.checkpoint_dir);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (!there.ok() || there->empty() || there->front() == newest) return absl::nullopt;
  FitOptions looking = options_;
  looking.resume = true;
  const absl::StatusOr<std::unique_ptr<FitCheckpoints>> found =
      FitCheckpoints::Open(looking, /*writes=*/false);
  if (!found.ok()) {
    // Whoever writes them removes old ones, also while they are read; the next look tells.
    TANDEM_LOG(Warning) << "no checkpoint in '" << options_.checkpoint_dir
                        << "' can be read now: " << found.status().message();
    return absl::nullopt;
  }
  if (!(*found)->is_pending()) return absl::nullopt;
  const bool is_known = (*found)->prefix() == newest;
  const TrainingState& state = *(*found)->found();
  Evaluated evaluated;
  evaluated.prefix = (*found)->prefix();
  evaluated.step = state.step;
  evaluated.is_last = state.ended || state.epoch >= options_.epochs;
  newest = there->front();
  if (is_known) return absl::nullopt;
  TANDEM_ASSIGN_OR_RETURN(StrategyState variables, (*found)->TakeVariables(*trainer_.builder_));
  TANDEM_RETURN_IF_ERROR(trainer_.runner_->TakeState(std::move(variables)));
  TANDEM_ASSIGN_OR_RETURN(
      evaluated.result,
      trainer_.EvaluateUnlessStopped(Epochs(*options_.validation), [this] { return CheckStop(); }));
  return evaluated;
}

}  // namespace tandem
