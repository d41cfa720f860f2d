#include "runtime/checkpoint/manager.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/checkpoint_state.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/start_thread.h"

namespace tandem {
namespace {

// The note that holds a checkpoint's metric, for the next run.
constexpr char kMetricNote[] = "_tandem/metric";

absl::Time FromSeconds(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
double ToSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

absl::Status CheckOptions(const CheckpointManagerOptions& options) {
  const auto refuse = [](const auto&... what) {
    return errors::InvalidArgument("CheckpointManager: ", what...);
  };
  if (options.name.empty() || absl::StrContains(options.name, '/')) {
    return refuse("the name '", options.name, "' must be one of a file, without a folder");
  }
  if (options.num_shards < 1 || options.num_shards > kMaxCheckpointShards) {
    return refuse(options.num_shards, " shards; expected 1 to ", kMaxCheckpointShards);
  }
  if (options.save_every_steps < 0 || options.save_every <= absl::ZeroDuration()) {
    return refuse("saves every ", options.save_every_steps, " steps and every ",
                  absl::FormatDuration(options.save_every),
                  "; expected no negative number and a time above 0");
  }
  const Retention& retention = options.retention;
  if (retention.max_to_keep < 0 || retention.keep_best < 0 ||
      retention.preserve_every <= absl::ZeroDuration()) {
    return refuse("keeps ", retention.max_to_keep, " checkpoints, the best ", retention.keep_best,
                  ", and one every ", absl::FormatDuration(retention.preserve_every),
                  "; expected no negative number and a time above 0");
  }
  if (options.patience <= absl::ZeroDuration()) return refuse("patience must be above 0");
  return absl::OkStatus();
}

absl::optional<double> ReadMetric(FileSystem* files, const std::string& prefix) {
  const auto reader = BundleReader::Open(files, prefix);
  if (!reader.ok()) return absl::nullopt;
  const BundleEntry* const entry = (*reader)->Find(kMetricNote);
  if (entry == nullptr || entry->dtype != kFloat64 || !entry->shape.IsScalar()) {
    return absl::nullopt;
  }
  const absl::StatusOr<Tensor> metric = (*reader)->Read(kMetricNote);
  if (!metric.ok()) return absl::nullopt;
  return metric->ScalarValue<double>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Create(
    const std::string& folder, const Options& options) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<CheckpointManager> manager(new CheckpointManager(folder, options));
  TANDEM_RETURN_IF_ERROR(options.files->MakeDirectories(folder));
  TANDEM_RETURN_IF_ERROR(manager->ReadFolder());
  RemoveLeftovers(options.files, folder, options.name);
  return manager;
}

absl::Status CheckpointManager::ReadFolder() {
  const absl::Time now = options_.clock->Now();
  last_save_ = now;
  MutexLock lock(mu_);
  last_preserved_ = now;
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(options_.files, folder_);
  if (absl::IsNotFound(state.status())) return absl::OkStatus();
  if (absl::IsDataLoss(state.status())) {
    TANDEM_LOG(Warning) << "begins a new list of checkpoints, since " << state.status().message();
    return absl::OkStatus();
  }
  if (!state.ok()) return state.status();
  if (state->last_preserved_timestamp > 0) {
    last_preserved_ = std::min(now, FromSeconds(state->last_preserved_timestamp));
  }
  for (const CheckpointState::Checkpoint& checkpoint : state->all) {
    // Only what this manager would have written is ever removed by it.
    const absl::optional<int64_t> step = CheckpointStep(checkpoint.prefix);
    if (!step.has_value() || FileNameOf(checkpoint.prefix) != FileNameOf(PrefixOf(*step))) continue;
    const std::string prefix = PrefixOf(*step);
    if (!options_.files->Stat(BundleIndexPath(prefix)).ok()) continue;
    kept_.push_back(
        {prefix, FromSeconds(checkpoint.timestamp), ReadMetric(options_.files, prefix)});
  }
  return absl::OkStatus();
}

CheckpointManager::~CheckpointManager() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) {
    ScopedRunTokenRelease released;
    thread_.join();
  }
  MutexLock lock(mu_);
  if (error_.ok()) return;
  TANDEM_LOG(Error) << "a checkpoint was not saved: " << error_.message();
}

std::string CheckpointManager::PrefixOf(int64_t step) const {
  return JoinPath(folder_, absl::StrCat(options_.name, "-", step));
}

bool CheckpointManager::IsDue(int64_t step) {
  const int64_t before = last_step_ < 0 || last_step_ > step ? step - 1 : last_step_;
  last_step_ = step;
  const int64_t every = options_.save_every_steps;
  const bool is_due = (every > 0 && step > 0 && step / every > before / every) ||
                      options_.clock->Now() - last_save_ >= options_.save_every;
  if (!is_due || options_.when_busy == Options::WhenBusy::kWait) return is_due;
  MutexLock lock(mu_);
  return !running_;
}

absl::StatusOr<CheckpointManager::Saved> CheckpointManager::Save(int64_t step, NamedTensors tensors,
                                                                 absl::optional<double> metric) {
  if (step < 0) return errors::InvalidArgument("a checkpoint of step ", step);
  for (const auto& [name, tensor] : tensors) {
    if (name != kMetricNote) continue;
    return errors::InvalidArgument("a tensor cannot be saved as '", name,
                                   "', which is where the manager keeps the metric");
  }
  if (options_.when_busy == Options::WhenBusy::kSkip) {
    MutexLock lock(mu_);
    if (running_) return Saved::kSkipped;
  }
  TANDEM_RETURN_IF_ERROR(WaitUntilIdle());
  last_save_ = options_.clock->Now();
  Job job{step, std::move(tensors), metric};
  if (options_.asynchronous && !thread_.joinable()) {
    thread_ = StartThread("checkpoints", [this] { Serve(); });
  }
  if (!options_.asynchronous || !thread_.joinable()) {
    ScopedRunTokenRelease released;
    TANDEM_RETURN_IF_ERROR(Write(std::move(job)));
    return Saved::kDone;
  }
  MutexLock lock(mu_);
  job_ = std::make_unique<Job>(std::move(job));
  running_ = true;
  changed_.NotifyAll();
  return Saved::kStarted;
}

absl::Status CheckpointManager::Wait() { return WaitUntilIdle(); }

absl::Status CheckpointManager::WaitUntilIdle() {
  ScopedRunTokenRelease released;
  const absl::Time deadline = absl::Now() + options_.patience;
  MutexLock lock(mu_);
  while (running_) {
    if (changed_.WaitUntil(mu_, deadline) || !running_) continue;
    return errors::DeadlineExceeded("the checkpoint that is being written into '", folder_,
                                    "' is not done after ", absl::FormatDuration(options_.patience),
                                    "; is the disk too slow, or does it hang?");
  }
  return std::exchange(error_, absl::OkStatus());
}

void CheckpointManager::Serve() {
  while (true) {
    std::unique_ptr<Job> job;
    {
      MutexLock lock(mu_);
      while (job_ == nullptr && !ending_) changed_.Wait(mu_);
      if (job_ == nullptr) return;
      job = std::move(job_);
    }
    absl::Status status = Write(std::move(*job));
    job.reset();
    MutexLock lock(mu_);
    error_ = std::move(status);
    running_ = false;
    changed_.NotifyAll();
  }
}

absl::Status CheckpointManager::Write(Job job) {
  if (job.metric.has_value()) job.tensors.emplace_back(kMetricNote, Tensor::Scalar(*job.metric));
  const std::string prefix = PrefixOf(job.step);
  const absl::Status written =
      WriteCheckpoint(options_.files, prefix, std::move(job.tensors), options_.num_shards);
  if (!written.ok()) {
    // It may have got its names all the same, and then nobody would ever remove it.
    const std::vector<std::string> kept = checkpoints();
    if (!absl::c_linear_search(kept, prefix)) {
      RemoveCheckpoint(options_.files, prefix).IgnoreError();
    }
    return written;
  }

  std::vector<KeptCheckpoint> all;
  absl::Time last_preserved;
  {
    MutexLock lock(mu_);
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(),
                               [&](const KeptCheckpoint& kept) { return kept.prefix == prefix; }),
                kept_.end());
    kept_.push_back({prefix, options_.clock->Now(), job.metric});
    all = kept_;
    last_preserved = last_preserved_;
  }
  // When this fails the checkpoint is there all the same, and the next save names it.
  TANDEM_RETURN_IF_ERROR(WriteState(all, last_preserved));
  RemoveDropped(std::move(all), last_preserved);
  return absl::OkStatus();
}

// Those that go stay in the list until they are gone, so that a run that is killed meanwhile leaves
// none behind that nobody knows.
void CheckpointManager::RemoveDropped(std::vector<KeptCheckpoint> all, absl::Time last_preserved) {
  const RetentionResult result = ApplyRetention(options_.retention, all, last_preserved);
  if (result.kept.size() == all.size()) return;
  std::vector<KeptCheckpoint> left;
  for (KeptCheckpoint& checkpoint : all) {
    if (absl::c_linear_search(result.dropped, checkpoint.prefix)) {
      const absl::Status removed = RemoveCheckpoint(options_.files, checkpoint.prefix);
      if (removed.ok()) continue;
      TANDEM_LOG(Warning) << "an old checkpoint stays for now: " << removed.message();
    } else if (absl::c_none_of(result.kept, [&](const KeptCheckpoint& kept) {
                 return kept.prefix == checkpoint.prefix;
               })) {
      continue;  // Kept for good.
    }
    left.push_back(std::move(checkpoint));
  }
  const absl::Status written = WriteState(left, result.last_preserved);
  if (!written.ok()) {
    TANDEM_LOG(Warning) << "names of checkpoints that are gone stay in the list for now: "
                        << written.message();
  }
  MutexLock lock(mu_);
  kept_ = std::move(left);
  last_preserved_ = result.last_preserved;
}

absl::Status CheckpointManager::WriteState(const std::vector<KeptCheckpoint>& kept,
                                           absl::Time last_preserved) {
  CheckpointState state;
  for (const KeptCheckpoint& checkpoint : kept) {
    state.all.push_back({checkpoint.prefix, ToSeconds(checkpoint.time)});
  }
  state.latest = kept.back().prefix;
  state.last_preserved_timestamp = ToSeconds(last_preserved);
  return WriteCheckpointState(options_.files, folder_, state);
}

std::vector<std::string> CheckpointManager::checkpoints() const {
  MutexLock lock(mu_);
  std::vector<std::string> prefixes;
  for (const KeptCheckpoint& kept : kept_) prefixes.push_back(kept.prefix);
  return prefixes;
}

std::string CheckpointManager::latest() const {
  MutexLock lock(mu_);
  return kept_.empty() ? std::string() : kept_.back().prefix;
}

std::string CheckpointManager::best() const {
  MutexLock lock(mu_);
  const int best = BestCheckpoint(options_.retention, kept_);
  return best < 0 ? std::string() : kept_[static_cast<size_t>(best)].prefix;
}

}  // namespace tandem
