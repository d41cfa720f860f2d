#include "strategies/trainer/callback.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "strategies/trainer/trainer.h"

namespace tandem::callback {
namespace {

std::string Metrics(const MetricValues& values) {
  std::string text;
  for (const auto& [name, value] : values) absl::StrAppendFormat(&text, "  %s %.4f", name, value);
  return text;
}

std::string Minutes(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

std::string Damaged(int64_t damaged) {
  return damaged == 0 ? "" : absl::StrCat("  ", damaged, " damaged records passed over");
}

class ProgressCallback final : public Callback {
 public:
  ProgressCallback(std::FILE* out, bool is_terminal) : out_(out), live_(is_terminal) {}

  absl::Status OnBegin(Trainer&) override {
    last_ = absl::InfinitePast();
    return absl::OkStatus();
  }

  absl::StatusOr<Next> OnStep(Trainer&, const TrainingProgress& progress) override {
    epochs_ = progress.epochs;
    const absl::Time now = absl::Now();
    const bool ends = progress.step == progress.steps;
    if (!live_ || (now - last_ < absl::Milliseconds(100) && !ends)) return Next::kGoOn;
    last_ = now;
    const double rate = static_cast<double>(progress.examples) /
                        std::max(1e-9, absl::ToDoubleSeconds(progress.elapsed));
    absl::FPrintF(out_, "\r\033[Kepoch %d/%d%s step %d%s  loss %.4f%s  %.0f examples/s%s%s",
                  progress.epoch + 1, progress.epochs, Bar(progress), progress.step,
                  progress.steps > 0 ? absl::StrCat("/", progress.steps) : "", progress.loss,
                  Metrics(progress.metrics), rate, Left(progress), Damaged(progress.damaged));
    std::fflush(out_);
    return Next::kGoOn;
  }

  absl::StatusOr<Next> OnEpoch(Trainer&, int epoch, const EpochResult& result) override {
    absl::FPrintF(out_, "%sepoch %d%s  loss %.4f%s%s  %.0f examples/s  %.1f s%s\n",
                  live_ ? "\r\033[K" : "", epoch + 1, epochs_ > 0 ? absl::StrCat("/", epochs_) : "",
                  result.loss, Metrics(result.metrics),
                  result.validation == nullptr
                      ? ""
                      : absl::StrFormat("  validation: loss %.4f%s", result.validation->loss,
                                        Metrics(result.validation->metrics)),
                  static_cast<double>(result.examples) /
                      std::max(1e-9, absl::ToDoubleSeconds(result.duration)),
                  absl::ToDoubleSeconds(result.duration), Damaged(result.damaged));
    std::fflush(out_);
    return Next::kGoOn;
  }

 private:
  static std::string Bar(const TrainingProgress& progress) {
    if (progress.steps <= 0) return "";
    constexpr int64_t kWidth = 24;
    const size_t filled =
        static_cast<size_t>(std::min(kWidth, kWidth * progress.step / progress.steps));
    return absl::StrCat(" [", std::string(filled, '='),
                        std::string(static_cast<size_t>(kWidth) - filled, ' '), "]");
  }
  static std::string Left(const TrainingProgress& progress) {
    if (progress.steps <= 0 || progress.step <= 0) return "";
    const int64_t left = (progress.epochs - progress.epoch) * progress.steps - progress.step;
    const double ratio = static_cast<double>(left) / static_cast<double>(progress.step);
    return absl::StrCat("  ", Minutes(progress.elapsed * ratio), " left");
  }

  std::FILE* const out_;
  const bool live_;
  int epochs_ = 0;
  absl::Time last_ = absl::InfinitePast();
};

class Watch final : public Callback {
 public:
  Watch(WatchOptions options, bool stops) : options_(std::move(options)), stops_(stops) {}

  absl::Status OnBegin(Trainer&) override {
    if (options_.patience < 0 || !(options_.min_delta >= 0)) {
      return errors::InvalidArgument("a callback that watches '", options_.value,
                                     "' has the patience ", options_.patience, " and min_delta ",
                                     options_.min_delta, "; neither can be negative");
    }
    best_.reset();
    state_.clear();
    epochs_since_ = 0;
    return absl::OkStatus();
  }

  absl::StatusOr<Next> OnEpoch(Trainer& trainer, int epoch, const EpochResult& result) override {
    const absl::optional<double> value = result.Value(options_.value);
    if (!value.has_value()) {
      return errors::InvalidArgument("a callback watches '", options_.value, "', which epoch ",
                                     epoch + 1, " has not; there is loss", Names(result));
    }
    const double sign = options_.larger_is_better ? -1 : 1;
    // A value that is not a number is never better.
    const bool better = !std::isnan(*value) &&
                        (!best_.has_value() || sign * *value < sign * *best_ - options_.min_delta);
    if (better) {
      best_ = *value;
      epochs_since_ = 0;
      if (options_.restore_best) {
        TANDEM_ASSIGN_OR_RETURN(state_, trainer.CaptureState());
      }
      return Next::kGoOn;
    }
    ++epochs_since_;
    return stops_ && epochs_since_ > options_.patience ? Next::kStop : Next::kGoOn;
  }

  absl::Status OnEnd(Trainer& trainer, const absl::Status&) override {
    if (state_.empty() || epochs_since_ == 0) return absl::OkStatus();
    const StrategyState state = std::move(state_);
    state_.clear();
    return trainer.RestoreState(state);
  }

  std::string state_name() const override {
    return absl::StrCat(stops_ ? "early_stopping." : "best_weights.",
                        absl::StrReplaceAll(options_.value, {{"/", "."}}));
  }

  absl::StatusOr<StrategyState> SaveState() override {
    StrategyState kept = {{kEpochsSince, Tensor::Scalar<int64_t>(epochs_since_)}};
    if (best_.has_value()) kept.emplace_back(kBest, Tensor::Scalar<double>(*best_));
    for (const auto& [name, value] : state_) {
      kept.emplace_back(absl::StrCat(kVariables, name), value);
    }
    return kept;
  }

  absl::Status RestoreState(const StrategyState& kept) override {
    for (const auto& [name, value] : kept) {
      absl::string_view rest = name;
      if (absl::ConsumePrefix(&rest, kVariables)) {
        state_.emplace_back(std::string(rest), value);
      } else if (name == kBest && value.dtype() == kFloat64 && value.shape().IsScalar()) {
        best_ = value.ScalarValue<double>();
      } else if (name == kEpochsSince && value.dtype() == kInt64 && value.shape().IsScalar()) {
        epochs_since_ = value.ScalarValue<int64_t>();
      } else {
        return errors::InvalidArgument("a callback that watches '", options_.value,
                                       "' keeps nothing like '", name, "', ",
                                       DataTypeName(value.dtype()), value.shape().DebugString());
      }
    }
    return absl::OkStatus();
  }

 private:
  // Names in its state.
  static constexpr char kBest[] = "best";
  static constexpr char kEpochsSince[] = "epochs_since";
  static constexpr char kVariables[] = "variables/";

  static std::string Names(const EpochResult& result) {
    std::string names;
    for (const auto& metric : result.metrics) absl::StrAppend(&names, ", ", metric.first);
    if (result.validation == nullptr) return names;
    absl::StrAppend(&names, ", validation_loss");
    for (const auto& metric : result.validation->metrics) {
      absl::StrAppend(&names, ", validation_", metric.first);
    }
    return names;
  }

  const WatchOptions options_;
  const bool stops_;
  absl::optional<double> best_;
  StrategyState state_;  // Of the best epoch.
  int64_t epochs_since_ = 0;
};

}  // namespace

CallbackPtr Progress(std::FILE* out, absl::optional<bool> is_terminal) {
  return std::make_shared<ProgressCallback>(
      out, is_terminal.has_value() ? *is_terminal : isatty(fileno(out)) != 0);
}

CallbackPtr EarlyStopping(WatchOptions options) {
  return std::make_shared<Watch>(std::move(options), /*stops=*/true);
}

CallbackPtr BestWeights(WatchOptions options) {
  return std::make_shared<Watch>(std::move(options), /*stops=*/false);
}

}  // namespace tandem::callback
