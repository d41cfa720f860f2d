// A process of a simulation, and the program that trains in it.
#include "runtime/cluster/membership/simulation/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::membership {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr int kCheckpointEvery = 5;
constexpr int kBarrierEvery = 7;

}  // namespace

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

}  // namespace tandem::membership
