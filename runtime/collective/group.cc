#include "runtime/collective/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/collective/flight_signal.h"
#include "runtime/collective/label.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {
namespace {

// Schedules of operations that come again in every step; more forms than these are built anew.
constexpr size_t kMaxSchedules = 512;
constexpr size_t kMaxAborted = 1024;

transport::MeshOptions MeshOptionsOf(const GroupOptions& options, const std::vector<int>& hosts) {
  transport::MeshOptions mesh;
  for (const Member& member : options.members) mesh.members.push_back({member.name, member.host});
  mesh.rank = options.rank;
  mesh.generation = options.generation;
  mesh.heartbeat = options.heartbeat;
  mesh.lost_after = options.lost_after;
  mesh.members_on_host = static_cast<int>(
      std::count(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(options.rank)]));
  return mesh;
}

// Large messages are cut so that there are a few pieces for each member to work on, but none so
// small that its header counts.
int64_t PieceBytes(int64_t bytes, int size) {
  return std::clamp<int64_t>(bytes / (4 * size), 64 << 10, 1 << 20);
}

int64_t Sum(const std::vector<int64_t>& numbers) {
  int64_t sum = 0;
  for (const int64_t number : numbers) sum += number;
  return sum;
}

std::string ScheduleKey(const Problem& p, const Algorithm& algorithm,
                        const std::vector<int>& members) {
  std::string key;
  const auto add = [&key](const void* data, size_t bytes) {
    key.append(static_cast<const char*>(data), bytes);
  };
  const void* const identity = &algorithm;
  const int64_t fields[] = {static_cast<int64_t>(p.kind),
                            static_cast<int64_t>(p.reduction),
                            p.rank,
                            p.size,
                            p.in_place ? 1 : 0,
                            p.root,
                            p.count,
                            p.piece,
                            static_cast<int64_t>(p.counts.size()),
                            static_cast<int64_t>(p.replicas.size())};
  add(&identity, sizeof(identity));
  add(fields, sizeof(fields));
  add(p.counts.data(), p.counts.size() * sizeof(int64_t));
  add(p.replicas.data(), p.replicas.size() * sizeof(int));
  add(members.data(), members.size() * sizeof(int));
  return key;
}

}  // namespace

absl::StatusOr<TransportKind> ParseTransportKind(absl::string_view name) {
  if (name == "auto") return TransportKind::kAuto;
  if (name == "inprocess") return TransportKind::kInProcess;
  if (name == "shm") return TransportKind::kSharedMemory;
  if (name == "tcp") return TransportKind::kTcp;
  return errors::InvalidArgument("there is no transport '", name,
                                 "'; there are auto, inprocess, shm and tcp");
}

Group::Group(GroupOptions options, std::vector<int> hosts,
             std::vector<std::unique_ptr<transport::Transport>> transports,
             std::vector<int> of_peer)
    : options_(std::move(options)),
      hosts_(std::move(hosts)),
      choices_(ChoiceTable::Default(static_cast<int>(options_.members.size()), hosts_)) {
  for (int i = 0; i < size(); ++i) {
    transport_names_.push_back(
        i == options_.rank
            ? ""
            : transports[static_cast<size_t>(of_peer[static_cast<size_t>(i)])]->name());
  }
  if (size() > 1) {
    mesh_ = std::make_unique<transport::Mesh>(MeshOptionsOf(options_, hosts_),
                                              std::move(transports), std::move(of_peer), this);
  }
  AddToFlightSignal(this);
}

Group::~Group() {
  RemoveFromFlightSignal(this);
  std::vector<std::shared_ptr<Operation>> running;
  {
    MutexLock lock(mu_);
    for (const auto& [key, operation] : running_) running.push_back(operation);
  }
  for (const auto& operation : running) {
    operation->Fail(
        errors::Cancelled(DescribeOperation(*operation), ": ",
                          options_.members[static_cast<size_t>(rank())].name, " left the group"),
        true);
  }
  // Its thread may be in a call of this class, which looks at the pointer.
  if (mesh_ != nullptr) mesh_->StopThread();
  mesh_.reset();
}

std::string Group::TransportTo(int rank) const {
  return transport_names_[static_cast<size_t>(rank)];
}

absl::Status Group::status() const {
  MutexLock lock(mu_);
  return broken_;
}

ChoiceTable Group::choices() const {
  MutexLock lock(mu_);
  return choices_;
}

void Group::SetChoices(ChoiceTable choices) {
  MutexLock lock(mu_);
  choices_ = std::move(choices);
}

// Beginning.

absl::Status Group::Check(const Request& request) const {
  const auto describe = [&] {
    return absl::StrCat(KindName(request.kind), " '", request.name, "'");
  };
  const int size =
      request.members.empty() ? this->size() : static_cast<int>(request.members.size());
  for (size_t i = 0; i < request.members.size(); ++i) {
    const int member = request.members[i];
    if (member < 0 || member >= this->size() || (i > 0 && member <= request.members[i - 1])) {
      return errors::InvalidArgument(describe(), ": members are ranks from 0 to ", this->size() - 1,
                                     ", ascending; found ", absl::StrJoin(request.members, ","));
    }
  }
  if (!request.members.empty() &&
      !std::binary_search(request.members.begin(), request.members.end(), rank())) {
    return errors::InvalidArgument(describe(), ": this member, ", rank(), ", is not among ",
                                   absl::StrJoin(request.members, ","));
  }
  if (request.kind == Kind::kBarrier) return absl::OkStatus();
  const bool reduces = request.kind == Kind::kAllReduce || request.kind == Kind::kReduce ||
                       request.kind == Kind::kReduceScatter;
  if (reduces ? !IsReducible(request.dtype)
              : !IsSupported(request.dtype) || !IsTriviallyCopyable(request.dtype)) {
    return errors::Unimplemented(describe(), " of ", DataTypeName(request.dtype),
                                 "; reductions are there for float32, float64, float16, bfloat16, "
                                 "int32 and int64, all else for types of plain values");
  }
  const bool adds = request.reduction == Reduction::kSum || request.reduction == Reduction::kMean ||
                    request.reduction == Reduction::kProduct;
  if (options_.is_deterministic && reduces && adds && IsFloating(request.dtype) &&
      request.replicas.empty()) {
    return errors::InvalidArgument(describe(),
                                   ": in deterministic mode values are added by virtual replica "
                                   "(Request::replicas); any other "
                                   "order would depend on the number of members");
  }
  // Far from overflow whatever is multiplied with it.
  constexpr int64_t kMost = int64_t{1} << 48;
  const int64_t most = kMost / (int64_t{size} * size);
  if (request.count < 0 || request.count > most) {
    return errors::InvalidArgument(describe(), ": ", request.count, " values");
  }
  for (const int64_t count : request.counts) {
    if (count < 0 || count > most) {
      return errors::InvalidArgument(describe(), ": ", count, " values for a member");
    }
  }
  const size_t wanted = request.kind == Kind::kAllToAll ? static_cast<size_t>(size * size)
                                                        : static_cast<size_t>(size);
  if (!request.counts.empty() && request.counts.size() != wanted) {
    return errors::InvalidArgument(describe(), ": ", request.counts.size(), " counts for ", size,
                                   " members; it takes ", wanted);
  }
  if (request.root < 0 || request.root >= size) {
    return errors::InvalidArgument(describe(), ": root ", request.root, " of ", size, " members");
  }
  if (!request.replicas.empty()) {
    if (request.kind != Kind::kAllReduce || request.input == request.output) {
      return errors::InvalidArgument(
          describe(), ": virtual replicas are for an all-reduce whose output is other memory");
    }
    const bool is_partition = request.replicas.size() == static_cast<size_t>(size) + 1 &&
                              request.replicas[0] == 0 && request.replicas.back() > 0 &&
                              request.replicas.back() < 1 << 16 &&
                              std::is_sorted(request.replicas.begin(), request.replicas.end());
    if (!is_partition) {
      return errors::InvalidArgument(describe(), ": virtual replicas are divided among ", size,
                                     " members by ", size + 1, " limits from 0 on; found ",
                                     absl::StrJoin(request.replicas, ","));
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<const Schedule> Group::ScheduleFor(const Problem& problem,
                                                   const Algorithm& algorithm) {
  ScheduleBuilder builder(problem.in_place);
  algorithm.build(problem, builder);
  return std::make_shared<const Schedule>(std::move(builder).Build());
}

absl::StatusOr<Handle> Group::Prepare(Request& request, Operation::Done& done, bool has_hold) {
  TANDEM_RETURN_IF_ERROR(Check(request));
  Operation::Spec spec;
  spec.members = std::move(request.members);
  if (spec.members.empty()) {
    for (int i = 0; i < size(); ++i) spec.members.push_back(i);
  }
  Problem problem;
  problem.kind = request.kind;
  problem.reduction = request.reduction;
  problem.size = static_cast<int>(spec.members.size());
  problem.rank = static_cast<int>(
      std::lower_bound(spec.members.begin(), spec.members.end(), rank()) - spec.members.begin());
  problem.root = request.root;
  problem.count = request.count;
  problem.counts = std::move(request.counts);
  problem.replicas = std::move(request.replicas);
  for (const int member : spec.members) {
    problem.hosts.push_back(hosts_[static_cast<size_t>(member)]);
  }
  const bool has_counts = request.kind == Kind::kAllGather ||
                          request.kind == Kind::kReduceScatter || request.kind == Kind::kAllToAll;
  if (has_counts && problem.counts.empty()) {
    const size_t n = static_cast<size_t>(problem.size);
    problem.counts.assign(request.kind == Kind::kAllToAll ? n * n : n, request.count);
  }
  problem.in_place = !has_counts && request.input == request.output;
  const int64_t total = has_counts ? Sum(problem.counts) : problem.count;
  const int64_t element_bytes = static_cast<int64_t>(
      std::max<size_t>(1, request.kind == Kind::kBarrier ? 1 : DataTypeSize(request.dtype)));
  spec.bytes = total * element_bytes;
  problem.piece = PieceBytes(spec.bytes, problem.size) / element_bytes;
  if (total > 0 && (request.input == nullptr &&
                    (request.kind != Kind::kBroadcast || problem.rank == problem.root))) {
    return errors::InvalidArgument(KindName(request.kind), " '", request.name, "': no input");
  }

  spec.key = {request.instance, request.step, request.phase};
  spec.name = std::move(request.name);
  spec.kind = request.kind;
  spec.reduction = request.reduction;
  spec.dtype = request.kind == Kind::kBarrier ? DataType::kInt8 : request.dtype;
  spec.timeout = request.timeout == absl::ZeroDuration() ? options_.timeout : request.timeout;
  spec.buffers.input = static_cast<const char*>(request.input);
  spec.buffers.output = static_cast<char*>(request.output);

  const Algorithm* algorithm = nullptr;
  std::shared_ptr<const Schedule> schedule;
  {
    MutexLock lock(mu_);
    algorithm = choices_.Choose(problem, spec.bytes);
    if (algorithm == nullptr || !algorithm->solves(problem)) {
      return errors::Unimplemented(KindName(request.kind), " '", spec.name,
                                   "': no algorithm solves it");
    }
    const std::string key = ScheduleKey(problem, *algorithm, spec.members);
    const auto found = schedules_.find(key);
    if (found != schedules_.end()) {
      schedule = found->second;
    } else {
      schedule = ScheduleFor(problem, *algorithm);
      if (schedules_.size() >= kMaxSchedules) schedules_.clear();
      schedules_.emplace(key, schedule);
    }
  }
  spec.algorithm = algorithm->name;
  LabelFields label;
  label.kind = request.kind;
  label.reduction = request.reduction;
  label.dtype = spec.dtype;
  label.algorithm = AlgorithmNumber(algorithm->name);
  label.root = request.root;
  label.layout = HashNumbers(
      HashNumbers(HashNumbers(0, {spec.members.begin(), spec.members.end()}), problem.counts),
      {problem.replicas.begin(), problem.replicas.end()});
  label.count = total;
  label.dims = request.dims.empty() ? std::vector<int64_t>{total} : std::move(request.dims);
  spec.label = MakeLabel(label);

  RefPtr<Buffer> scratch;
  if (schedule->scratch > 0) {
    scratch = HostAllocator()->Allocate(static_cast<size_t>(schedule->scratch * element_bytes));
    if (scratch == nullptr) {
      return errors::ResourceExhausted(KindName(request.kind), " '", spec.name, "': no memory for ",
                                       schedule->scratch * element_bytes, " bytes");
    }
  }
  const transport::OperationKey key = spec.key;
  FlightEntry entry;
  entry.key = key;
  entry.name = spec.name;
  entry.kind = spec.kind;
  entry.label = spec.label;
  entry.bytes = spec.bytes;
  entry.algorithm = spec.algorithm;
  auto operation =
      std::make_shared<Operation>(Operation::Private(), this, std::move(spec), std::move(schedule),
                                  std::move(scratch), std::move(done));
  // All of it before others can see, and end, the operation.
  operation->flight_ = flight_.Begin(std::move(entry));
  operation->has_hold_ = has_hold && mesh_ != nullptr;
  if (operation->has_hold_) mesh_->AddHold();
  absl::Status status;
  {
    MutexLock lock(mu_);
    const auto aborted = aborted_.find(key);
    if (!broken_.ok()) {
      status = absl::Status(broken_.code(),
                            absl::StrCat(DescribeOperation(*operation), ": ", broken_.message()));
    } else if (aborted != aborted_.end()) {
      status = aborted->second;
    } else if (!running_.emplace(key, operation).second) {
      status = errors::InvalidArgument(DescribeOperation(*operation),
                                       " runs already: two operations have the same instance and "
                                       "step");
    }
  }
  if (status.ok()) return operation;
  if (operation->has_hold_) mesh_->ReleaseHold();
  flight_.End(operation->flight_, status, "");
  MutexLock lock(operation->mu_);
  done = std::move(operation->done_callback_);
  return status;
}

void Group::CheckArrived(const Operation& operation) {
  if (mesh_ == nullptr) return;
  for (const transport::Unclaimed& unclaimed : mesh_->UnclaimedOf(operation.spec_.key)) {
    OnArrival(unclaimed.peer, unclaimed.tag, unclaimed.label);
  }
}

Handle Group::Start(Request request, Operation::Done done) {
  // Whether somebody has given it up already.
  if (mesh_ != nullptr) mesh_->Poll();
  absl::StatusOr<Handle> operation = Prepare(request, done, /*has_hold=*/true);
  if (!operation.ok()) {
    if (done) done(operation.status());
    return Operation::Failed(operation.status());
  }
  CheckArrived(**operation);
  (*operation)->Launch();
  return *std::move(operation);
}

absl::Status Group::Run(Request request) {
  if (mesh_ != nullptr) mesh_->Poll();
  Operation::Done none;
  TANDEM_ASSIGN_OR_RETURN(const Handle operation, Prepare(request, none, /*has_hold=*/false));
  CheckArrived(*operation);
  operation->Launch();
  return operation->Wait();
}

absl::Status Group::Barrier(int64_t instance, int64_t step) {
  Request request;
  request.kind = Kind::kBarrier;
  request.instance = instance;
  request.step = step;
  return Run(std::move(request));
}

// Ending.

void Group::OnOperationEnd(Operation& operation, const absl::Status& status, bool tells_peers) {
  if (mesh_ != nullptr) {
    if (!status.ok()) {
      mesh_->Forget(operation.spec_.key);
      if (tells_peers) mesh_->SendAbort(operation.spec_.key, status);
    }
    if (operation.has_hold_) mesh_->ReleaseHold();
  }
  std::string missing;
  if (!status.ok()) {
    missing = absl::StrJoin(operation.Missing(), ", ", [this](std::string* out, int rank) {
      out->append(mesh_ == nullptr ? "" : mesh_->Describe(rank));
    });
  }
  flight_.End(operation.flight_, status, missing);
  MutexLock lock(mu_);
  running_.erase(operation.spec_.key);
  if (status.ok()) return;
  if (aborted_.emplace(operation.spec_.key, status).second) {
    aborted_order_.push_back(operation.spec_.key);
  }
  if (aborted_order_.size() > kMaxAborted) {
    aborted_.erase(aborted_order_.front());
    aborted_order_.pop_front();
  }
}

bool Group::Drive(const std::atomic<bool>& done, absl::Time deadline) {
  if (mesh_ == nullptr) return done.load(std::memory_order_acquire);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const bool result = mesh_->DriveUntil(done, deadline);
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return result;
}

void Group::WakeWaiters() {
  if (mesh_ != nullptr && waiters_.load(std::memory_order_seq_cst) > 0) mesh_->Wake();
}

void Group::Abort(const absl::Status& why) {
  if (mesh_ != nullptr) {
    mesh_->Break(why);
  } else {
    OnBroken(why);
  }
}

// What the mesh reports.

std::string Group::DescribeOperation(const Operation& operation) const {
  return absl::StrCat(operation.Describe(), " of group '", options_.key, "' generation ",
                      options_.generation);
}

void Group::FailMismatch(Operation& operation, int peer, const transport::Label& theirs) {
  const transport::Label& ours = operation.spec_.label;
  operation.Fail(errors::InvalidArgument(
                     DescribeOperation(operation), ": ", mesh_->Describe(rank()), " brings ",
                     DescribeLabel(ours), ", ", mesh_->Describe(peer), " brings ",
                     DescribeLabel(theirs), DescribeDifference(ours, theirs),
                     "; every member must call the same operation, in the same order, with "
                     "the same type and shape"),
                 true);
}

void Group::OnArrival(int peer, const transport::Tag& tag, const transport::Label& theirs) {
  std::shared_ptr<Operation> operation;
  {
    MutexLock lock(mu_);
    const auto found = running_.find(tag.operation);
    if (found == running_.end()) return;
    operation = found->second;
  }
  if (!(operation->spec_.label == theirs)) FailMismatch(*operation, peer, theirs);
}

void Group::OnAbort(int peer, const transport::OperationKey& key, const absl::Status& why) {
  const absl::Status reported(
      why.code(), absl::StrCat(why.message(), " (reported by ", mesh_->Describe(peer), ")"));
  std::shared_ptr<Operation> operation;
  {
    MutexLock lock(mu_);
    const auto found = running_.find(key);
    if (found != running_.end()) {
      operation = found->second;
    } else if (aborted_.emplace(key, reported).second) {
      aborted_order_.push_back(key);
    }
  }
  if (operation != nullptr) {
    operation->Fail(reported, false);
  } else {
    mesh_->Forget(key);
  }
}

void Group::OnBroken(const absl::Status& why) {
  std::vector<std::shared_ptr<Operation>> running;
  {
    MutexLock lock(mu_);
    if (!broken_.ok()) return;
    broken_ =
        absl::Status(why.code(), absl::StrCat("group '", options_.key, "' generation ",
                                              options_.generation, " is over: ", why.message()));
    for (const auto& [key, operation] : running_) running.push_back(operation);
  }
  for (const auto& operation : running) {
    operation->Fail(absl::Status(why.code(), absl::StrCat(DescribeOperation(*operation), ", ",
                                                          operation->Doing(), ": ", why.message())),
                    false);
  }
  if (running.empty()) return;
  const absl::StatusOr<std::string> file = WriteFlightRecord(std::string(why.message()));
  TANDEM_LOG(Warning) << "group '" << options_.key << "' generation " << options_.generation
                      << " is over: " << why.message() << "; " << running.size()
                      << " operations ended with it. "
                      << (file.ok() ? absl::StrCat("Flight record: ", *file)
                                    : std::string(file.status().message()));
}

void Group::OnTick() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Operation>> old;
  {
    MutexLock lock(mu_);
    for (const auto& [key, operation] : running_) {
      if (absl::FromChrono(now - operation->begun_) >= operation->spec_.timeout / 3) {
        old.push_back(operation);
      }
    }
  }
  for (const auto& operation : old) {
    const absl::Duration age = absl::FromChrono(now - operation->begun_);
    const absl::Duration timeout = operation->spec_.timeout;
    const bool is_late = age >= timeout;
    if (!is_late && operation->was_reported_.exchange(true)) continue;
    std::string who;
    for (const int rank : operation->Missing()) {
      absl::StrAppend(&who, who.empty() ? "" : ", ", mesh_->Describe(rank));
      transport::Unclaimed meanwhile;
      std::string& does = operation->meanwhile_[rank];
      if (mesh_->LastUnclaimedOf(rank, &meanwhile)) {
        does = absl::StrCat(" (which is at ", DescribeLabel(meanwhile.label), ", instance ",
                            meanwhile.tag.operation.instance, ", step ",
                            meanwhile.tag.operation.step, ")");
      }
      who += does;
    }
    const std::string text =
        absl::StrCat(DescribeOperation(*operation), " waits for ", who.empty() ? "nobody" : who);
    if (!is_late) {
      TANDEM_LOG(Warning) << text << " since " << absl::FormatDuration(timeout / 3) << "; after "
                          << absl::FormatDuration(timeout) << " it fails";
      continue;
    }
    operation->Fail(
        errors::DeadlineExceeded(text, ", which did not come for ", absl::FormatDuration(timeout),
                                 ": it is stuck, does not call this operation, or is slower than "
                                 "the others by more than the timeout allows"),
        true);
    const absl::StatusOr<std::string> file = WriteFlightRecord(text);
    TANDEM_LOG(Warning) << text << ", and has failed. "
                        << (file.ok() ? absl::StrCat("Flight record: ", *file)
                                      : std::string(file.status().message()));
  }
}

std::vector<std::string> Group::Pending() const {
  std::vector<std::shared_ptr<Operation>> running;
  {
    MutexLock lock(mu_);
    for (const auto& [key, operation] : running_) running.push_back(operation);
  }
  std::vector<std::string> lines;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& operation : running) {
    const auto missing = absl::StrJoin(operation->Missing(), ", ", [&](std::string* out, int r) {
      out->append(mesh_->Describe(r));
    });
    lines.push_back(
        absl::StrCat(operation->Describe(), ", since ",
                     absl::FormatDuration(absl::Trunc(absl::FromChrono(now - operation->begun_),
                                                      absl::Milliseconds(1))),
                     missing.empty() ? "" : absl::StrCat(", waits for ", missing)));
  }
  return lines;
}

// The flight record.

std::string Group::FlightRecordText(const std::string& why) const {
  nlohmann::ordered_json head;
  head["group"] = options_.key;
  head["generation"] = options_.generation;
  head["rank"] = rank();
  head["member"] = options_.members[static_cast<size_t>(rank())].name;
  head["host"] = options_.members[static_cast<size_t>(rank())].host;
  head["size"] = size();
  head["pid"] = getpid();
  head["written"] = static_cast<double>(absl::ToUnixMicros(absl::Now())) / 1e6;
  head["why"] = why;
  return head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n" +
         flight_.ToJsonLines();
}

absl::StatusOr<std::string> Group::WriteFlightRecord(const std::string& why) const {
  std::string folder = options_.flight_folder;
  for (const char* const variable : {"TANDEM_FLIGHT_DIR", "TMPDIR"}) {
    const char* const value = std::getenv(variable);
    if (folder.empty() && value != nullptr) folder = value;
  }
  if (folder.empty()) folder = "/tmp";
  std::string name = options_.key;
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  const std::string path = absl::StrCat(folder, "/tandem_flight.", name, ".", options_.generation,
                                        ".", rank(), ".", getpid(), ".jsonl");
  const std::string text = FlightRecordText(why);
  // Complete or not there, however often it is written.
  const std::string temporary = path + ".tmp";
  std::FILE* const file = std::fopen(temporary.c_str(), "we");
  bool written = file != nullptr;
  if (written) written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written) written = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    return errors::Unavailable("the flight record cannot be written to ", path, ": ",
                               std::strerror(errno));
  }
  return path;
}

}  // namespace tandem::collective
