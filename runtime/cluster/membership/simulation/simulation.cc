#include "runtime/cluster/membership/simulation/simulation.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cluster/membership/node.h"

namespace tandem::membership {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kFaultsFor = absl::Seconds(60);
// Time to notice that all is well, to give up what hopes in vain, to be started again, to meet.
constexpr absl::Duration kBound = absl::Seconds(60);
constexpr int kCheckpointEvery = 5;
constexpr int kBarrierEvery = 7;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1p-53 < p; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const double part = static_cast<double>(Next() >> 11) * 0x1p-53;
    return low + part * (high - low);
  }

 private:
  uint64_t state_;
};

using GroupKey = std::pair<uint64_t, uint64_t>;  // Run and number.
GroupKey KeyOf(const Generation& generation) { return {generation.run(), generation.number()}; }

class World;

// A process: a node, and a program that trains.
class Process final : public NodeHost {
 public:
  Process(World* world, int slot) : world_(*world), slot_(slot) {}

  void Start();
  void Crash();
  bool alive() const { return node_ != nullptr && !exited_; }
  Node& node() { return *node_; }
  int64_t life() const { return life_; }
  int64_t completed() const { return completed_; }
  bool trains() const { return alive() && group_.has_value(); }
  const absl::optional<Group>& group() const { return group_; }

  // NodeHost.
  void Send(const std::string& address, const Envelope& envelope) override;
  void Ask(const ArbiterQuestion& question) override;
  void GroupFormed(const Group& group) override;
  void GroupLost(const Generation& generation, const absl::Status& reason) override;
  void BarrierOpened(const std::string& barrier) override;
  void PutDone(uint64_t) override {}
  void ValueArrived(const std::string& key, const std::string& value) override;
  void SyncChanged(const absl::optional<SyncPoint>&) override { LookSoon(); }
  void Ended(const absl::Status& status) override;

  // The program's next move: it may not be made from within a node's event.
  void LookSoon();
  void Look();
  void OperationDone(const GroupKey& key, int64_t operation, int64_t value);

  absl::Time paused_until = absl::InfinitePast();
  GroupKey checked = {0, 0};  // The last generation of the node that was looked at.

 private:
  friend class World;

  void Contribute(int64_t operation, int64_t value);
  void Save(int64_t step);

  World& world_;
  const int slot_;
  int64_t life_ = 0;  // Counts starts.
  std::unique_ptr<Node> node_;
  bool exited_ = true;

  absl::optional<Group> group_;
  enum class Doing { kNothing, kBroadcast, kBeginBarrier, kStep, kBarrier, kHold };
  Doing doing_ = Doing::kNothing;
  bool wants_next_ = false;
  int64_t completed_ = -1;
  int64_t saved_at_ = -1;
  absl::Time saved_by_ = absl::InfinitePast();
  bool look_pending_ = false;
};

class World {
 public:
  explicit World(const SimulationOptions& options)
      : options_(options), random_(options.seed * 2 + 1), network_(options.seed ^ 0x5eed) {
    num_processes_ = 2 + random_.Below(5);
    membership_.mutation = options.mutation;
    membership_.has_arbiter = random_.Chance(0.5);
    membership_.has_fence = random_.Chance(0.7);
    membership_.max_members = num_processes_;
    membership_.min_members = 1 + random_.Below(num_processes_);
    if (membership_.has_arbiter && random_.Chance(0.3)) {
      membership_.max_members =
          membership_.min_members + random_.Below(num_processes_ - membership_.min_members + 1);
    }
    membership_.start_timeout = absl::Seconds(40);
    membership_.sync_timeout = absl::Seconds(20);
    for (int i = 0; i < num_processes_; ++i) {
      membership_.seeds.push_back({Name(i), Name(i)});
    }
    for (int i = 0; i < num_processes_; ++i) {
      processes_.push_back(std::make_unique<Process>(this, i));
    }
  }

  SimulationResult Run();

  static std::string Name(int slot) { return absl::StrCat("worker:", slot); }

  // Runs `what` at a time, for a process if it is still in that life then; later if it is paused.
  void At(absl::Time when, int slot, int64_t life, std::function<void()> what) {
    events_.push({when, next_event_++, slot, life, std::move(what)});
  }
  void After(absl::Duration delay, std::function<void()> what) {
    At(now_ + delay, -1, 0, std::move(what));
  }
  void Fail(const std::string& what) {
    if (!result_.failure.empty()) return;
    result_.failure = absl::StrCat("seed ", options_.seed, ", at ", Seconds(now_), " s: ", what);
    Log(absl::StrCat("VIOLATED: ", what));
  }
  template <typename... Args>
  void LogIf(const Args&... args) {
    if (options_.logs) Log(absl::StrCat(args...));
  }
  void Log(const std::string& text) {
    if (options_.logs) result_.log.push_back(absl::StrCat(Seconds(now_), "  ", text));
  }
  static std::string Seconds(absl::Time time) {
    const int64_t ms = absl::ToInt64Milliseconds(time - absl::UnixEpoch());
    return absl::StrCat(ms / 1000, ".", absl::Dec(ms % 1000, absl::kZeroPad3));
  }

  void Deliver(int from, const std::string& address, const Envelope& envelope);
  void AnswerArbiter(int slot, int64_t life, const ArbiterQuestion& question);
  void CheckNode(int slot);
  void MakeFaults();
  void Fault(int kind, int a, int b, absl::Duration length, double p);
  void Heal();
  bool AllIsWell();

  const SimulationOptions options_;
  Random random_;   // Faults: those that are left out do not change the others.
  Random network_;  // All else.
  int num_processes_ = 0;
  MembershipOptions membership_;
  absl::Time now_ = absl::UnixEpoch();
  SimulationResult result_;
  std::vector<std::unique_ptr<Process>> processes_;

  struct Event {
    absl::Time when;
    uint64_t number;
    int slot;
    int64_t life;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::tie(when, number) > std::tie(other.when, other.number);
    }
  };
  std::priority_queue<Event> events_;
  uint64_t next_event_ = 0;

  bool faults_are_over_ = false;
  double drop_ = 0, twice_ = 0, late_ = 0;
  std::set<std::pair<int, int>> cut_;  // From, to.
  std::set<int> no_arbiter_;           // Who does not reach it.
  absl::Duration disk_ = absl::Milliseconds(10);

  ArbiterState arbiter_;
  uint64_t fence_ = 0;
  int64_t checkpoint_ = -1;

  uint64_t next_incarnation_ = 1;
  std::map<GroupKey, std::string> generations_;
  std::map<GroupKey, std::pair<int64_t, int>> started_;  // Step and source.
  std::map<uint64_t, uint64_t> newest_started_;          // By run.
  std::map<std::pair<GroupKey, std::string>, std::set<std::string>> arrivals_;
  std::map<std::pair<GroupKey, uint64_t>, int64_t> syncs_;
  // A collective of a group: who has contributed, and what the source said.
  struct Operation {
    std::map<std::string, int64_t> came;
  };
  std::map<std::pair<GroupKey, int64_t>, Operation> operations_;
};

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

// The process --------------------------------------------------------------------------------

void Process::Start() {
  ++life_;
  exited_ = false;
  completed_ = saved_at_ = -1;
  group_.reset();
  doing_ = Doing::kNothing;
  look_pending_ = false;
  checked = {0, 0};
  paused_until = absl::InfinitePast();
  MemberInfo self;
  self.set_name(World::Name(slot_));
  self.set_address(World::Name(slot_));
  self.set_pid(life_);
  // Room for rejoining under greater ones.
  const uint64_t incarnation = world_.next_incarnation_++ * 1000;
  node_ =
      std::make_unique<Node>(world_.membership_, self, incarnation, world_.network_.Next(), this);
  world_.LogIf(World::Name(slot_), " starts as #", incarnation);
  node_->Start(world_.now_);
  std::function<void()> tick = [this] { node_->Tick(world_.now_); };
  struct Repeat {
    static void Schedule(World& world, int slot, int64_t life, absl::Time when,
                         std::function<void()> tick) {
      world.At(when, slot, life, [&world, slot, life, tick] {
        tick();
        Schedule(world, slot, life, world.now_ + kTick, tick);
      });
    }
  };
  Repeat::Schedule(world_, slot_, life_, world_.now_ + kTick, tick);
}

void Process::Crash() {
  exited_ = true;
  group_.reset();
  ++life_;
}

void Process::Ended(const absl::Status& status) {
  world_.LogIf(World::Name(slot_), " ends: ", status.ToString());
  exited_ = true;
  if (!status.ok()) ++world_.result_.num_stops;
  if (!status.ok() && status.message().empty()) world_.Fail("a stop without a reason");
  ++life_;  // What is under way for it is void.
  World& world = world_;
  Process* const self = this;
  const int64_t life = life_;
  world.After(world.network_.Between(absl::Seconds(1), absl::Seconds(3)), [self, life] {
    if (self->life_ == life && self->exited_) self->Start();
  });
}

void Process::Send(const std::string& address, const Envelope& envelope) {
  world_.Deliver(slot_, address, envelope);
}

void Process::Ask(const ArbiterQuestion& question) {
  World& world = world_;
  const int slot = slot_;
  const int64_t life = life_;
  if (world.no_arbiter_.count(slot) > 0) {
    if (world.network_.Chance(0.5)) return;  // No answer at all.
    world.At(world.now_ + absl::Milliseconds(50), slot, life, [this, question] {
      ArbiterAnswer answer;
      answer.kind = question.kind;
      answer.status = absl::UnavailableError("the folder cannot be read");
      node_->OnArbiter(world_.now_, answer);
    });
    return;
  }
  world.After(world.network_.Between(absl::Milliseconds(1), world.disk_),
              [&world, slot, life, question] { world.AnswerArbiter(slot, life, question); });
}

void Process::GroupFormed(const Group& group) {
  const GroupKey key = KeyOf(group.generation);
  world_.LogIf(World::Name(slot_), " enters ", Show(group.generation), " after step ",
               group.start_step);
  if (group_.has_value()) {
    world_.Fail(absl::StrCat(World::Name(slot_), " enters ", Show(group.generation),
                             " and has not left ", Show(group_->generation)));
  }
  if (!IsSame(group.generation.members(group.rank), node_->self())) {
    world_.Fail(absl::StrCat(World::Name(slot_), " is not rank ", group.rank, " of ",
                             Show(group.generation)));
  }
  if (group.generation.members_size() < world_.membership_.min_members ||
      group.generation.members_size() > world_.membership_.max_members) {
    world_.Fail(absl::StrCat(Show(group.generation), " has another size than is allowed"));
  }
  if (group.start_step < completed_) {
    world_.Fail(absl::StrCat(Show(group.generation), " begins after step ", group.start_step,
                             ", but ", World::Name(slot_), " has completed ", completed_));
  }
  const auto [entry, is_first] =
      world_.started_.emplace(key, std::make_pair(group.start_step, group.source_rank));
  if (!is_first && entry->second != std::make_pair(group.start_step, group.source_rank)) {
    world_.Fail(absl::StrCat("members of ", Show(group.generation), " begin at different steps"));
  }
  if (is_first && world_.membership_.has_fence && world_.fence_ < key.second) {
    world_.Fail(absl::StrCat(Show(group.generation), " has started before its fence was raised"));
  }
  uint64_t& newest = world_.newest_started_[key.first];
  newest = std::max(newest, key.second);
  group_ = group;
  doing_ = Doing::kBroadcast;
  wants_next_ = true;
  LookSoon();
}

void Process::GroupLost(const Generation& generation, const absl::Status& reason) {
  world_.LogIf(World::Name(slot_), " leaves ", Show(generation), ": ", reason.message());
  group_.reset();
  doing_ = Doing::kNothing;
}

void Process::BarrierOpened(const std::string& barrier) {
  ++world_.result_.num_barriers;
  world_.LogIf(World::Name(slot_), " passes barrier ", barrier);
  const std::set<std::string>& came = world_.arrivals_[{KeyOf(group_->generation), barrier}];
  for (const MemberInfo& member : group_->generation.members()) {
    if (came.count(absl::StrCat(member.name(), "#", member.incarnation())) == 0) {
      world_.Fail(absl::StrCat("barrier ", barrier, " of ", Show(group_->generation),
                               " opens before ", member.name(), " has come"));
    }
  }
  wants_next_ = true;
  LookSoon();
}

void Process::ValueArrived(const std::string& key, const std::string& value) {
  const std::string wanted =
      absl::StrCat(group_->generation.run(), "/", group_->generation.number(), "/", key);
  if (value != wanted) {
    world_.Fail(absl::StrCat("key ", key, " has the value ", value, ", not ", wanted));
  }
}

void Process::LookSoon() {
  if (look_pending_) return;
  look_pending_ = true;
  world_.At(world_.now_, slot_, life_, [this] {
    look_pending_ = false;
    Look();
  });
}

void Process::Look() {
  if (!group_.has_value()) return;
  const absl::Time now = world_.now_;
  if (doing_ == Doing::kHold && !node_->HoldsAtSync()) {
    // The sync point moved on.
    doing_ = completed_ % kBarrierEvery == 0 ? Doing::kBarrier : Doing::kStep;
    wants_next_ = true;
  }
  if (doing_ == Doing::kHold) {
    const SyncPoint& sync = *node_->sync();
    if (!sync.is_final() || saved_at_ == sync.step()) return;
    saved_at_ = sync.step();
    if (sync.save()) {
      ++world_.result_.num_saves;
      const auto [entry, is_first] =
          world_.syncs_.emplace(std::make_pair(KeyOf(group_->generation), sync.id()), completed_);
      if (!is_first && entry->second != completed_) {
        world_.Fail(absl::StrCat(World::Name(slot_), " saves at step ", completed_,
                                 ", another member at ", entry->second));
      }
      if (group_->rank == 0) Save(completed_);
    }
    node_->ReachedSync(now, sync.id());
    return;
  }
  if (!wants_next_) return;
  wants_next_ = false;
  switch (doing_) {
    case Doing::kBroadcast: {
      int64_t state = -1;
      if (group_->rank == group_->source_rank) {
        state = group_->from_checkpoint ? world_.checkpoint_ : completed_;
        if (group_->start_step != state) {
          world_.Fail(absl::StrCat(World::Name(slot_), " is to give the state of step ",
                                   group_->start_step, ", but has that of ", state));
        }
        state = std::max<int64_t>(state, 0);
      }
      Contribute(-1, state);
      return;
    }
    case Doing::kBeginBarrier:
      if (group_->rank == 0) {
        node_->Put(
            now, "address",
            absl::StrCat(group_->generation.run(), "/", group_->generation.number(), "/address"));
      }
      node_->Want(now, "address");
      doing_ = Doing::kStep;
      world_.arrivals_[{KeyOf(group_->generation), "begin"}].insert(
          absl::StrCat(node_->self().name(), "#", node_->self().incarnation()));
      node_->Arrive(now, "begin");
      return;
    case Doing::kBarrier: {
      doing_ = Doing::kStep;
      const std::string barrier = absl::StrCat("at ", completed_);
      world_.arrivals_[{KeyOf(group_->generation), barrier}].insert(
          absl::StrCat(node_->self().name(), "#", node_->self().incarnation()));
      node_->Arrive(now, barrier);
      return;
    }
    case Doing::kStep:
      Contribute(completed_ + 1, 0);
      return;
    case Doing::kHold:
    case Doing::kNothing:
      return;
  }
}

void Process::Contribute(int64_t operation, int64_t value) {
  const GroupKey key = KeyOf(group_->generation);
  World::Operation& collective = world_.operations_[{key, operation}];
  collective.came[World::Name(slot_)] = value;
  if (static_cast<int>(collective.came.size()) < group_->generation.members_size()) return;
  int64_t state = -1;
  for (const auto& [name, said] : collective.came) state = std::max(state, said);
  // Each member learns of it at its own time, or never, if it leaves the group before.
  for (const MemberInfo& member : group_->generation.members()) {
    for (const auto& process : world_.processes_) {
      if (World::Name(process->slot_) != member.name() || !process->alive()) continue;
      Process* const other = process.get();
      world_.At(
          world_.now_ + world_.network_.Between(absl::Milliseconds(20), absl::Milliseconds(400)),
          other->slot_, other->life_,
          [other, key, operation, state] { other->OperationDone(key, operation, state); });
    }
  }
}

void Process::OperationDone(const GroupKey& key, int64_t operation, int64_t value) {
  if (!group_.has_value() || KeyOf(group_->generation) != key) return;
  if (operation < 0) {
    if (value < completed_) world_.Fail(absl::StrCat(World::Name(slot_), " loses steps"));
    completed_ = value;
    doing_ = Doing::kBeginBarrier;
  } else {
    completed_ = operation;
    ++world_.result_.steps;
    doing_ = completed_ % kBarrierEvery == 0 ? Doing::kBarrier : Doing::kStep;
    if (group_->rank == 0 && completed_ % kCheckpointEvery == 0) Save(completed_);
  }
  node_->ReportStep(world_.now_, completed_);
  if (!group_.has_value()) return;
  if (operation >= 0 && node_->HoldsAtSync()) doing_ = Doing::kHold;
  wants_next_ = true;
  Look();
}

void Process::Save(int64_t step) {
  if (!world_.membership_.has_fence) return;
  World& world = world_;
  const GroupKey key = KeyOf(group_->generation);
  const std::string name = World::Name(slot_);
  // One after the other.
  saved_by_ = std::max(saved_by_, world.now_) +
              world.network_.Between(absl::Milliseconds(10), 5 * world.disk_);
  world.At(saved_by_, slot_, life_, [&world, key, step, name] {
    if (world.fence_ > key.second && world.options_.mutation != Mutation::kFenceIsIgnored) {
      ++world.result_.num_refused_writes;
      world.LogIf(name, " may not write the checkpoint of step ", step);
      return;
    }
    world.LogIf(name, " writes the checkpoint of step ", step);
    if (key.second < world.newest_started_[key.first]) {
      world.Fail(absl::StrCat(name, ", chief of generation ", key.second,
                              ", writes a checkpoint, but generation ",
                              world.newest_started_[key.first], " has started"));
    }
    if (step < world.checkpoint_) {
      world.Fail(absl::StrCat("a checkpoint of step ", step, " replaces that of step ",
                              world.checkpoint_));
    }
    world.fence_ = std::max(world.fence_, key.second);
    world.checkpoint_ = step;
  });
}

// The world ----------------------------------------------------------------------------------

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
    default:
      return;
  }
}

void World::MakeFaults() {
  absl::Time when = absl::UnixEpoch() + random_.Between(absl::Seconds(1), absl::Seconds(15));
  // Some runs have a favourite.
  const int favourite = random_.Chance(0.5) ? random_.Below(10) : -1;
  const absl::Duration pace = random_.Between(absl::Seconds(1), absl::Seconds(12));
  for (int number = 0; when < absl::UnixEpoch() + kFaultsFor; ++number) {
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

}  // namespace

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
