#include "runtime/parameter_server/round.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/parameter_server/combine.h"

namespace tandem::parameter_server {
namespace {

bool IsSameRound(const RoundPart& a, const RoundPart& b) {
  return a.program == b.program && a.round.parts() == b.round.parts() &&
         a.round.enough() == b.round.enough() && a.round.all_weight() == b.round.all_weight();
}

// Of two tries of a step the one that counts. Clients do not know of each other; a new one has
// taken over from one that is gone.
bool IsNewer(const PushId& id, const PushId& than) {
  return id.client() != than.client() || id.sequence() > than.sequence();
}

absl::Status GivenUp(const RoundPart& part, const PushId& newer) {
  return errors::Aborted("part ", part.round.part(), " of round ", part.round.number(),
                         ", pushed as ", part.id.sequence(), ", was pushed anew as ",
                         newer.sequence(), "; its step was given up");
}

}  // namespace

absl::Status CheckRound(const Round& round) {
  const bool counts_fit = round.number() >= 0 && round.parts() >= 1 && round.part() >= 0 &&
                          round.part() < round.parts() && round.enough() >= 1 &&
                          round.enough() <= round.parts();
  const bool weights_fit = std::isfinite(round.weight()) && std::isfinite(round.all_weight()) &&
                           round.weight() >= 0 && round.all_weight() >= 0;
  if (counts_fit && weights_fit) return absl::OkStatus();
  return errors::InvalidArgument("part ", round.part(), " of ", round.parts(), ", of which ",
                                 round.enough(), " are enough, in round ", round.number(),
                                 ", with the weight ", round.weight(), " of ", round.all_weight(),
                                 ", makes no sense");
}

WaitingRounds::Added WaitingRounds::Add(RoundPart part,
                                        const std::vector<Combination>& combinations) {
  Added added;
  const int64_t number = part.round.number();
  const auto found = rounds_.find(number);
  if (found != rounds_.end()) {
    auto& parts = found->second;
    const RoundPart& first = parts.begin()->second;
    if (!IsSameRound(part, first)) {
      for (const auto& [index, other] : parts) {
        if (IsNewer(part.id, other.id)) continue;
        added.status = GivenUp(part, other.id);
        return added;
      }
      for (const auto& [index, other] : parts) added.replaced.push_back(other.call);
      parts.clear();
    } else if (const auto same = parts.find(part.round.part()); same != parts.end()) {
      if (!IsNewer(part.id, same->second.id)) {
        added.status = GivenUp(part, same->second.id);
        return added;
      }
    } else if (static_cast<int32_t>(parts.size()) >= part.round.enough()) {
      added.is_late = true;
      return added;
    }
    // Against one that stays.
    for (const auto& [index, other] : parts) {
      if (index == part.round.part()) continue;
      for (size_t i = 0; i < part.arguments.size() && added.status.ok(); ++i) {
        added.status =
            CheckFits(combinations[i], other.arguments[i], part.arguments[i],
                      absl::StrCat("argument ", i, " of program '", part.program, "', part ",
                                   part.round.part(), " of round ", number, ","));
      }
      if (!added.status.ok()) return added;
      break;
    }
    if (const auto same = parts.find(part.round.part()); same != parts.end()) {
      added.replaced.push_back(same->second.call);
    }
  }
  const int32_t index = part.round.part();
  rounds_[number].insert_or_assign(index, std::move(part));
  return added;
}

bool WaitingRounds::Remove(int64_t round, int64_t call) {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return false;
  for (auto it = found->second.begin(); it != found->second.end(); ++it) {
    if (it->second.call != call) continue;
    found->second.erase(it);
    if (found->second.empty()) rounds_.erase(found);
    return true;
  }
  return false;
}

std::vector<int64_t> WaitingRounds::RemoveBelow(uint64_t client, int64_t finished_below) {
  std::vector<int64_t> calls;
  for (auto round = rounds_.begin(); round != rounds_.end();) {
    auto& parts = round->second;
    for (auto it = parts.begin(); it != parts.end();) {
      const PushId& id = it->second.id;
      if (id.client() == client && id.sequence() < finished_below) {
        calls.push_back(it->second.call);
        it = parts.erase(it);
      } else {
        ++it;
      }
    }
    round = parts.empty() ? rounds_.erase(round) : std::next(round);
  }
  return calls;
}

std::vector<int64_t> WaitingRounds::RemoveBefore(int64_t number) {
  std::vector<int64_t> calls;
  while (!rounds_.empty() && rounds_.begin()->first < number) {
    for (const auto& [index, part] : rounds_.begin()->second) calls.push_back(part.call);
    rounds_.erase(rounds_.begin());
  }
  return calls;
}

std::vector<RoundPart> WaitingRounds::TakeComplete(int64_t number) {
  const auto found = rounds_.find(number);
  if (found == rounds_.end()) return {};
  const auto count = static_cast<int32_t>(found->second.size());
  if (count < found->second.begin()->second.round.enough()) return {};
  std::vector<RoundPart> parts;
  for (auto& [index, part] : found->second) parts.push_back(std::move(part));
  rounds_.erase(found);
  return parts;
}

absl::StatusOr<std::vector<Tensor>> CombineParts(const std::vector<Combination>& combinations,
                                                 std::vector<RoundPart> parts) {
  double arrived = 0;
  for (const RoundPart& part : parts) arrived += part.round.weight();
  const double all = parts[0].round.all_weight();
  // Parts without examples have nothing that could be scaled.
  const double scale = arrived > 0 && arrived != all ? all / arrived : 1;
  const size_t arguments = parts[0].arguments.size();
  std::vector<Tensor> combined;
  for (size_t i = 0; i < arguments; ++i) {
    std::vector<Tensor> values;
    for (RoundPart& part : parts) values.push_back(std::move(part.arguments[i]));
    absl::StatusOr<Tensor> value = Combine(combinations[i], std::move(values), scale);
    if (!value.ok()) {
      return WithContext(value.status(),
                         absl::StrCat("argument ", i, " of program '", parts[0].program,
                                      "', round ", parts[0].round.number()));
    }
    combined.push_back(*std::move(value));
  }
  return combined;
}

}  // namespace tandem::parameter_server
