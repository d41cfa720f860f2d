// The state of a training with parameter servers: its variables, whole, from their parts.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "strategies/parameter_server/join.h"
#include "strategies/parameter_server/parameter_runner.h"

namespace tandem::parameter_server {
namespace {

RowRange RowsOf(const VariablePart& part) {
  return {part.variable.offset(), std::max<int64_t>(1, part.variable.stride())};
}

bool IsWhole(const VariablePart& part, const StrategyVariable& variable) {
  return part.shape == variable.spec().shape;
}

}  // namespace

absl::StatusOr<StrategyState> ParameterRunner::ReadWhole(
    const std::vector<const StrategyVariable*>& variables) {
  // One call a shard.
  std::map<int, std::vector<std::string>> names;
  for (const StrategyVariable* variable : variables) {
    for (const VariablePart& part : builder_.PartsOf(*variable)) {
      names[part.shard].push_back(part.variable.name());
    }
  }
  std::map<int, std::map<std::string, Tensor>> values;
  for (const auto& [shard, wanted] : names) {
    TANDEM_ASSIGN_OR_RETURN(auto read, servers_->Read(shard, wanted));
    for (auto& [name, value] : read) values[shard][name] = std::move(value);
  }
  StrategyState state;
  for (const StrategyVariable* variable : variables) {
    const VariableSpec& spec = variable->spec();
    Tensor whole;
    for (const VariablePart& part : builder_.PartsOf(*variable)) {
      Tensor& value = values[part.shard][part.variable.name()];
      if (value.dtype() != spec.dtype || value.shape() != part.shape) {
        return errors::Internal("server ", part.shard, " gave ", DataTypeName(value.dtype()),
                                value.shape().DebugString(), " for '", part.variable.name(),
                                "', which is ", DataTypeName(spec.dtype), part.shape.DebugString());
      }
      if (IsWhole(part, *variable)) {
        whole = std::move(value);
        continue;
      }
      if (!whole.is_valid()) {
        TANDEM_ASSIGN_OR_RETURN(whole, Tensor::Create(spec.dtype, spec.shape));
      }
      TANDEM_RETURN_IF_ERROR(PutRows(value, RowsOf(part), &whole));
      value = Tensor();
    }
    state.emplace_back(spec.name, std::move(whole));
  }
  return state;
}

absl::StatusOr<StrategyState> ParameterRunner::CaptureState() {
  const std::vector<StrategyVariable*> all = builder_.variables();
  return ReadWhole({all.begin(), all.end()});
}

absl::StatusOr<Tensor> ParameterRunner::ReadVariable(const std::string& name) {
  std::vector<std::string> names;
  for (const StrategyVariable* variable : builder_.variables()) {
    if (variable->name() == name) {
      TANDEM_ASSIGN_OR_RETURN(StrategyState state, ReadWhole({variable}));
      return std::move(state[0].second);
    }
    names.push_back(variable->name());
  }
  return errors::NotFound("there is no variable '", name, "'", DidYouMean(name, names));
}

absl::Status ParameterRunner::RestoreState(const StrategyState& state) {
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : state) by_name[name] = &tensor;
  std::vector<std::string> names;
  std::map<int, std::vector<std::pair<std::string, Tensor>>> parts;
  for (const StrategyVariable* variable : builder_.variables()) {
    const VariableSpec& spec = variable->spec();
    names.push_back(spec.name);
    const auto found = by_name.find(spec.name);
    if (found == by_name.end()) {
      return errors::NotFound("the state to restore has no variable '", spec.name, "'");
    }
    const Tensor& value = *found->second;
    if (value.dtype() != spec.dtype || value.shape() != spec.shape) {
      return errors::InvalidArgument("variable '", spec.name, "' is ", DataTypeName(spec.dtype),
                                     spec.shape.DebugString(), "; the state to restore has ",
                                     DataTypeName(value.dtype()), value.shape().DebugString());
    }
    for (const VariablePart& part : builder_.PartsOf(*variable)) {
      Tensor rows = value;
      if (!IsWhole(part, *variable)) {
        TANDEM_ASSIGN_OR_RETURN(rows, TakeRows(value, RowsOf(part), part.shape));
      }
      parts[part.shard].emplace_back(part.variable.name(), std::move(rows));
    }
  }
  for (const auto& [name, tensor] : by_name) {
    if (absl::c_linear_search(names, name)) continue;
    return errors::NotFound("the state to restore has a variable '", name,
                            "', which the program has not", DidYouMean(name, names));
  }
  for (const auto& [shard, values] : parts) {
    TANDEM_RETURN_IF_ERROR(servers_->Write(shard, values));
  }
  return absl::OkStatus();
}

TrainingStatistics ParameterRunner::Statistics() const {
  TrainingStatistics statistics;
  statistics.job = options_.servers.job;
  statistics.workers = fleet_->num_workers();
  statistics.workers_there = fleet_->num_there();
  statistics.servers = servers_->Statistics();
  statistics.slot_bytes = slot_bytes_;
  return statistics;
}

absl::Status ParameterRunner::ServePage(int port) {
  std::set<std::string> names;
  for (const StrategyVariable* variable : builder_.variables()) names.insert(variable->name());
  slot_bytes_.assign(static_cast<size_t>(builder_.num_shards()), 0);
  for (const StrategyVariable* variable : builder_.variables()) {
    // "<variable>/<optimizer>/<slot>".
    std::vector<std::string> words = absl::StrSplit(variable->name(), '/');
    if (words.size() < 3) continue;
    words.resize(words.size() - 2);
    if (names.count(absl::StrJoin(words, "/")) == 0) continue;
    for (const VariablePart& part : builder_.PartsOf(*variable)) {
      slot_bytes_[static_cast<size_t>(part.shard)] +=
          part.shape.num_elements() * static_cast<int64_t>(DataTypeSize(variable->spec().dtype));
    }
  }
  using Text = absl::StatusOr<std::string>;
  TANDEM_ASSIGN_OR_RETURN(
      page_, StatusPage::Serve(port, {{"/", "text/html; charset=utf-8",
                                       [this]() -> Text {
                                         return HtmlOf("Tandem parameter servers",
                                                       StatisticsTable(Statistics()));
                                       }},
                                      {"/metrics", StatusPage::kMetrics, [this]() -> Text {
                                         return StatisticsMetrics(Statistics());
                                       }}}));
  TANDEM_LOG(Info) << "how the parameter servers are: " << page_->address();
  return absl::OkStatus();
}

bool ParameterRunner::WantsNote() { return notes_ != nullptr && notes_->IsDue(); }

void ParameterRunner::KeepNote(StrategyState note) {
  if (notes_ == nullptr) return;
  absl::StatusOr<std::string> bytes = NoteToBytes(note);
  if (bytes.ok()) {
    notes_->Keep(*std::move(bytes));
  } else {
    TANDEM_LOG(Warning) << "where the program stands is not kept: " << bytes.status().message();
  }
}

absl::StatusOr<StrategyState> ParameterRunner::TakeNote() {
  if (!std::exchange(existed_, false) || note_shard_ < 0) return StrategyState();
  TANDEM_ASSIGN_OR_RETURN(const std::string note, servers_->Note(note_shard_));
  if (note.empty()) return StrategyState();
  return NoteFromBytes(note);
}

}  // namespace tandem::parameter_server
