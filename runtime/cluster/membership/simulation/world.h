// What a simulation is made of: processes, and the world that they are in.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_WORLD_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/cluster/membership/node.h"
#include "runtime/cluster/membership/simulation/simulation.h"

namespace tandem::membership {

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
inline GroupKey KeyOf(const Generation& generation) {
  return {generation.run(), generation.number()};
}

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

std::string Show(const Generation& generation);
std::string Show(const Envelope& envelope);

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_WORLD_H_
