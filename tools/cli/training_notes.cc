#include "tools/cli/training_notes.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

// "loss", its metrics, and the same of what it was validated with.
std::vector<std::pair<std::string, double>> ValuesOf(const EpochResult& result,
                                                     const std::string& prefix = "") {
  std::vector<std::pair<std::string, double>> values = {{prefix + "loss", result.loss}};
  for (const auto& [name, value] : result.metrics) values.emplace_back(prefix + name, value);
  if (result.validation != nullptr) {
    for (auto& value : ValuesOf(*result.validation, "validation_")) {
      values.push_back(std::move(value));
    }
  }
  return values;
}

// Epochs may have had other metrics than those before.
std::vector<std::string> Columns(const std::vector<EpochResult>& history) {
  std::vector<std::string> columns;
  for (const EpochResult& epoch : history) {
    for (const auto& [name, value] : ValuesOf(epoch)) {
      if (!absl::c_linear_search(columns, name)) columns.push_back(name);
    }
  }
  return columns;
}

std::string HistoryTable(const std::vector<EpochResult>& history) {
  const std::vector<std::string> columns = Columns(history);
  std::vector<std::string> names = {"EPOCH"};
  names.insert(names.end(), columns.begin(), columns.end());
  names.insert(names.end(), {"EXAMPLES", "SECONDS"});
  TextTable table(names);
  for (size_t i = 0; i < history.size(); ++i) {
    std::vector<std::string> cells = {absl::StrCat(i + 1)};
    for (const std::string& column : columns) {
      const absl::optional<double> value = history[i].Value(column);
      cells.push_back(value.has_value() ? absl::StrFormat("%.6g", *value) : "-");
    }
    cells.push_back(absl::StrCat(history[i].examples));
    cells.push_back(absl::StrFormat("%.1f", absl::ToDoubleSeconds(history[i].duration)));
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

Json EpochJson(const EpochResult& result) {
  Json json = {{"loss", result.loss},
               {"examples", result.examples},
               {"seconds", absl::ToDoubleSeconds(result.duration)},
               {"metrics", Json::object()}};
  for (const auto& [name, value] : result.metrics) json["metrics"][name] = value;
  if (result.damaged > 0) json["damaged"] = result.damaged;
  if (result.validation != nullptr) json["validation"] = EpochJson(*result.validation);
  return json;
}

}  // namespace

absl::StatusOr<TrainingNotes> ReadTrainingNotes(const Checkpoint& checkpoint) {
  constexpr char kCallback[] = "callback/";
  TrainingNotes notes;
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : checkpoint.bundle().Names()) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, kNotePrefix) || absl::StartsWith(rest, "strategy/")) continue;
    if (absl::ConsumePrefix(&rest, kCallback)) {
      std::string callback(rest.substr(0, rest.find('/')));
      if (!absl::c_linear_search(notes.callbacks, callback)) {
        notes.callbacks.push_back(std::move(callback));
      }
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(tensors[name], checkpoint.bundle().Read(name));
  }
  TANDEM_ASSIGN_OR_RETURN(notes.state, FromNotes(checkpoint.prefix(), tensors));
  return notes;
}

std::string TrainingText(const TrainingNotes& notes) {
  const TrainingState& state = notes.state;
  std::string text = absl::StrCat("a training after ", Plural(state.step, "step"), ", ",
                                  Plural(state.epoch, "epoch"));
  if (state.running.has_value()) {
    const TrainingState::RunningEpoch& running = *state.running;
    absl::StrAppend(&text, " and ", Plural(running.steps, "step"), " of the next (",
                    Plural(running.sums.examples, "example"));
    if (running.sums.examples > 0) {
      absl::StrAppendFormat(&text, ", loss %.6g",
                            running.sums.loss / static_cast<double>(running.sums.examples));
    }
    text += ")";
  }
  absl::StrAppend(&text, state.ended ? "; a callback ended it\n" : "\n");
  absl::StrAppend(&text, "seed: ", state.seed, "\n");
  if (state.trained_with.has_value()) {
    const auto& [options, steps, rates] = *state.trained_with;
    absl::StrAppend(&text, "trained with: ", absl::StrJoin(options, ", ", absl::PairFormatter(" ")),
                    "\n");
    if (!rates.empty()) {
      absl::StrAppend(&text, "learning rate: ", rates.back(), " in step ", steps.back() + 1, "\n");
    }
  }
  absl::StrAppend(&text, "input: opened ", Plural(state.input.opened, "time"));
  if (state.input.is_open) {
    absl::StrAppend(&text, ", ", state.input.batches,
                    state.input.batches == 1 ? " batch" : " batches", " taken from it");
  }
  text += "\n";
  if (!notes.callbacks.empty()) {
    absl::StrAppend(&text, "callbacks: ", absl::StrJoin(notes.callbacks, ", "), "\n");
  }
  if (!state.history.empty()) absl::StrAppend(&text, HistoryTable(state.history));
  return text;
}

Json TrainingJson(const TrainingNotes& notes) {
  const TrainingState& state = notes.state;
  Json json = {{"step", state.step},
               {"seed", state.seed},
               {"epoch", state.epoch},
               {"ended", state.ended},
               {"epochs", Json::array()},
               {"callbacks", notes.callbacks},
               {"input", {{"opened", state.input.opened}, {"batches", state.input.batches}}}};
  if (state.running.has_value()) {
    json["running"] = {{"steps", state.running->steps},
                       {"examples", state.running->sums.examples},
                       {"loss_sum", state.running->sums.loss}};
  }
  if (state.trained_with.has_value()) {
    for (const auto& [name, value] : state.trained_with->options) {
      json["trained_with"][name] = value;
    }
    json["learning_rates"] = Json::array();
    for (size_t i = 0; i < state.trained_with->steps.size(); ++i) {
      json["learning_rates"].push_back({{"step", state.trained_with->steps[i]},
                                        {"rate", state.trained_with->learning_rates[i]}});
    }
  }
  for (const EpochResult& epoch : state.history) json["epochs"].push_back(EpochJson(epoch));
  return json;
}

}  // namespace tandem::cli
