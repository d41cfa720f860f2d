#include "strategies/parameter_server/servers.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// Whoever ends this does not wait longer for a server that does not answer.
constexpr absl::Duration kDefineSlice = absl::Seconds(2);
// How often a signal is looked for.
constexpr absl::Duration kStopSlice = absl::Milliseconds(50);
constexpr absl::Duration kForgetTimeout = absl::Seconds(2);
constexpr int kMostAttempts = 3;

bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// Adds what is not there yet, by names.
void Merge(const ShardAddition& addition, ShardDefinition* definition) {
  tensorflow::GraphDef& graph = definition->graph;
  std::set<std::string> nodes;
  for (const tensorflow::NodeDef& node : graph.node()) nodes.insert(node.name());
  for (const tensorflow::NodeDef& node : addition.graph.node()) {
    if (nodes.insert(node.name()).second) *graph.add_node() = node;
  }
  std::set<std::string> functions;
  for (const auto& function : graph.library().function()) {
    functions.insert(function.signature().name());
  }
  for (const auto& function : addition.graph.library().function()) {
    if (functions.insert(function.signature().name()).second) {
      *graph.mutable_library()->add_function() = function;
    }
  }
  if (addition.graph.has_versions()) *graph.mutable_versions() = addition.graph.versions();
  std::set<std::string> programs;
  for (const Program& program : definition->programs) programs.insert(program.name());
  for (const Program& program : addition.programs) {
    if (programs.insert(program.name()).second) definition->programs.push_back(program);
  }
  std::set<std::string> variables;
  for (const Variable& variable : definition->variables) variables.insert(variable.name());
  for (const Variable& variable : addition.variables) {
    if (variables.insert(variable.name()).second) definition->variables.push_back(variable);
  }
}

}  // namespace

Servers::Servers(ServersOptions options) : options_(std::move(options)) {
  const size_t count = options_.tasks.size();
  for (size_t i = 0; i < count; ++i) {
    auto shard = std::make_unique<Shard>();
    shard->task = options_.tasks[i].first;
    shard->address = options_.tasks[i].second;
    shard->definition.job = options_.job;
    shard->definition.number = static_cast<int>(i);
    shard->definition.snapshots = options_.snapshots;
    if (!options_.snapshots.folder.empty()) {
      // A folder of its own.
      shard->definition.snapshots.folder =
          absl::StrCat(options_.snapshots.folder, "/",
                       absl::StrReplaceAll(options_.job, {{"/", "_"}}), "/shard_", i);
    }
    if (count > 1) {
      shard->definition.replication.mode = options_.replication;
      shard->definition.replication.address = options_.tasks[(i + 1) % count].second;
    }
    auto client = options_.connect ? options_.connect(shard->address)
                                   : ShardClient::Create(shard->address, {});
    if (client.ok()) {
      shard->client = *std::move(client);
    } else {
      MutexLock lock(mu_);
      if (status_.ok()) status_ = WithContext(client.status(), shard->task);
    }
    shards_.push_back(std::move(shard));
  }
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return;
  }
  if (count == 0) return;
  keeper_ = NewKeeper();
  for (size_t i = 0; i < count; ++i) {
    shards_[i]->thread = std::thread([this, i] { Watch(static_cast<int>(i)); });
  }
}

std::unique_ptr<JobKeeper> Servers::NewKeeper() {
  JobKeeperOptions keeper;
  keeper.job = options_.job;
  keeper.task = shards_[0]->task;
  keeper.client = shards_[0]->client.get();
  keeper.heartbeat = options_.heartbeat;
  keeper.lease = std::clamp(std::max(options_.lost_after, 3 * options_.heartbeat),
                            absl::Milliseconds(1), absl::Minutes(10));
  keeper.start_timeout = options_.start_timeout;
  keeper.on_held = [this] {
    MutexLock lock(mu_);
    is_held_ = true;
    changed_.NotifyAll();
  };
  keeper.on_refused = [this](const absl::Status& status) {
    {
      MutexLock lock(mu_);
      is_refused_ = true;
    }
    if (options_.on_refused) options_.on_refused();
    End(status);
  };
  keeper.on_not_there = [this](const absl::Status& status) { EndAdditions(status); };
  return std::make_unique<JobKeeper>(std::move(keeper));
}

void Servers::EndAdditions(const absl::Status& status) {
  MutexLock lock(mu_);
  for (const auto& shard : shards_) {
    if (!shard->addition.has_value()) continue;
    shard->addition.reset();
    shard->addition_status = status;
  }
  changed_.NotifyAll();
}

Servers::~Servers() { Stop(/*keep=*/true); }

void Servers::Stop(bool keep) {
  bool was_running = false;
  {
    MutexLock lock(mu_);
    was_running = !std::exchange(ends_, true);
    changed_.NotifyAll();
  }
  for (const auto& shard : shards_) {
    if (shard->thread.joinable()) shard->thread.join();
  }
  if (keeper_ == nullptr || !was_running) return;
  keeper_->Stop();
  {
    MutexLock lock(mu_);
    keep = keep || is_refused_;
  }
  for (const auto& shard : shards_) {
    if (keep || shard->client == nullptr || !shard->is_there) continue;
    const absl::Status status = shard->client->Forget(options_.job, absl::Now() + kForgetTimeout);
    if (!status.ok() && !absl::IsNotFound(status)) {
      TANDEM_LOG(Warning) << shard->task << " keeps what it has of job '" << options_.job
                          << "': " << status.message();
    }
  }
  keeper_->GiveBack(absl::Now() + kForgetTimeout);
}

absl::Status Servers::WaitInAdd(const std::function<bool()>& wants_stop) {
  if (wants_stop && wants_stop()) {
    return errors::Cancelled("the program was told to end while it waited for parameter servers");
  }
  if (wants_stop) {
    changed_.WaitUntil(mu_, absl::Now() + kStopSlice);
  } else {
    changed_.Wait(mu_);
  }
  return absl::OkStatus();
}

absl::Status Servers::Add(std::vector<ShardAddition> additions,
                          const std::function<bool()>& wants_stop) {
  std::vector<int> numbers;
  MutexLock lock(mu_);
  for (ShardAddition& addition : additions) {
    if (addition.shard < 0 || addition.shard >= num_shards()) {
      return errors::InvalidArgument("a part of the graph is on parameter server ", addition.shard,
                                     "; the job has ", num_shards());
    }
    Shard& shard = at(addition.shard);
    // One after the other; they are made by one thread.
    while (shard.addition.has_value() && !ends_ && status_.ok()) {
      TANDEM_RETURN_IF_ERROR(WaitInAdd(wants_stop));
    }
    if (!status_.ok()) return status_;
    if (ends_) return errors::Cancelled("the training ends");
    if (std::count(numbers.begin(), numbers.end(), addition.shard) > 0) {
      TANDEM_RETURN_IF_ERROR(shard.addition_status);
    }
    numbers.push_back(addition.shard);
    shard.addition_status = absl::OkStatus();
    if (!shard.is_defined) shard.lost_since = absl::Now();
    shard.addition = std::move(addition);
    keeper_->Begin();
    changed_.NotifyAll();
  }
  for (const int number : numbers) {
    while (at(number).addition.has_value() && !ends_ && status_.ok()) {
      TANDEM_RETURN_IF_ERROR(WaitInAdd(wants_stop));
    }
    if (!status_.ok()) return status_;
    if (ends_) return errors::Cancelled("the training ends");
    TANDEM_RETURN_IF_ERROR(at(number).addition_status);
  }
  return absl::OkStatus();
}

absl::Status Servers::status() const {
  MutexLock lock(mu_);
  return status_;
}

bool Servers::existed() const {
  MutexLock lock(mu_);
  for (const auto& shard : shards_) {
    if (shard->existed) return true;
  }
  return false;
}

int64_t Servers::newest_sequence() const {
  int64_t newest = 0;
  MutexLock lock(mu_);
  for (const auto& shard : shards_) newest = std::max(newest, shard->newest);
  return newest;
}

int64_t Servers::version(int shard) const {
  MutexLock lock(mu_);
  return at(shard).version;
}

void Servers::NoteVersion(int shard, int64_t version) {
  MutexLock lock(mu_);
  at(shard).version = std::max(at(shard).version, version);
}

bool Servers::AddTo(Route* route) const {
  MutexLock lock(mu_);
  if (!status_.ok()) return false;
  route->set_job(options_.job);
  for (const auto& shard : shards_) {
    if (!shard->is_defined) continue;
    if (!shard->is_there || shard->is_suspect) return false;
    Route::Shard& entry = *route->add_shards();
    entry.set_number(shard->definition.number);
    entry.set_address(shard->address);
    entry.set_incarnation(shard->incarnation);
  }
  return true;
}

void Servers::Suspect() {
  MutexLock lock(mu_);
  for (const auto& shard : shards_) {
    if (shard->is_there) shard->is_suspect = true;
  }
  changed_.NotifyAll();
}

void Servers::Watch(int number) {
  Shard& shard = at(number);
  absl::Duration pause = kFirstPause;
  absl::Time next_define = absl::InfinitePast();
  absl::Time next_ask = absl::Now();
  for (;;) {
    bool defines = false;
    {
      MutexLock lock(mu_);
      for (;;) {
        if (ends_) return;
        const absl::Time now = absl::Now();
        absl::Time next = absl::InfiniteFuture();
        const bool needs_definition =
            status_.ok() && is_held_ &&
            (shard.addition.has_value() || (shard.is_defined && !shard.is_there));
        if (needs_definition) {
          defines = true;
          if (now >= next_define) break;
          next = next_define;
        } else if (shard.is_there && status_.ok()) {
          defines = false;
          if (shard.is_suspect || now >= next_ask) break;
          next = next_ask;
        }
        changed_.WaitUntil(mu_, next);
      }
    }
    if (!defines) {
      Ask(number);
      next_ask = absl::Now() + options_.heartbeat;
      continue;
    }
    Define(number);
    const bool is_there = [&] {
      MutexLock lock(mu_);
      return shard.is_there;
    }();
    pause = is_there ? kFirstPause : std::min(2 * pause, kLongestPause);
    next_define = is_there ? absl::InfinitePast() : absl::Now() + pause;
    next_ask = absl::Now() + options_.heartbeat;
  }
}

void Servers::Define(int number) {
  Shard& shard = at(number);
  // All of it, whether or not the server has some: it may have been started again just now.
  ShardDefinition definition;
  bool was_there = false;
  {
    MutexLock lock(mu_);
    definition = shard.definition;
    if (shard.addition.has_value()) Merge(*shard.addition, &definition);
    was_there = shard.is_there;
  }
  const absl::StatusOr<DefinedShard> defined =
      shard.client->Define(definition, absl::Now() + kDefineSlice);
  if (!defined.ok() && IsLoss(defined.status())) {
    if (was_there) Lose(number, std::string(defined.status().message()));
    absl::Status end;
    {
      MutexLock lock(mu_);
      shard.last_error = defined.status();
      if (absl::Now() - shard.lost_since < options_.start_timeout) return;
      end = errors::DeadlineExceeded(
          "parameter server ", shard.task, " at ", shard.address,
          shard.is_defined ? " was lost and has not come back within " : " is not there after ",
          absl::FormatDuration(options_.start_timeout), ": ", defined.status().message());
      if (!shard.is_defined) {
        shard.addition.reset();
        shard.addition_status = end;
        changed_.NotifyAll();
        return;
      }
    }
    End(end);
    return;
  }
  if (!defined.ok()) {
    const absl::Status error =
        WithContext(defined.status(), absl::StrCat("parameter server ", shard.task));
    bool is_end = false;
    {
      MutexLock lock(mu_);
      is_end = !shard.addition.has_value();
      shard.addition.reset();
      shard.addition_status = error;
      changed_.NotifyAll();
    }
    // What it had before cannot be refused by one that shall have it again.
    if (is_end) End(error);
    return;
  }
  bool is_first = false;
  bool is_another = false;
  {
    MutexLock lock(mu_);
    is_first = !shard.is_defined;
    is_another = !is_first && shard.incarnation != defined->incarnation;
  }
  if (is_another) {
    if (was_there) Lose(number, "was started again");
    const absl::Status restored = Restored(number, *defined);
    if (!restored.ok()) {
      End(restored);
      return;
    }
  }
  {
    MutexLock lock(mu_);
    shard.definition = std::move(definition);
    shard.addition.reset();
    shard.is_defined = true;
    shard.is_there = true;
    shard.is_suspect = false;
    shard.incarnation = defined->incarnation;
    if (is_first) {
      shard.existed = defined->origin != Origin::kNew && defined->version > 0;
      for (const PushId& id : defined->newest) {
        if (id.client() == options_.client) shard.newest = std::max(shard.newest, id.sequence());
      }
    }
    // It may be lower than before.
    if (is_first || is_another) shard.version = defined->version;
    changed_.NotifyAll();
  }
  if (options_.on_change) options_.on_change();
}

absl::Status Servers::Restored(int number, const DefinedShard& defined) {
  Shard& shard = at(number);
  int64_t known = 0;
  absl::Duration away;
  {
    MutexLock lock(mu_);
    known = shard.version;
    away = absl::Now() - shard.lost_since;
  }
  // The answer of a definition that was repeated does not tell that the first one made it.
  const bool has_no_state = defined.origin == Origin::kNew || defined.version == 0;
  if (has_no_state && known > 0) {
    return errors::FailedPrecondition(
        "parameter server ", shard.task, " at ", shard.address, " was lost with ", known,
        " updates, and was started again without them: there is neither a replica nor a snapshot "
        "of what it had. ",
        shard.definition.replication.mode == Replication::kNone
            ? "Switch one on (ParameterServerOptions::replication, snapshot_dir) to go on after "
              "such "
              "a loss"
            : "The server that holds its replica was lost, too; snapshots "
              "(ParameterServerOptions::snapshot_dir) survive that",
        "; now the training has to begin again, or at its last checkpoint");
  }
  const int64_t lost = std::max<int64_t>(0, known - defined.version);
  const char* const from = defined.origin == Origin::kReplica    ? " from its replica"
                           : defined.origin == Origin::kSnapshot ? " from its snapshot"
                                                                 : "";
  std::string text = absl::StrCat("is there again after ",
                                  absl::FormatDuration(absl::Trunc(away, absl::Milliseconds(1))),
                                  ", with ", defined.version, " updates", from, "; ", lost,
                                  lost == 1 ? " update is lost" : " updates are lost");
  TANDEM_LOG(Warning) << "parameter server " << shard.task << " " << text;
  {
    MutexLock lock(mu_);
    shard.lost_updates += lost;
    events_.push_back(
        {MemberEvent::Kind::kJoined, shard.task, std::move(text), ++generation_, true});
  }
  if (options_.on_restored) options_.on_restored(number, defined.version);
  return absl::OkStatus();
}

void Servers::Ask(int number) {
  Shard& shard = at(number);
  const absl::StatusOr<std::vector<ShardReport>> reports =
      shard.client->Report(options_.job, absl::Now() + options_.lost_after);
  if (!reports.ok() && !absl::IsNotFound(reports.status())) {
    Lose(number, absl::StrCat("does not answer: ", reports.status().message()));
    return;
  }
  const ShardReport* mine = nullptr;
  if (reports.ok()) {
    for (const ShardReport& report : *reports) {
      if (report.number == number && !report.is_replica) mine = &report;
    }
  }
  bool was_suspect = false;
  {
    MutexLock lock(mu_);
    if (mine != nullptr && mine->incarnation == shard.incarnation) {
      shard.report = *mine;
      shard.version = std::max(shard.version, mine->status.version);
      was_suspect = std::exchange(shard.is_suspect, false);
      changed_.NotifyAll();
    } else {
      mine = nullptr;
    }
  }
  if (mine == nullptr) {
    Lose(number, "was started again, and has lost its shard");
  } else if (was_suspect && options_.on_change) {
    options_.on_change();
  }
}

void Servers::Lose(int number, const std::string& reason) {
  Shard& shard = at(number);
  TANDEM_LOG(Warning) << "parameter server " << shard.task << " is lost: " << reason;
  MutexLock lock(mu_);
  shard.is_there = false;
  shard.is_suspect = false;
  shard.lost_since = absl::Now();
  ++shard.losses;
  events_.push_back({MemberEvent::Kind::kLeft, shard.task, reason, ++generation_, true});
  changed_.NotifyAll();
}

void Servers::End(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    if (status_.ok()) status_ = status;
    changed_.NotifyAll();
  }
  if (options_.on_change) options_.on_change();
}

absl::Status Servers::WhileThere(int number,
                                 absl::FunctionRef<absl::Status(ShardClient& client)> call) {
  Shard& shard = at(number);
  uint64_t failed_with = 0;
  for (int attempts = 0;;) {
    uint64_t incarnation = 0;
    {
      MutexLock lock(mu_);
      // It ends: either it is there again, or the training has ended.
      while (status_.ok() && !ends_ && shard.is_defined && (!shard.is_there || shard.is_suspect)) {
        changed_.Wait(mu_);
      }
      TANDEM_RETURN_IF_ERROR(status_);
      if (ends_) return errors::Cancelled("the training ends");
      if (!shard.is_defined) {
        return errors::FailedPrecondition("parameter server ", shard.task,
                                          " has been given nothing yet");
      }
      incarnation = shard.incarnation;
    }
    const absl::Status status = call(*shard.client);
    if (status.ok()) return status;
    attempts = incarnation == failed_with ? attempts + 1 : 1;
    failed_with = incarnation;
    if (attempts >= (IsLoss(status) ? kMostAttempts : 2)) {
      return WithContext(status, absl::StrCat("parameter server ", shard.task));
    }
    // One that was started again has other errors, too, such as that it has no shard.
    Suspect();
  }
}

absl::StatusOr<ShardAnswer> Servers::Call(int shard, const PushId& id, const std::string& program,
                                          bool updates, const std::vector<Tensor>& arguments) {
  ShardAnswer answer;
  TANDEM_RETURN_IF_ERROR(WhileThere(shard, [&](ShardClient& client) -> absl::Status {
    Route route;
    if (!AddTo(&route)) return errors::Unavailable("a parameter server was lost");
    *route.mutable_id() = id;
    route.set_timeout_ms(absl::ToInt64Milliseconds(options_.start_timeout));
    TANDEM_ASSIGN_OR_RETURN(answer, client.Call(route, program, updates, arguments,
                                                absl::Now() + options_.start_timeout));
    return absl::OkStatus();
  }));
  if (updates) NoteVersion(shard, answer.version);
  return answer;
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Servers::Read(
    int shard, const std::vector<std::string>& variables) {
  std::vector<std::pair<std::string, Tensor>> values;
  TANDEM_RETURN_IF_ERROR(WhileThere(shard, [&](ShardClient& client) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(
        values, client.Read(options_.job, shard, variables, absl::Now() + options_.start_timeout));
    return absl::OkStatus();
  }));
  return values;
}

absl::Status Servers::Write(int shard,
                            const std::vector<std::pair<std::string, Tensor>>& variables) {
  return WhileThere(shard, [&](ShardClient& client) {
    return client.Write(options_.job, shard, variables, absl::Now() + options_.start_timeout);
  });
}

absl::Status Servers::SetNote(int shard, const std::string& note) {
  return WhileThere(shard, [&](ShardClient& client) {
    return client.SetNote(options_.job, shard, note, absl::Now() + options_.start_timeout);
  });
}

absl::StatusOr<std::string> Servers::Note(int shard) {
  std::string note;
  TANDEM_RETURN_IF_ERROR(WhileThere(shard, [&](ShardClient& client) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(note,
                            client.Note(options_.job, shard, absl::Now() + options_.start_timeout));
    return absl::OkStatus();
  }));
  return note;
}

absl::StatusOr<std::vector<ShardReport>> Servers::AskReports() {
  std::vector<ShardReport> all(shards_.size());
  for (int number = 0; number < num_shards(); ++number) {
    {
      MutexLock lock(mu_);
      if (!at(number).is_defined) continue;
    }
    TANDEM_RETURN_IF_ERROR(WhileThere(number, [&](ShardClient& client) -> absl::Status {
      TANDEM_ASSIGN_OR_RETURN(const std::vector<ShardReport> reports,
                              client.Report(options_.job, absl::Now() + options_.lost_after));
      for (const ShardReport& report : reports) {
        if (report.number != number || report.is_replica) continue;
        all[static_cast<size_t>(number)] = report;
        return absl::OkStatus();
      }
      return errors::Unavailable("it has no shard ", number, " of job '", options_.job, "'");
    }));
    NoteVersion(number, all[static_cast<size_t>(number)].status.version);
  }
  return all;
}

std::vector<ServerStatistics> Servers::Statistics() const {
  std::vector<ServerStatistics> all;
  MutexLock lock(mu_);
  for (const auto& shard : shards_) {
    ServerStatistics& one = all.emplace_back();
    one.task = shard->task;
    one.address = shard->address;
    one.is_there = shard->is_there;
    one.report = shard->report;
    one.losses = shard->losses;
    one.lost_updates = shard->lost_updates;
  }
  return all;
}

absl::StatusOr<std::vector<int64_t>> Servers::AskVersions() {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<ShardReport> reports, AskReports());
  std::vector<int64_t> versions;
  for (const ShardReport& report : reports) versions.push_back(report.status.version);
  return versions;
}

std::vector<MemberEvent> Servers::TakeEvents() {
  MutexLock lock(mu_);
  return std::exchange(events_, {});
}

}  // namespace tandem::parameter_server
