#include "runtime/cluster/membership/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cluster/membership/simulation/world.h"

namespace tandem::membership {
namespace {

constexpr absl::Duration kFaultsFor = absl::Seconds(60);
// Time to notice that all is well, to give up what hopes in vain, to be started again, to meet.
constexpr absl::Duration kBound = absl::Seconds(60);

}  // namespace

std::string Show(const Generation& generation) {
  return absl::StrCat("generation ", generation.number(), " {",
                      absl::StrJoin(generation.members(), ", ",
                                    [](std::string* out, const MemberInfo& m) {
                                      absl::StrAppend(out, m.name(), "#", m.incarnation());
                                    }),
                      "}");
}

std::string Show(const Envelope& envelope) {
  switch (envelope.body_case()) {
    case Envelope::kReport:
      return absl::StrCat("report ", envelope.report().sequence(), " of generation ",
                          envelope.report().generation(), ", step ",
                          envelope.report().completed_step(),
                          envelope.report().lost_group() ? ", lost its group" : "");
    case Envelope::kDirective:
      return absl::StrCat("directive ", envelope.directive().sequence(), " ",
                          Show(envelope.directive().generation()),
                          envelope.directive().from_chief() ? "" : " (hint)",
                          envelope.directive().started() ? " started" : "",
                          envelope.directive().broken().empty() ? "" : " broken");
    case Envelope::kPrepare:
      return absl::StrCat("prepare ", envelope.prepare().ballot(), " after ",
                          envelope.prepare().base().number());
    case Envelope::kPromise:
      return absl::StrCat("promise ", envelope.promise().ballot(),
                          envelope.promise().granted() ? "" : " refused");
    case Envelope::kAccept:
      return absl::StrCat("accept ", envelope.accept().ballot(), " ",
                          Show(envelope.accept().value()));
    case Envelope::kAccepted:
      return absl::StrCat("accepted ", envelope.accepted().ballot(),
                          envelope.accepted().granted() ? "" : " refused");
    case Envelope::BODY_NOT_SET:
      break;
  }
  return "nothing";
}

void World::Deliver(int from, const std::string& address, const Envelope& envelope) {
  int to = 0;
  while (to < num_processes_ && Name(to) != address) ++to;
  if (to == num_processes_) return Fail(absl::StrCat("a message to nowhere: ", address));
  const bool is_lost = cut_.count({from, to}) > 0 || network_.Chance(drop_);
  if (is_lost) {
    LogIf(Name(from), " to ", Name(to), ": lost: ", Show(envelope));
    return;
  }
  const int copies = network_.Chance(twice_) ? 2 : 1;
  const std::string bytes = envelope.SerializeAsString();
  const int64_t life = processes_[static_cast<size_t>(from)]->life();
  for (int i = 0; i < copies; ++i) {
    const absl::Duration delay =
        network_.Chance(late_) ? network_.Between(absl::ZeroDuration(), absl::Seconds(6))
                               : network_.Between(absl::Milliseconds(1), absl::Milliseconds(20));
    // Of whoever is there when it arrives, at once or when it wakes up.
    At(now_ + delay, -1, 0, [this, from, to, life, address, bytes] {
      Process& process = *processes_[static_cast<size_t>(to)];
      if (!process.alive()) {
        const bool is_cut = cut_.count({to, from}) > 0;
        if (!is_cut && processes_[static_cast<size_t>(from)]->alive()) {
          At(now_ + absl::Milliseconds(2), from, life, [this, from, address] {
            processes_[static_cast<size_t>(from)]->node().OnRefused(now_, address);
          });
        }
        return;
      }
      At(now_, to, process.life(), [this, from, to, bytes] {
        Envelope arrived;
        if (!arrived.ParseFromString(bytes)) return Fail("a message does not parse");
        LogIf(Name(from), " to ", Name(to), ": ", Show(arrived));
        processes_[static_cast<size_t>(to)]->node().OnMessage(now_, arrived);
      });
    });
  }
}

void World::AnswerArbiter(int slot, int64_t life, const ArbiterQuestion& question) {
  ArbiterAnswer answer;
  answer.kind = question.kind;
  switch (question.kind) {
    case ArbiterQuestion::Kind::kRead:
      break;
    case ArbiterQuestion::Kind::kRenew:
      if (question.number == arbiter_.generation().number()) arbiter_.set_beat(question.beat);
      break;
    case ArbiterQuestion::Kind::kClaim:
      if (question.claim.number() > arbiter_.generation().number() &&
          question.number >= arbiter_.generation().number()) {
        *arbiter_.mutable_generation() = question.claim;
        arbiter_.set_beat(0);
        answer.won = true;
        LogIf(Name(slot), " claims ", Show(question.claim));
      }
      break;
    case ArbiterQuestion::Kind::kRaiseFence:
      fence_ = std::max(fence_, question.number);
      answer.number = question.number;
      answer.fence = fence_;
      answer.checkpoint_step = checkpoint_;
      break;
  }
  answer.state = arbiter_;
  if (no_arbiter_.count(slot) > 0) return;  // Done, but nobody is told.
  At(now_ + network_.Between(absl::Milliseconds(1), disk_), slot, life, [this, slot, answer] {
    processes_[static_cast<size_t>(slot)]->node().OnArbiter(now_, answer);
  });
}

void World::CheckNode(int slot) {
  Process& process = *processes_[static_cast<size_t>(slot)];
  if (!process.alive()) return;
  Node& node = process.node();
  if (node.in_group() && node.committed_step() > process.completed() && process.completed() >= 0) {
    Fail(absl::StrCat(Name(slot), " is told that step ", node.committed_step(),
                      " is committed, but has completed ", process.completed()));
  }
  if (!node.known().has_value()) return;
  const GroupKey key = KeyOf(*node.known());
  if (key == process.checked) return;
  process.checked = key;
  const std::string text = node.known()->SerializeAsString();
  const auto [entry, is_new] = generations_.emplace(key, text);
  if (is_new) {
    ++result_.num_generations;
    const auto before = generations_.find({key.first, key.second - 1});
    Generation last;
    if (before != generations_.end() && last.ParseFromString(before->second) &&
        !IsSame(last.members(0), node.known()->members(0))) {
      ++result_.num_elections;
    }
  } else if (entry->second != text) {
    Generation other;
    if (!other.ParseFromString(entry->second)) return Fail("a generation does not parse");
    Fail(absl::StrCat("there are two of them: ", Show(*node.known()), " at ", Name(slot), ", and ",
                      Show(other)));
  }
}

void World::Fault(int kind, int a, int b, absl::Duration length, double p) {
  Process& process = *processes_[static_cast<size_t>(a)];
  switch (kind) {
    case 0: {  // Crash, and start again later.
      if (!process.alive()) return;
      LogIf("FAULT ", Name(a), " crashes");
      process.Crash();
      const int64_t life = process.life();
      After(length, [&process, life] {
        if (process.life() == life && !process.alive()) process.Start();
      });
      return;
    }
    case 1:  // Stands still, as with SIGSTOP.
      LogIf("FAULT ", Name(a), " stands still for ", absl::FormatDuration(length));
      process.paused_until = now_ + length;
      return;
    case 2:
    case 3: {  // A link is cut, one way or both.
      if (a == b) return;
      LogIf("FAULT link ", Name(a), kind == 2 ? " -> " : " <-> ", Name(b), " is cut for ",
            absl::FormatDuration(length));
      cut_.insert({a, b});
      if (kind == 3) cut_.insert({b, a});
      After(length, [this, a, b] {
        cut_.erase({a, b});
        cut_.erase({b, a});
      });
      return;
    }
    case 4: {  // The network falls into two parts.
      LogIf("FAULT the network is cut in two below ", Name(a), " for ",
            absl::FormatDuration(length));
      for (int i = 0; i < num_processes_; ++i) {
        for (int j = 0; j < num_processes_; ++j) {
          if ((i < a) == (j < a)) continue;
          cut_.insert({i, j});
          After(length, [this, i, j] { cut_.erase({i, j}); });
        }
      }
      return;
    }
    case 5:  // Messages are lost, late or twice.
      LogIf("FAULT messages are lost, late and twice for ", absl::FormatDuration(length));
      drop_ = p * 0.5;
      twice_ = p * 0.3;
      late_ = p * 0.3;
      After(length, [this] { drop_ = twice_ = late_ = 0; });
      return;
    case 6:  // Somebody does not reach the arbiter.
      LogIf("FAULT ", Name(a), " does not reach the arbiter for ", absl::FormatDuration(length));
      no_arbiter_.insert(a);
      After(length, [this, a] { no_arbiter_.erase(a); });
      return;
    case 7:  // Slow storage.
      LogIf("FAULT the disk is slow for ", absl::FormatDuration(length));
      disk_ = p * absl::Seconds(5) + absl::Milliseconds(10);
      After(length, [this] { disk_ = absl::Milliseconds(10); });
      return;
    case 8:  // Told to end.
      if (!process.alive() || process.paused_until > now_) return;
      LogIf("FAULT ", Name(a), " is told to leave");
      process.node().WishToLeave(now_, true);
      return;
    case 9:  // Leaves at once.
      if (!process.alive() || process.paused_until > now_) return;
      LogIf("FAULT ", Name(a), " leaves");
      process.node().Leave(now_);
      return;
    case 10:  // Its program cannot go on with the group, of which nobody is missing.
      if (!process.alive() || process.paused_until > now_) return;
      LogIf("FAULT ", Name(a), " gives its group up");
      process.node().GiveUpGroup(now_, absl::UnavailableError("its connections broke"));
      return;
    default:
      return;
  }
}

void World::MakeFaults() {
  absl::Time when = absl::UnixEpoch() + random_.Between(absl::Seconds(1), absl::Seconds(15));
  // Some runs have a favourite.
  const int favourite = random_.Chance(0.5) ? random_.Below(10) : -1;
  const absl::Duration pace = random_.Between(absl::Seconds(1), absl::Seconds(12));
  int number = 0;
  for (; when < absl::UnixEpoch() + kFaultsFor; ++number) {
    const int kind = favourite >= 0 && random_.Chance(0.6) ? favourite : random_.Below(10);
    const int a = random_.Below(num_processes_);
    const int b = random_.Below(num_processes_);
    const absl::Duration length = random_.Chance(0.5)
                                      ? random_.Between(absl::Milliseconds(300), absl::Seconds(4))
                                      : random_.Between(absl::Seconds(2), absl::Seconds(15));
    const double p = 0.1 * random_.Below(11);
    ++result_.num_faults;
    if (!absl::c_linear_search(options_.without_faults, number)) {
      At(when, -1, 0, [this, kind, a, b, length, p] { Fault(kind, a, b, length, p); });
    }
    when += random_.Between(absl::Milliseconds(100), pace);
  }
  // In some runs programs give their groups up, too.
  Random more(options_.seed ^ 0x67726f7570u);
  if (more.Chance(0.5)) return;
  when = absl::UnixEpoch() + more.Between(absl::Seconds(1), absl::Seconds(20));
  for (; when < absl::UnixEpoch() + kFaultsFor; ++number) {
    const int a = more.Below(num_processes_);
    ++result_.num_faults;
    if (!absl::c_linear_search(options_.without_faults, number)) {
      At(when, -1, 0, [this, a] { Fault(10, a, a, absl::ZeroDuration(), 0); });
    }
    when += more.Between(absl::Seconds(1), absl::Seconds(20));
  }
}

void World::Heal() {
  LogIf("the faults are over");
  faults_are_over_ = true;
  drop_ = twice_ = late_ = 0;
  cut_.clear();
  no_arbiter_.clear();
  disk_ = absl::Milliseconds(10);
  // Who stands still wakes up by itself.
  for (const auto& process : processes_) {
    if (!process->alive()) process->Start();
  }
}

// As many as there may be train in one group.
bool World::AllIsWell() {
  int trains = 0;
  GroupKey key = {0, 0};
  for (const auto& process : processes_) {
    if (!process->alive() || !process->trains()) continue;
    const GroupKey own = KeyOf(process->group()->generation);
    if (trains > 0 && own != key) return false;
    key = own;
    ++trains;
  }
  return trains == std::min(num_processes_, membership_.max_members);
}

SimulationResult World::Run() {
  LogIf(num_processes_, " processes, groups of ", membership_.min_members, " to ",
        membership_.max_members, membership_.has_arbiter ? ", an arbiter" : ", votes",
        membership_.has_fence ? ", checkpoints" : "");
  for (const auto& process : processes_) {
    Process* const raw = process.get();
    After(network_.Between(absl::ZeroDuration(), absl::Seconds(2)), [raw] { raw->Start(); });
  }
  MakeFaults();
  At(absl::UnixEpoch() + kFaultsFor, -1, 0, [this] { Heal(); });
  const absl::Time end = absl::UnixEpoch() + kFaultsFor + kBound;
  int64_t steps_when_well = -1;
  while (result_.failure.empty() && !events_.empty()) {
    Event event = events_.top();
    events_.pop();
    if (event.when > end) break;
    now_ = std::max(now_, event.when);
    if (event.slot >= 0) {
      Process& process = *processes_[static_cast<size_t>(event.slot)];
      if (process.life() != event.life || !process.alive()) continue;
      if (process.paused_until > now_) {
        // Not before it wakes up, and then in the order in which it came.
        At(process.paused_until, event.slot, event.life, std::move(event.what));
        continue;
      }
    }
    event.what();
    if (event.slot >= 0) CheckNode(event.slot);
    if (!faults_are_over_) continue;
    if (steps_when_well < 0 && AllIsWell()) {
      steps_when_well = result_.steps;
      result_.recovery_seconds = absl::ToDoubleSeconds(now_ - absl::UnixEpoch() - kFaultsFor);
    } else if (steps_when_well >= 0 && !AllIsWell()) {
      steps_when_well = -1;
    } else if (steps_when_well >= 0 && result_.steps > steps_when_well + 3 * num_processes_) {
      return std::move(result_);
    }
  }
  if (!result_.failure.empty()) return std::move(result_);
  std::vector<std::string> states;
  for (const auto& process : processes_) {
    states.push_back(absl::StrCat(Name(static_cast<int>(states.size())), ": ",
                                  !process->alive() ? "dead"
                                  : process->trains()
                                      ? absl::StrCat("in ", Show(process->group()->generation),
                                                     " at step ", process->completed())
                                      : process->node().WhatIsMissing()));
  }
  Fail(absl::StrCat("the job does not train ", absl::FormatDuration(kBound),
                    " after the faults are over: ", absl::StrJoin(states, "; ")));
  return std::move(result_);
}

SimulationResult Simulate(const SimulationOptions& options) { return World(options).Run(); }

SimulationResult Shrink(SimulationOptions options) {
  options.logs = false;
  const int num_faults = Simulate(options).num_faults;
  for (int number = num_faults - 1; number >= 0; --number) {
    options.without_faults.push_back(number);
    if (Simulate(options).failure.empty()) options.without_faults.pop_back();
  }
  options.logs = true;
  return Simulate(options);
}

}  // namespace tandem::membership
