#include "strategies/trainer/training_state.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr char kMetric[] = "metric/";
constexpr char kValidation[] = "validation/";
constexpr char kCallback[] = "callback/";
constexpr char kStrategy[] = "strategy/";

std::string NoteName(absl::string_view name) { return absl::StrCat(kNotePrefix, name); }
std::string SumName(size_t i) { return absl::StrCat("epoch/sums/", i); }

// The results of an epoch as numbers with names.
void Flatten(const EpochResult& result, const std::string& prefix, std::vector<std::string>& names,
             std::vector<double>& values) {
  const auto add = [&](absl::string_view name, double value) {
    names.push_back(absl::StrCat(prefix, name));
    values.push_back(value);
  };
  add("loss", result.loss);
  add("examples", static_cast<double>(result.examples));
  add("seconds", absl::ToDoubleSeconds(result.duration));
  if (result.damaged > 0) add("damaged", static_cast<double>(result.damaged));
  for (const auto& [name, value] : result.metrics) add(absl::StrCat(kMetric, name), value);
  if (result.validation != nullptr) {
    Flatten(*result.validation, absl::StrCat(prefix, kValidation), names, values);
  }
}

EpochResult Unflatten(absl::Span<const std::string> names, absl::Span<const double> values) {
  EpochResult result;
  std::vector<std::string> validation_names;
  std::vector<double> validation_values;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::string_view name = names[i];
    if (absl::ConsumePrefix(&name, kValidation)) {
      validation_names.emplace_back(name);
      validation_values.push_back(values[i]);
    } else if (absl::ConsumePrefix(&name, kMetric)) {
      result.metrics.emplace_back(std::string(name), values[i]);
    } else if (name == "loss") {
      result.loss = values[i];
    } else if (name == "examples") {
      result.examples = static_cast<int64_t>(values[i]);
    } else if (name == "seconds") {
      result.duration = absl::Seconds(values[i]);
    } else if (name == "damaged") {
      result.damaged = static_cast<int64_t>(values[i]);
    }
  }
  if (!validation_names.empty()) {
    result.validation =
        std::make_shared<EpochResult>(Unflatten(validation_names, validation_values));
  }
  return result;
}

// Reads notes and checks that they are what ToNotes writes.
class NoteReader {
 public:
  NoteReader(const std::string& prefix, const std::map<std::string, Tensor>& tensors)
      : prefix_(prefix), tensors_(tensors) {}

  bool Has(absl::string_view name) const { return tensors_.count(NoteName(name)) > 0; }

  // All elements of a note. DataLoss: it has another type.
  template <typename T>
  absl::StatusOr<std::vector<T>> List(absl::string_view name) const {
    TANDEM_ASSIGN_OR_RETURN(const Tensor value, Read(name));
    if (value.dtype() != DataTypeOf<T>()) return Strange(name, value);
    const auto elements = value.Elements<T>();
    return std::vector<T>(elements.begin(), elements.end());
  }
  template <typename T>
  absl::StatusOr<T> Scalar(absl::string_view name) const {
    TANDEM_ASSIGN_OR_RETURN(const Tensor value, Read(name));
    if (value.dtype() != DataTypeOf<T>() || value.num_elements() != 1) return Strange(name, value);
    return value.ScalarValue<T>();
  }
  // A number from 0 up.
  absl::StatusOr<int64_t> Count(absl::string_view name, int64_t most = INT64_MAX) const {
    TANDEM_ASSIGN_OR_RETURN(const int64_t value, Scalar<int64_t>(name));
    if (value >= 0 && value <= most) return value;
    return errors::DataLoss("the note '", NoteName(name), "' of the checkpoint '", prefix_, "' is ",
                            value, "; expected 0 to ", most);
  }
  absl::StatusOr<Tensor> Read(absl::string_view name) const {
    const auto found = tensors_.find(NoteName(name));
    if (found != tensors_.end()) return found->second;
    return errors::DataLoss("the checkpoint '", prefix_, "' has no note '", NoteName(name), "'");
  }
  // The notes that begin with `prefix`, by the rest of their names.
  StrategyState All(absl::string_view prefix) const {
    StrategyState notes;
    const std::string whole = NoteName(prefix);
    for (auto note = tensors_.lower_bound(whole);
         note != tensors_.end() && absl::StartsWith(note->first, whole); ++note) {
      notes.emplace_back(note->first.substr(whole.size()), note->second);
    }
    return notes;
  }

 private:
  absl::Status Strange(absl::string_view name, const Tensor& value) const {
    return errors::DataLoss("the note '", NoteName(name), "' of the checkpoint '", prefix_, "' is ",
                            DataTypeName(value.dtype()), value.shape().DebugString(),
                            ", which Tandem does not write");
  }

  const std::string& prefix_;
  const std::map<std::string, Tensor>& tensors_;
};

absl::Status ReadRunningEpoch(const NoteReader& notes, TrainingState& state) {
  if (!notes.Has("epoch/steps")) return absl::OkStatus();
  TrainingState::RunningEpoch running;
  TANDEM_ASSIGN_OR_RETURN(running.steps, notes.Count("epoch/steps"));
  TANDEM_ASSIGN_OR_RETURN(const double seconds, notes.Scalar<double>("epoch/seconds"));
  running.elapsed = absl::Seconds(seconds);
  TANDEM_ASSIGN_OR_RETURN(running.sums.loss, notes.Scalar<double>("epoch/loss"));
  TANDEM_ASSIGN_OR_RETURN(running.sums.examples, notes.Count("epoch/examples"));
  TANDEM_ASSIGN_OR_RETURN(running.metrics, notes.List<std::string>("epoch/metrics"));
  for (size_t i = 0; notes.Has(SumName(i)); ++i) {
    TANDEM_ASSIGN_OR_RETURN(Tensor sum, notes.Read(SumName(i)));
    running.sums.metrics.push_back(std::move(sum));
  }
  state.running = std::move(running);
  return absl::OkStatus();
}

absl::Status ReadHistory(const NoteReader& notes, TrainingState& state) {
  TANDEM_ASSIGN_OR_RETURN(const auto lengths, notes.List<int64_t>("history/lengths"));
  TANDEM_ASSIGN_OR_RETURN(const auto names, notes.List<std::string>("history/names"));
  TANDEM_ASSIGN_OR_RETURN(const auto values, notes.List<double>("history/values"));
  size_t begin = 0;
  for (const int64_t length : lengths) {
    const size_t left = names.size() - begin;
    if (length < 0 || static_cast<uint64_t>(length) > left || names.size() != values.size()) {
      return errors::DataLoss("the results of former epochs in the checkpoint do not fit together");
    }
    const size_t count = static_cast<size_t>(length);
    state.history.push_back(Unflatten(absl::MakeConstSpan(names).subspan(begin, count),
                                      absl::MakeConstSpan(values).subspan(begin, count)));
    begin += count;
  }
  return absl::OkStatus();
}

absl::Status ReadOptimizer(const NoteReader& notes, TrainingState& state) {
  if (!notes.Has("optimizer/options")) return absl::OkStatus();
  TrainingState::TrainedWith was;
  TANDEM_ASSIGN_OR_RETURN(const auto options, notes.List<std::string>("optimizer/options"));
  TANDEM_ASSIGN_OR_RETURN(was.steps, notes.List<int64_t>("optimizer/steps"));
  TANDEM_ASSIGN_OR_RETURN(was.learning_rates, notes.List<double>("optimizer/learning_rates"));
  if (options.size() % 2 != 0 || was.steps.size() != was.learning_rates.size() ||
      absl::c_any_of(was.steps, [&](int64_t step) { return step < 0 || step >= state.step; })) {
    return errors::DataLoss("what the checkpoint says of the optimizer does not fit together");
  }
  for (size_t i = 0; i < options.size(); i += 2) {
    was.options.emplace_back(options[i], options[i + 1]);
  }
  state.trained_with = std::move(was);
  return absl::OkStatus();
}

}  // namespace

TrainingState::TrainedWith Describe(const optimizer::Optimizer& optimizer, int64_t step) {
  TrainingState::TrainedWith described;
  described.options = {{"optimizer", optimizer.name()}};
  for (auto& option : optimizer.DescribeOptions()) described.options.push_back(std::move(option));
  // The first and the last, and some between.
  constexpr int64_t kSamples = 8;
  for (int64_t i = 0; i < kSamples && step > 0; ++i) {
    const int64_t sample =
        (step - 1) / (kSamples - 1) * i + (step - 1) % (kSamples - 1) * i / (kSamples - 1);
    if (!described.steps.empty() && described.steps.back() == sample) continue;
    described.steps.push_back(sample);
    described.learning_rates.push_back(optimizer.LearningRate(sample));
  }
  return described;
}

std::vector<std::string> DifferencesOf(const TrainingState::TrainedWith& was,
                                       const optimizer::Optimizer& now) {
  std::vector<std::string> differences;
  const TrainingState::TrainedWith here = Describe(now, 0);
  const auto compare = [&](const optimizer::OptionList& list, const optimizer::OptionList& other,
                           const auto& differ) {
    for (const auto& [name, value] : list) {
      const auto same = absl::c_find_if(
          other, [&name = name](const auto& option) { return option.first == name; });
      differ(name, value, same == other.end() ? nullptr : &same->second);
    }
  };
  compare(was.options, here.options,
          [&](const std::string& name, const std::string& before, const std::string* after) {
            if (after != nullptr && *after == before) return;
            differences.push_back(
                absl::StrCat(name, " was '", before, "' and is ",
                             after == nullptr ? "not there" : absl::StrCat("'", *after, "'")));
          });
  compare(here.options, was.options,
          [&](const std::string& name, const std::string& after, const std::string* before) {
            if (before != nullptr) return;
            differences.push_back(absl::StrCat(name, " was not there and is '", after, "'"));
          });
  for (size_t i = 0; i < was.steps.size(); ++i) {
    const double rate = now.LearningRate(was.steps[i]);
    if (rate == was.learning_rates[i]) continue;
    differences.push_back(absl::StrCat("the learning rate of step ", was.steps[i] + 1, " was ",
                                       was.learning_rates[i], " and is ", rate));
    break;  // Of many, one says enough.
  }
  return differences;
}

NamedTensors ToNotes(TrainingState state) {
  NamedTensors notes;
  const auto add = [&](absl::string_view name, Tensor value) {
    notes.emplace_back(NoteName(name), std::move(value));
  };
  add("step", Tensor::Scalar<int64_t>(state.step));
  add("seed", Tensor::Scalar<int64_t>(state.seed));
  add("epoch", Tensor::Scalar<int64_t>(state.epoch));
  add("ended", Tensor::Scalar<bool>(state.ended));
  if (state.running.has_value()) {
    TrainingState::RunningEpoch& running = *state.running;
    add("epoch/steps", Tensor::Scalar<int64_t>(running.steps));
    add("epoch/seconds", Tensor::Scalar<double>(absl::ToDoubleSeconds(running.elapsed)));
    add("epoch/loss", Tensor::Scalar<double>(running.sums.loss));
    add("epoch/examples", Tensor::Scalar<int64_t>(running.sums.examples));
    add("epoch/metrics", Tensor::Vector<std::string>(absl::MakeConstSpan(running.metrics)));
    for (size_t i = 0; i < running.sums.metrics.size(); ++i) {
      add(SumName(i), std::move(running.sums.metrics[i]));
    }
  }
  add("input/opened", Tensor::Scalar<int64_t>(state.input.opened));
  if (state.input.is_open) {
    add("input/batches", Tensor::Scalar<int64_t>(state.input.batches));
    if (state.input.position.has_value()) {
      add("input/position", Tensor::Scalar<std::string>(*std::move(state.input.position)));
    }
    if (!state.input.data_set.empty()) {
      add("input/data_set", Tensor::Scalar<std::string>(std::move(state.input.data_set)));
    }
  }
  std::vector<std::string> names;
  std::vector<double> values;
  std::vector<int64_t> lengths;
  for (const EpochResult& result : state.history) {
    const size_t before = names.size();
    Flatten(result, "", names, values);
    lengths.push_back(static_cast<int64_t>(names.size() - before));
  }
  add("history/names", Tensor::Vector<std::string>(absl::MakeConstSpan(names)));
  add("history/values", Tensor::Vector<double>(absl::MakeConstSpan(values)));
  add("history/lengths", Tensor::Vector<int64_t>(absl::MakeConstSpan(lengths)));
  if (state.trained_with.has_value()) {
    std::vector<std::string> options;
    for (auto& [name, value] : state.trained_with->options) {
      options.push_back(std::move(name));
      options.push_back(std::move(value));
    }
    add("optimizer/options", Tensor::Vector<std::string>(absl::MakeConstSpan(options)));
    add("optimizer/steps", Tensor::Vector<int64_t>(absl::MakeConstSpan(state.trained_with->steps)));
    add("optimizer/learning_rates",
        Tensor::Vector<double>(absl::MakeConstSpan(state.trained_with->learning_rates)));
  }
  for (auto& [callback, kept] : state.callbacks) {
    for (auto& [name, value] : kept) {
      add(absl::StrCat(kCallback, callback, "/", name), std::move(value));
    }
  }
  for (auto& [name, value] : state.strategy) add(absl::StrCat(kStrategy, name), std::move(value));
  return notes;
}

absl::StatusOr<TrainingState> FromNotes(const std::string& prefix,
                                        const std::map<std::string, Tensor>& tensors) {
  const NoteReader notes(prefix, tensors);
  if (!notes.Has("step")) {
    return errors::FailedPrecondition(
        "the checkpoint '", prefix, "' has variables, but no notes of a training (",
        NoteName("step"),
        "), so no training can be resumed from it; read its variables with "
        "LoadCheckpoint");
  }
  TrainingState state;
  TANDEM_ASSIGN_OR_RETURN(state.step, notes.Count("step"));
  TANDEM_ASSIGN_OR_RETURN(state.seed, notes.Scalar<int64_t>("seed"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t epoch, notes.Count("epoch", INT32_MAX));
  state.epoch = static_cast<int>(epoch);
  TANDEM_ASSIGN_OR_RETURN(state.ended, notes.Scalar<bool>("ended"));
  TANDEM_RETURN_IF_ERROR(ReadRunningEpoch(notes, state));
  TANDEM_ASSIGN_OR_RETURN(const int64_t opened, notes.Count("input/opened", INT32_MAX));
  state.input.opened = static_cast<int>(opened);
  state.input.is_open = notes.Has("input/batches");
  if (state.input.is_open) {
    TANDEM_ASSIGN_OR_RETURN(state.input.batches, notes.Count("input/batches"));
    if (notes.Has("input/position")) {
      TANDEM_ASSIGN_OR_RETURN(std::string position, notes.Scalar<std::string>("input/position"));
      state.input.position = std::move(position);
    }
    if (notes.Has("input/data_set")) {
      TANDEM_ASSIGN_OR_RETURN(state.input.data_set, notes.Scalar<std::string>("input/data_set"));
    }
    if (opened == 0) return errors::DataLoss("the input of the training is open, but never was");
  }
  TANDEM_RETURN_IF_ERROR(ReadHistory(notes, state));
  TANDEM_RETURN_IF_ERROR(ReadOptimizer(notes, state));
  for (auto& [name, value] : notes.All(kCallback)) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    state.callbacks[name.substr(0, slash)].emplace_back(name.substr(slash + 1), std::move(value));
  }
  state.strategy = notes.All(kStrategy);
  return state;
}

}  // namespace tandem
