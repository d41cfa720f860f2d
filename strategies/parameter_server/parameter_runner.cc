#include "strategies/parameter_server/parameter_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/parameter_server/join.h"

namespace tandem::parameter_server {
namespace {

// Steps of an earlier life of the coordinator may still run: their names shall not be used again.
constexpr int64_t kSequenceGap = int64_t{1} << 20;
// How much longer than they are allowed to cancelled steps may take.
constexpr absl::Duration kCancelTimeout = absl::Seconds(10);
constexpr absl::Duration kNoteTimeout = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterRunner>> ParameterRunner::Create(
    const ParameterBuilder& builder, ParameterRunnerOptions options) {
  if (options.fleet.workers.empty()) {
    return errors::InvalidArgument("a training with parameter servers needs a worker");
  }
  if (static_cast<int>(options.servers.tasks.size()) != builder.num_shards()) {
    return errors::InvalidArgument("the graph is for ", builder.num_shards(),
                                   " parameter servers; the job has ",
                                   options.servers.tasks.size());
  }
  const int workers = static_cast<int>(options.fleet.workers.size());
  if (options.staleness < 0 || options.backup_workers < 0 || options.backup_workers >= workers ||
      options.fleet.steps_in_flight < 1) {
    return errors::InvalidArgument(
        "staleness ", options.staleness, ", ", options.backup_workers, " backup workers of ",
        workers, " and ", options.fleet.steps_in_flight,
        " steps in flight were asked for; no number may be negative, one worker has to count, and "
        "one step has to be in flight");
  }
  std::unique_ptr<ParameterRunner> runner(new ParameterRunner(builder, std::move(options)));
  if (runner->options_.status_port.has_value()) {
    TANDEM_RETURN_IF_ERROR(runner->ServePage(*runner->options_.status_port));
  }
  return runner;
}

ParameterRunner::ParameterRunner(const ParameterBuilder& builder, ParameterRunnerOptions options)
    : builder_(builder), options_(std::move(options)), client_(options_.servers.client) {
  {
    MutexLock lock(mu_);
    next_version_.assign(static_cast<size_t>(builder_.num_shards()), 0);
    acknowledged_ = next_version_;
  }
  FleetOptions fleet = options_.fleet;
  // Set before anything calls it.
  fleet.on_trouble = [this] { servers_->Suspect(); };
  fleet_ = std::make_unique<Fleet>(std::move(fleet));
  ServersOptions servers = options_.servers;
  servers.on_restored = [this](int shard, int64_t version) { Restored(shard, version); };
  servers.on_change = [this] { ServersChanged(); };
  servers_ = std::make_unique<Servers>(std::move(servers));
}

ParameterRunner::~ParameterRunner() {
  page_.reset();
  bool keep = false;
  {
    MutexLock lock(mu_);
    while (!steps_.empty() || calls_ > 0) changed_.Wait(mu_);
    keep = has_failed_;
  }
  // What is left are parts that nobody waits for.
  fleet_->CancelAll(errors::Cancelled("the training ends"));
  // Whoever goes on here shall know all.
  if (keep && notes_ != nullptr) notes_->Flush(absl::Now() + kNoteTimeout);
  servers_->Stop(keep);
  notes_.reset();
  fleet_.reset();
  if (keep && options_.on_failed) options_.on_failed();
}

int ParameterRunner::max_steps_in_flight() const {
  const int all = fleet_->num_workers() * options_.fleet.steps_in_flight;
  switch (options_.mode) {
    case ParameterRunnerOptions::Mode::kAsynchronous:
      break;
    case ParameterRunnerOptions::Mode::kBoundedStaleness:
      return std::min(all, options_.staleness + 1);
    case ParameterRunnerOptions::Mode::kSynchronous:
      return options_.fleet.steps_in_flight;
  }
  return all;
}

absl::Status ParameterRunner::InitializeUnless(const std::function<bool()>& wants_stop) {
  RunSignature signature;
  signature.targets = {builder_.initializer()};
  CutOptions cut_options;
  cut_options.name = "initialize";
  cut_options.shards_compute = true;
  TANDEM_ASSIGN_OR_RETURN(CutStep cut, CutGraph(*builder_.graph(), signature, cut_options));
  if (cut.has_worker) {
    return errors::Internal(
        "the initial values of the variables are not computed by their servers");
  }
  std::map<int, ShardAddition> additions;
  for (ShardPart& part : cut.shards) {
    ShardAddition& addition = additions[part.shard];
    addition.graph = std::move(part.graph);
    addition.programs = std::move(part.programs);
  }
  for (const StrategyVariable* variable : builder_.variables()) {
    for (const VariablePart& part : builder_.PartsOf(*variable)) {
      additions[part.shard].variables.push_back(part.variable);
    }
  }
  std::vector<ShardAddition> list;
  std::map<int, std::vector<std::string>> programs;
  for (auto& [number, addition] : additions) {
    addition.shard = number;
    for (const auto& program : addition.programs) programs[number].push_back(program.name());
    list.push_back(std::move(addition));
  }
  if (!list.empty()) note_shard_ = list.front().shard;
  TANDEM_RETURN_IF_ERROR(servers_->Add(std::move(list), wants_stop));
  if (note_shard_ >= 0) {
    notes_ = std::make_unique<NoteKeeper>(
        [this](const std::string& note) { return servers_->SetNote(note_shard_, note); });
  }

  existed_ = servers_->existed();
  const int64_t newest = servers_->newest_sequence();
  {
    MutexLock lock(mu_);
    if (newest > 0) next_sequence_ = std::max(next_sequence_, newest + kSequenceGap);
  }
  int64_t most = 0;
  for (const auto& [number, names] : programs) most = std::max(most, servers_->version(number));
  for (const auto& [number, names] : programs) {
    if (servers_->version(number) > 0 && existed_) continue;
    // After its first update a shard has its initial values; the coordinator may have been lost
    // between two of them.
    if (most > static_cast<int64_t>(names.size())) {
      return errors::FailedPrecondition(
          "the servers have the variables of an earlier life of this coordinator, but server ",
          number, " has lost its own: end the job, or start all servers again");
    }
    for (const std::string& name : names) {
      PushId id;
      id.set_client(client_);
      {
        MutexLock lock(mu_);
        id.set_sequence(next_sequence_++);
        id.set_finished_below(id.sequence());
      }
      TANDEM_RETURN_IF_ERROR(servers_->Call(number, id, name, /*updates=*/true, {}).status());
    }
  }
  if (existed_) {
    TANDEM_LOG(Info) << "the servers have the variables of job '" << options_.servers.job
                     << "' from an earlier life of its coordinator, and go on with them";
  }
  MutexLock lock(mu_);
  for (int shard = 0; shard < builder_.num_shards(); ++shard) {
    next_version_[static_cast<size_t>(shard)] = servers_->version(shard);
  }
  acknowledged_ = next_version_;
  return absl::OkStatus();
}

absl::StatusOr<int> ParameterRunner::AddProgram(const RunSignature& signature) {
  const int number = static_cast<int>(programs_.size());
  CutOptions cut_options;
  cut_options.name = absl::StrCat("program_", number);
  TANDEM_ASSIGN_OR_RETURN(CutStep cut, CutGraph(*builder_.graph(), signature, cut_options));
  auto program = std::make_unique<Program>();
  for (const std::string& name : signature.feeds) {
    TANDEM_ASSIGN_OR_RETURN(const Output feed, builder_.graph()->GetOutput(name));
    program->feeds.push_back({feed.dtype(), feed.shape()});
  }
  for (const std::string& name : signature.fetches) {
    TANDEM_ASSIGN_OR_RETURN(const Output fetch, builder_.graph()->GetOutput(name));
    absl::optional<Join> join;
    if (const absl::StatusOr<Join> known = builder_.JoinOf(name); known.ok()) {
      join = *known;
      if (is_synchronous()) {
        const absl::Status status = CheckJoin(*join, fetch.dtype());
        if (!status.ok()) return WithContext(status, absl::StrCat("fetch '", name, "'"));
      }
    }
    program->joins.push_back(join);
  }
  program->has_route = !cut.signature.feeds.empty() && cut.signature.feeds.back() == kRouteFeed;
  std::vector<ShardAddition> additions;
  for (ShardPart& part : cut.shards) {
    program->shards.insert(part.shard);
    for (const auto& called : part.programs) {
      if (!called.updates()) continue;
      program->updates = true;
      program->pushes.insert(part.shard);
    }
    additions.push_back({part.shard, std::move(part.graph), std::move(part.programs), {}});
  }
  TANDEM_RETURN_IF_ERROR(servers_->Add(std::move(additions)));
  program->worker_program = fleet_->AddProgram({std::move(cut.worker), std::move(cut.signature)});
  programs_.push_back(std::move(program));
  return number;
}

absl::Status ParameterRunner::CheckBatch(const Program& program, const StepInput& input) const {
  const size_t given = input.batch.size() + input.values.size();
  if (given != program.feeds.size()) {
    return errors::InvalidArgument("the step has ", program.feeds.size(), " feeds; ",
                                   input.batch.size(), " tensors of a batch and ",
                                   input.values.size(), " values were given");
  }
  for (size_t i = 0; i < given; ++i) {
    const bool is_batch = i < input.batch.size();
    const Tensor& value = is_batch ? input.batch[i] : input.values[i - input.batch.size()];
    PartialShape wanted = program.feeds[i].shape;
    if (is_batch && wanted.has_rank() && wanted.rank() > 0) wanted.SetDim(0, -1);
    if (value.dtype() == program.feeds[i].dtype &&
        wanted.IsCompatibleWith(PartialShape(value.shape()))) {
      continue;
    }
    return errors::InvalidArgument(
        is_batch ? "tensor " : "value ", is_batch ? i : i - input.batch.size(),
        is_batch ? " of the batch is " : " is ", DataTypeName(value.dtype()),
        value.shape().DebugString(), "; the step was made for ",
        DataTypeName(program.feeds[i].dtype), wanted.DebugString(),
        is_batch ? ", with any number of examples" : "");
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterRunner::StepPtr> ParameterRunner::MakeStep(const Program& program,
                                                                   StepInput input, Done done) {
  TANDEM_RETURN_IF_ERROR(CheckBatch(program, input));
  int64_t examples = 1;
  if (!input.batch.empty()) {
    if (input.batch[0].shape().rank() < 1) {
      return errors::InvalidArgument("a batch has a scalar; the first size must be the batch");
    }
    examples = input.batch[0].shape().dim(0);
  }
  int parts = 1;
  if (is_synchronous() && !input.batch.empty()) {
    // No part is empty: means over no examples are no numbers.
    parts =
        static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(fleet_->num_workers(), examples)));
  }
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> cut,
                          CutBatch(input.batch, {parts, 0, parts}, /*aligned=*/false));
  auto step = std::make_shared<Step>();
  step->program = &program;
  step->all_examples = examples;
  step->enough = parts;
  if (program.updates && is_synchronous()) {
    step->enough = std::max(1, parts - options_.backup_workers);
  }
  step->parts.resize(static_cast<size_t>(parts));
  for (size_t p = 0; p < step->parts.size(); ++p) {
    Part& part = step->parts[p];
    part.examples = examples;
    for (size_t i = 0; i < input.batch.size(); ++i) {
      part.feeds.push_back(std::move(cut[i * step->parts.size() + p]));
    }
    if (!part.feeds.empty()) part.examples = part.feeds[0].shape().dim(0);
    for (const Tensor& value : input.values) part.feeds.push_back(value);
  }
  step->done = std::move(done);
  MutexLock lock(mu_);
  step->order = next_order_++;
  if (program.updates) step->update = next_update_++;
  for (Part& part : step->parts) {
    part.sequence = next_sequence_++;
    open_sequences_.insert(part.sequence);
  }
  if (is_synchronous()) {
    for (const int shard : program.shards) {
      int64_t& next = next_version_[static_cast<size_t>(shard)];
      step->versions[shard] = next;
      if (program.pushes.count(shard) > 0) ++next;
    }
  }
  steps_[step->order] = step;
  return step;
}

void ParameterRunner::Start(int program, StepInput input, Done done) {
  absl::Status status;
  if (program < 0 || program >= static_cast<int>(programs_.size())) {
    status = errors::InvalidArgument("there is no program ", program, "; ", programs_.size(),
                                     " were added");
  }
  if (status.ok()) status = servers_->status();
  if (status.ok()) status = Resynchronize();
  if (!status.ok()) {
    done(status);
    return;
  }
  // MakeStep takes it only if it succeeds.
  auto shared = std::make_shared<Done>(std::move(done));
  const absl::StatusOr<StepPtr> step =
      MakeStep(*programs_[static_cast<size_t>(program)], std::move(input),
               [shared](Result result) { (*shared)(std::move(result)); });
  if (!step.ok()) {
    (*shared)(step.status());
    return;
  }
  Pump();
  // The servers may have been given up in this very moment.
  if (!servers_->status().ok()) ServersChanged();
}

absl::Status ParameterRunner::Resynchronize() {
  {
    MutexLock lock(mu_);
    if (!needs_versions_) return absl::OkStatus();
    const absl::Time deadline = absl::Now() + kCancelTimeout;
    while (!open_sequences_.empty()) {
      if (changed_.WaitUntil(mu_, deadline) || absl::Now() < deadline) continue;
      return errors::DeadlineExceeded("steps that were cancelled have not ended after ",
                                      absl::FormatDuration(kCancelTimeout));
    }
  }
  TANDEM_ASSIGN_OR_RETURN(std::vector<int64_t> versions, servers_->AskVersions());
  MutexLock lock(mu_);
  needs_versions_ = false;
  next_version_ = versions;
  acknowledged_ = std::move(versions);
  return absl::OkStatus();
}

bool ParameterRunner::MayBegin(const Step& step) const {
  if (step.update < 0) {
    for (const auto& [order, other] : steps_) {
      if (order >= step.order) break;
      if (other->update >= 0) return false;
    }
    return true;
  }
  if (options_.mode != ParameterRunnerOptions::Mode::kBoundedStaleness) return true;
  for (const auto& [order, other] : steps_) {
    if (other->update >= 0) return step.update - other->update <= options_.staleness;
  }
  return true;
}

void ParameterRunner::Pump() {
  std::vector<StepPtr> begin;
  {
    MutexLock lock(mu_);
    for (const auto& [order, step] : steps_) {
      if (step->has_begun || !MayBegin(*step)) continue;
      step->has_begun = true;
      begin.push_back(step);
    }
  }
  for (const StepPtr& step : begin) {
    for (size_t p = 0; p < step->parts.size(); ++p) Submit(step, p);
  }
}

void ParameterRunner::Submit(const StepPtr& step, size_t part) {
  FleetStep submitted;
  {
    MutexLock lock(mu_);
    if (step->is_over) {
      open_sequences_.erase(step->parts[part].sequence);
      changed_.NotifyAll();
      return;
    }
    submitted.id = step->parts[part].sequence;
    submitted.feeds = std::move(step->parts[part].feeds);
  }
  submitted.program = step->program->worker_program;
  submitted.order = step->order;
  // A step that was sent later may wait for this one at the shards.
  submitted.belongs_together = is_synchronous() && step->program->updates;
  if (step->program->has_route) {
    submitted.route = [this, step, part] { return RouteOf(*step, step->parts[part]); };
  }
  submitted.done = [this, step, part](Result result) { PartEnded(step, part, std::move(result)); };
  fleet_->Submit(std::move(submitted));
  // It may have been closed before the fleet knew it.
  bool is_over = false;
  {
    MutexLock lock(mu_);
    is_over = step->is_over;
  }
  if (is_over) fleet_->Cancel(step->parts[part].sequence, errors::Cancelled("the step has ended"));
}

absl::optional<Tensor> ParameterRunner::RouteOf(const Step& step, const Part& part) {
  Route route;
  if (!servers_->AddTo(&route)) return absl::nullopt;
  route.set_timeout_ms(absl::ToInt64Milliseconds(
      options_.step_timeout +
      // A part waits for the others, whose workers may be lost.
      (is_synchronous() ? options_.fleet.start_timeout : absl::ZeroDuration())));
  PushId& id = *route.mutable_id();
  id.set_client(client_);
  id.set_sequence(part.sequence);
  MutexLock lock(mu_);
  id.set_finished_below(open_sequences_.empty() ? next_sequence_ : *open_sequences_.begin());
  if (is_synchronous()) {
    for (Route::Shard& shard : *route.mutable_shards()) {
      const auto version = step.versions.find(shard.number());
      if (version != step.versions.end()) shard.set_version(version->second);
    }
    if (step.program->updates) {
      Round& round = *route.mutable_round();
      round.set_part(static_cast<int>(&part - step.parts.data()));
      round.set_parts(static_cast<int>(step.parts.size()));
      round.set_enough(step.enough);
      round.set_weight(static_cast<double>(part.examples));
      round.set_all_weight(static_cast<double>(step.all_examples));
    }
  }
  return Tensor::Scalar<std::string>(route.SerializeAsString());
}

std::vector<int64_t> ParameterRunner::Close(Step& step, bool has_failed) {
  step.is_over = true;
  steps_.erase(step.order);
  ++calls_;
  std::vector<int64_t> left;
  for (const Part& part : step.parts) {
    if (part.has_ended) continue;
    if (step.has_begun) {
      left.push_back(part.sequence);
    } else {
      open_sequences_.erase(part.sequence);
    }
  }
  if (has_failed && is_synchronous() && step.update >= 0) needs_versions_ = true;
  if (!has_failed) {
    for (const int shard : step.program->pushes) {
      int64_t& known = acknowledged_[static_cast<size_t>(shard)];
      if (is_synchronous()) {
        known = std::max(known, step.versions[shard] + 1);
      } else if (step.restored.count(shard) == 0) {
        ++known;
      }
    }
  }
  changed_.NotifyAll();
  return left;
}

void ParameterRunner::CallDone(const StepPtr& step, Result result) {
  Done done = std::move(step->done);
  done(std::move(result));
  done = nullptr;
  MutexLock lock(mu_);
  --calls_;
  changed_.NotifyAll();
}

void ParameterRunner::EndSteps(const std::vector<StepPtr>& steps, const absl::Status& status) {
  for (const StepPtr& step : steps) {
    std::vector<int64_t> left;
    {
      MutexLock lock(mu_);
      if (step->is_over) continue;
      left = Close(*step, /*has_failed=*/true);
    }
    for (const int64_t sequence : left) fleet_->Cancel(sequence, status);
    CallDone(step, status);
  }
}

StrategyRunner::Result ParameterRunner::JoinParts(const Step& step) {
  std::vector<Tensor> results;
  int64_t examples = 0;
  for (const Part& part : step.parts) examples += part.has_results ? part.examples : 0;
  const double scale = examples == 0 || examples == step.all_examples
                           ? 1
                           : static_cast<double>(step.all_examples) / static_cast<double>(examples);
  for (size_t i = 0; i < step.program->joins.size(); ++i) {
    std::vector<Tensor> parts;
    for (const Part& part : step.parts) {
      if (part.has_results) parts.push_back(part.results[i]);
    }
    const absl::optional<Join>& join = step.program->joins[i];
    if (!join.has_value()) parts.resize(1);
    TANDEM_ASSIGN_OR_RETURN(
        Tensor result, JoinResults(join.value_or(Join::kSum), parts, join.has_value() ? scale : 1));
    results.push_back(std::move(result));
  }
  return results;
}

void ParameterRunner::PartEnded(const StepPtr& step, size_t number, Result result) {
  bool ends = false;
  std::vector<int64_t> left;
  std::vector<StepPtr> later;
  std::vector<std::pair<int, int64_t>> versions;
  {
    MutexLock lock(mu_);
    Part& part = step->parts[number];
    part.has_ended = true;
    open_sequences_.erase(part.sequence);
    if (!step->is_over && result.ok()) {
      if (result->size() == step->program->joins.size()) {
        part.results = *std::move(result);
        part.has_results = true;
        ends = ++step->ended >= step->enough;
        result = std::vector<Tensor>();
      } else {
        result = errors::Internal("a worker gave ", result->size(), " results; ",
                                  step->program->joins.size(), " were asked for");
      }
    }
    if (!step->is_over && (ends || !result.ok())) {
      ends = true;
      left = Close(*step, !result.ok());
      if (!result.ok()) {
        has_failed_ = true;
        // Its rounds will never be complete, and those after it wait for them.
        if (is_synchronous() && step->update >= 0) {
          for (const auto& [order, other] : steps_) {
            if (other->update >= 0) later.push_back(other);
          }
        }
      }
      for (const int shard : step->program->pushes) {
        versions.emplace_back(shard, acknowledged_[static_cast<size_t>(shard)]);
      }
    }
    changed_.NotifyAll();
  }
  for (const auto& [shard, version] : versions) servers_->NoteVersion(shard, version);
  for (const int64_t sequence : left) {
    fleet_->Cancel(sequence, errors::Cancelled("the step has ended without this part"));
  }
  if (!later.empty()) {
    EndSteps(later, errors::Cancelled("an earlier step failed: ", result.status().message()));
  }
  if (ends) CallDone(step, result.ok() ? JoinParts(*step) : std::move(result));
  Pump();
}

void ParameterRunner::CancelSteps(const absl::Status& reason) {
  std::vector<StepPtr> steps;
  {
    MutexLock lock(mu_);
    for (const auto& [order, step] : steps_) steps.push_back(step);
  }
  EndSteps(steps, reason);
}

void ParameterRunner::Restored(int shard, int64_t version) {
  MutexLock lock(mu_);
  acknowledged_[static_cast<size_t>(shard)] = version;
  for (const auto& [order, step] : steps_) step->restored.insert(shard);
  if (!is_synchronous()) return;
  // Rounds that it has are over. Those that it has not, or has lost, are numbered from there, so
  // that none is waited for that will not come.
  int64_t next = version;
  for (const auto& [order, step] : steps_) {
    const auto found = step->versions.find(shard);
    if (found == step->versions.end() || found->second < version) continue;
    found->second = next;
    if (step->program->pushes.count(shard) > 0) ++next;
  }
  next_version_[static_cast<size_t>(shard)] = next;
}

void ParameterRunner::ServersChanged() {
  const absl::Status status = servers_->status();
  if (status.ok()) {
    fleet_->Wake();
    return;
  }
  std::vector<StepPtr> steps;
  {
    MutexLock lock(mu_);
    has_failed_ = true;
    for (const auto& [order, step] : steps_) steps.push_back(step);
  }
  EndSteps(steps, status);
}

std::vector<MemberEvent> ParameterRunner::TakeMemberEvents() {
  std::vector<MemberEvent> events = servers_->TakeEvents();
  for (MemberEvent& event : fleet_->TakeEvents()) events.push_back(std::move(event));
  return events;
}

}  // namespace tandem::parameter_server
