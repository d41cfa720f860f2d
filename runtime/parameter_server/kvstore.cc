#include "runtime/parameter_server/kvstore.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "runtime/parameter_server/remote_store.h"

namespace tandem::parameter_server {
namespace {

// The name of the push that gives a key its first value; the same for all workers, so that the
// first one counts.
constexpr uint64_t kInitClient = 1;

uint64_t HashOf(const std::string& text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: equal in all processes.
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return hash;
}

uint64_t RandomClient() {
  std::random_device random;
  const uint64_t client = (uint64_t{random()} << 32) | random();
  return client == kInitClient ? kInitClient + 1 : client;
}

std::string TypeAndShape(const Tensor& tensor) {
  if (!tensor.is_valid()) return "nothing";
  return absl::StrCat(DataTypeName(tensor.dtype()), tensor.shape().DebugString());
}

// Copies the rows of several tensors into one, one after the other. REQUIRES: they fit.
void JoinRows(const std::vector<Tensor>& values, Tensor& whole) {
  char* to = static_cast<char*>(whole.mutable_data());
  for (const Tensor& value : values) {
    if (value.num_bytes() > 0) std::memcpy(to, value.data(), value.num_bytes());
    to += value.num_bytes();
  }
}

absl::Status CheckOptions(const KvStoreOptions& options) {
  if (options.job.empty() || options.servers.empty()) {
    return errors::InvalidArgument("a store needs the name of its job, and servers");
  }
  if (options.workers < 1 || options.worker < 0 || options.worker >= options.workers) {
    return errors::InvalidArgument("there is no worker ", options.worker, " of ", options.workers);
  }
  if (options.min_cut_bytes < 0 || options.timeout <= absl::ZeroDuration()) {
    return errors::InvalidArgument("a store that cuts values from ", options.min_cut_bytes,
                                   " bytes on and waits for ",
                                   absl::FormatDuration(options.timeout), " makes no sense");
  }
  return absl::OkStatus();
}

}  // namespace

// A key's rows on one server: a shard of its own there, whose versions count the key's updates.
struct KvStore::Part {
  int number = 0;
  size_t server = 0;
  int64_t offset = 0;  // Of its first row.
  Shape shape;

  // Under mu_.
  uint64_t incarnation = 0;
  int64_t version = 0;  // With all pushes of this store; for kAllWorkers.
  int64_t sequence = 0;
  std::set<int64_t> in_flight;
  // For kEachPush: one push at a time, and what came after it.
  bool is_busy = false;
  bool is_pumping = false;  // A thread takes what may start out of the queue.
  std::deque<std::pair<bool, absl::AnyInvocable<void()>>> queue;  // Whether it is a push.
};

struct KvStore::Key {
  std::string name;
  DataType dtype = DataType::kInvalid;
  Shape shape;
  std::vector<std::unique_ptr<Part>> parts;

  int64_t rows() const { return shape.rank() == 0 ? 0 : shape.dim(0); }
};

// The parts of one call.
class KvStore::Joint {
 public:
  Joint(KvStore* store, size_t parts,
        std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join)
      : store_(store), join_(std::move(join)), values_(parts), left_(parts) {}

  const KvFuture& future() const { return future_; }

  void Done(size_t place, absl::StatusOr<Tensor> value) {
    absl::Status status;
    {
      MutexLock lock(mu_);
      if (value.ok()) {
        values_[place] = *std::move(value);
      } else if (status_.ok()) {
        status_ = value.status();
      }
      if (--left_ > 0) return;
      status = status_;
    }
    absl::StatusOr<Tensor> result =
        status.ok() ? join_(std::move(values_)) : absl::StatusOr<Tensor>(status);
    status = result.status();
    future_.Set(std::move(result));
    store_->End(status);
  }

 private:
  KvStore* const store_;
  const std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join_;
  const KvFuture future_;
  Mutex mu_;
  std::vector<Tensor> values_;  // Each is written once; read when all are there.
  size_t left_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

KvFuture::KvFuture() : shared_(std::make_shared<Shared>()) {}

const absl::StatusOr<Tensor>& KvFuture::Wait() const {
  shared_->done.Wait();
  return shared_->result;
}

void KvFuture::Set(absl::StatusOr<Tensor> result) const {
  shared_->result = std::move(result);
  shared_->done.Set();
}

absl::StatusOr<std::unique_ptr<KvStore>> KvStore::Create(const KvStoreOptions& options) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<std::unique_ptr<ShardClient>> clients;
  for (const std::string& server : options.servers) {
    ShardClient::Options client_options;
    client_options.security = options.security;
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ShardClient> client,
                            ShardClient::Create(server, client_options));
    clients.push_back(std::move(client));
  }
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> calls,
                          RemoteStore::Create(options.security));
  return Create(options, std::move(clients), std::move(calls));
}

absl::StatusOr<std::unique_ptr<KvStore>> KvStore::Create(
    const KvStoreOptions& options, std::vector<std::unique_ptr<ShardClient>> clients,
    std::shared_ptr<ParameterStore> calls) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  if (clients.size() != options.servers.size() || calls == nullptr) {
    return errors::InvalidArgument(options.servers.size(), " servers, but ", clients.size(),
                                   " clients");
  }
  return std::unique_ptr<KvStore>(new KvStore(options, std::move(clients), std::move(calls)));
}

KvStore::KvStore(const KvStoreOptions& options, std::vector<std::unique_ptr<ShardClient>> clients,
                 std::shared_ptr<ParameterStore> calls)
    : options_(options),
      client_(RandomClient()),
      clients_(std::move(clients)),
      calls_(std::move(calls)) {}

KvStore::~KvStore() {
  cancellation_.Cancel(errors::Cancelled("the store of '", options_.job, "' was let go"));
  MutexLock lock(mu_);
  while (begun_ > 0) ended_.Wait(mu_);  // Calls that are cancelled end.
}

// --- Keys

KvStore::KeyPtr KvStore::MakeKey(const std::string& name, const Tensor& value) const {
  const auto key = std::make_shared<Key>();
  key->name = name;
  key->dtype = value.dtype();
  key->shape = value.shape();
  const auto servers = static_cast<int64_t>(clients_.size());
  const bool is_cut =
      static_cast<int64_t>(value.num_bytes()) >= options_.min_cut_bytes && key->rows() >= servers;
  const int64_t parts = is_cut ? servers : 1;
  const uint64_t first_server = HashOf(name);
  for (int64_t i = 0; i < parts; ++i) {
    auto part = std::make_unique<Part>();
    part->number = static_cast<int>(i);
    part->server = static_cast<size_t>((first_server + static_cast<uint64_t>(i)) % clients_.size());
    part->shape = key->shape;
    if (is_cut) {
      part->offset = key->rows() * i / parts;
      part->shape.SetDim(0, key->rows() * (i + 1) / parts - part->offset);
    }
    key->parts.push_back(std::move(part));
  }
  return key;
}

absl::Status KvStore::Init(const std::string& name, const Tensor& value) {
  if (name.empty()) return errors::InvalidArgument("a key needs a name");
  if (!value.is_valid() || !IsTriviallyCopyable(value.dtype())) {
    return errors::InvalidArgument("key '", name, "' cannot begin with ", TypeAndShape(value));
  }
  KeyPtr key;
  {
    MutexLock lock(mu_);
    const auto found = keys_.find(name);
    if (found != keys_.end()) key = found->second;
  }
  if (key == nullptr) key = MakeKey(name, value);
  if (key->dtype != value.dtype() || key->shape != value.shape()) {
    return errors::InvalidArgument("key '", name, "' is ", DataTypeName(key->dtype),
                                   key->shape.DebugString(), ", not ", TypeAndShape(value));
  }
  for (const std::unique_ptr<Part>& part : key->parts) {
    const Tensor rows = key->parts.size() == 1
                            ? value
                            : value.Slice(part->offset, part->offset + part->shape.dim(0));
    const absl::Status status = InitPart(*key, *part, rows);
    if (!status.ok()) return WithContext(status, absl::StrCat("key '", name, "'"));
  }
  MutexLock lock(mu_);
  keys_.emplace(name, key);
  return absl::OkStatus();
}

absl::Status KvStore::InitPart(const Key& key, Part& part, const Tensor& value) {
  const absl::Time deadline = absl::Now() + options_.timeout;
  ShardClient& client = *clients_[part.server];
  TANDEM_ASSIGN_OR_RETURN(KvGraph graph, MakeKvGraph(key.dtype, part.shape, options_.updater,
                                                     options_.compression.get()));
  ShardDefinition definition;
  definition.job = absl::StrCat(options_.job, "/", key.name);
  definition.number = part.number;
  definition.graph = std::move(graph.graph);
  definition.programs = std::move(graph.programs);
  definition.variables = std::move(graph.variables);
  TANDEM_ASSIGN_OR_RETURN(const DefinedShard defined, client.Define(definition, deadline));
  Route route;
  route.set_job(definition.job);
  route.mutable_id()->set_client(kInitClient);
  route.mutable_id()->set_sequence(1);
  route.set_timeout_ms(absl::ToInt64Milliseconds(options_.timeout) + 1);
  Route::Shard& shard = *route.add_shards();
  shard.set_number(part.number);
  shard.set_address(client.address());
  shard.set_incarnation(defined.incarnation);
  TANDEM_ASSIGN_OR_RETURN(const ShardAnswer answer,
                          client.Call(route, "init", /*updates=*/true, {value}, deadline));
  MutexLock lock(mu_);
  // Rounds of pushes that are on their way are counted already.
  if (part.incarnation == defined.incarnation && !part.in_flight.empty()) return absl::OkStatus();
  part.incarnation = defined.incarnation;
  part.version = answer.version;
  return absl::OkStatus();
}

absl::StatusOr<KvStore::KeyPtr> KvStore::Find(const std::string& key) const {
  MutexLock lock(mu_);
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, known] : keys_) names.push_back(name);
  return errors::NotFound("there is no key '", key, "'; Init makes one known",
                          DidYouMean(key, names));
}

// --- Calls

namespace {

// Of a call that was not begun.
absl::Status DoesNotFit(const std::string& key, const std::string& what, const Tensor& given,
                        const std::string& wanted) {
  return errors::InvalidArgument("key '", key, "': ", what, " is ", TypeAndShape(given), "; ",
                                 wanted, " is wanted");
}

absl::StatusOr<Tensor> NoResult(std::vector<Tensor>) { return Tensor(); }

}  // namespace

KvFuture KvStore::PushAsync(const std::string& name, const Tensor& gradient) {
  const auto refuse = [](const absl::Status& status) {
    KvFuture future;
    future.Set(status);
    return future;
  };
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) return refuse(found.status());
  const Key& key = **found;
  if (!gradient.is_valid() || gradient.dtype() != key.dtype || gradient.shape() != key.shape) {
    return refuse(DoesNotFit(name, "the gradient", gradient,
                             absl::StrCat(DataTypeName(key.dtype), key.shape.DebugString())));
  }
  PartArguments arguments;
  for (const std::unique_ptr<Part>& part : key.parts) {
    Tensor rows = key.parts.size() == 1
                      ? gradient
                      : gradient.Slice(part->offset, part->offset + part->shape.dim(0));
    if (options_.compression != nullptr) {
      absl::StatusOr<Tensor> encoded =
          options_.compression->Encode(absl::StrCat(name, "/", part->number), rows);
      if (!encoded.ok()) return refuse(encoded.status());
      rows = *std::move(encoded);
    }
    arguments.push_back(std::vector<Tensor>{std::move(rows)});
  }
  return CallParts(*found, "push", /*updates=*/true, std::move(arguments), NoResult);
}

KvFuture KvStore::PullAsync(const std::string& name) {
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    KvFuture future;
    future.Set(found.status());
    return future;
  }
  PartArguments arguments((*found)->parts.size(), std::vector<Tensor>());
  return CallParts(
      *found, "pull", /*updates=*/false, std::move(arguments),
      [key = *found](std::vector<Tensor> values) -> absl::StatusOr<Tensor> {
        for (size_t i = 0; i < values.size(); ++i) {
          if (values[i].dtype() == key->dtype && values[i].shape() == key->parts[i]->shape) {
            continue;
          }
          return errors::Internal("key '", key->name, "' came as ", TypeAndShape(values[i]));
        }
        if (values.size() == 1) return std::move(values[0]);
        TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(key->dtype, key->shape));
        JoinRows(values, whole);
        return whole;
      });
}

absl::StatusOr<std::vector<std::vector<int64_t>>> KvStore::PositionsByPart(const Key& key,
                                                                           const Tensor& indices) {
  if (!indices.is_valid() || indices.dtype() != kInt64 || !indices.shape().IsVector()) {
    return DoesNotFit(key.name, "the tensor of indices", indices, "int64[n]");
  }
  if (key.shape.rank() == 0) {
    return errors::InvalidArgument("key '", key.name, "' is a scalar, and has no rows");
  }
  std::vector<std::vector<int64_t>> positions(key.parts.size());
  const absl::Span<const int64_t> rows = indices.Elements<int64_t>();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= key.rows()) {
      return errors::InvalidArgument("key '", key.name, "' has ", key.rows(), " rows; there is no ",
                                     rows[i]);
    }
    const auto after = std::upper_bound(
        key.parts.begin(), key.parts.end(), rows[i],
        [](int64_t row, const std::unique_ptr<Part>& part) { return row < part->offset; });
    positions[static_cast<size_t>(after - key.parts.begin()) - 1].push_back(
        static_cast<int64_t>(i));
  }
  return positions;
}

KvFuture KvStore::PushRowsAsync(const std::string& name, const Tensor& indices,
                                const Tensor& values) {
  KvFuture refused;
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    refused.Set(found.status());
    return refused;
  }
  const Key& key = **found;
  const auto positions = PositionsByPart(key, indices);
  absl::Status status = positions.status();
  if (status.ok() && !options_.updater.rows) {
    status = errors::InvalidArgument("the updater has no update by rows");
  }
  Shape row_shape = key.shape;
  if (status.ok()) {
    row_shape.SetDim(0, indices.shape().dim(0));
    if (!values.is_valid() || values.dtype() != key.dtype || values.shape() != row_shape) {
      status = DoesNotFit(name, "the tensor of rows", values,
                          absl::StrCat(DataTypeName(key.dtype), row_shape.DebugString()));
    }
  }
  PartArguments arguments(key.parts.size());
  for (size_t p = 0; p < key.parts.size() && status.ok(); ++p) {
    const std::vector<int64_t>& mine = (*positions)[p];
    // In a round all take part, since the others wait for this worker.
    if (mine.empty() && options_.aggregation == Aggregation::kEachPush) continue;
    row_shape.SetDim(0, static_cast<int64_t>(mine.size()));
    absl::StatusOr<Tensor> rows = Tensor::Create(key.dtype, row_shape);
    absl::StatusOr<Tensor> numbers =
        Tensor::Create(kInt64, Shape({static_cast<int64_t>(mine.size())}));
    status = rows.ok() ? numbers.status() : rows.status();
    if (!status.ok()) break;
    const size_t bytes = mine.empty() ? 0 : rows->num_bytes() / mine.size();
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto from = static_cast<size_t>(mine[i]);
      if (bytes > 0) {
        std::memcpy(static_cast<char*>(rows->mutable_data()) + i * bytes,
                    static_cast<const char*>(values.data()) + from * bytes, bytes);
      }
      numbers->MutableElements<int64_t>()[i] =
          indices.Elements<int64_t>()[from] - key.parts[p]->offset;
    }
    arguments[p] = std::vector<Tensor>{*std::move(rows), *std::move(numbers)};
  }
  if (!status.ok()) {
    refused.Set(status);
    return refused;
  }
  return CallParts(*found, "push_rows", /*updates=*/true, std::move(arguments), NoResult);
}

KvFuture KvStore::PullRowsAsync(const std::string& name, const Tensor& indices) {
  KvFuture refused;
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    refused.Set(found.status());
    return refused;
  }
  const KeyPtr key = *found;
  absl::StatusOr<std::vector<std::vector<int64_t>>> positions = PositionsByPart(*key, indices);
  if (!positions.ok()) {
    refused.Set(positions.status());
    return refused;
  }
  PartArguments arguments(key->parts.size());
  for (size_t p = 0; p < key->parts.size(); ++p) {
    const std::vector<int64_t>& mine = (*positions)[p];
    if (mine.empty()) continue;
    Tensor numbers(kInt64, Shape({static_cast<int64_t>(mine.size())}));
    for (size_t i = 0; i < mine.size(); ++i) {
      numbers.MutableElements<int64_t>()[i] =
          indices.Elements<int64_t>()[static_cast<size_t>(mine[i])] - key->parts[p]->offset;
    }
    arguments[p] = std::vector<Tensor>{std::move(numbers)};
  }
  Shape shape = key->shape;
  shape.SetDim(0, indices.shape().dim(0));
  return CallParts(key, "pull_rows", /*updates=*/false, std::move(arguments),
                   [key, shape, positions = *std::move(positions)](
                       std::vector<Tensor> values) -> absl::StatusOr<Tensor> {
                     TANDEM_ASSIGN_OR_RETURN(Tensor rows, Tensor::Create(key->dtype, shape));
                     const size_t bytes =
                         shape.dim(0) == 0 ? 0
                                           : rows.num_bytes() / static_cast<size_t>(shape.dim(0));
                     for (size_t p = 0; p < positions.size(); ++p) {
                       if (positions[p].empty()) continue;
                       if (values[p].dtype() != key->dtype ||
                           values[p].num_bytes() != bytes * positions[p].size()) {
                         return errors::Internal("rows of key '", key->name, "' came as ",
                                                 TypeAndShape(values[p]));
                       }
                       for (size_t i = 0; i < positions[p].size() && bytes > 0; ++i) {
                         std::memcpy(static_cast<char*>(rows.mutable_data()) +
                                         static_cast<size_t>(positions[p][i]) * bytes,
                                     static_cast<const char*>(values[p].data()) + i * bytes, bytes);
                       }
                     }
                     return rows;
                   });
}

KvFuture KvStore::CallParts(const KeyPtr& key, const std::string& program, bool updates,
                            PartArguments arguments,
                            std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join) {
  const auto joint = std::make_shared<Joint>(this, key->parts.size(), std::move(join));
  const KvFuture future = joint->future();
  {
    MutexLock lock(mu_);
    ++begun_;
  }
  for (size_t place = 0; place < arguments.size(); ++place) {
    if (!arguments[place].has_value()) {
      joint->Done(place, Tensor());
    } else {
      CallPart(key, place, program, updates, *std::move(arguments[place]), joint);
    }
  }
  return future;
}

void KvStore::CallPart(const KeyPtr& key, size_t place, const std::string& program, bool updates,
                       std::vector<Tensor> arguments, const JointPtr& joint) {
  Part& part = *key->parts[place];
  const bool in_rounds = options_.aggregation == Aggregation::kAllWorkers;
  Route route;
  route.set_job(absl::StrCat(options_.job, "/", key->name));
  route.set_timeout_ms(absl::ToInt64Milliseconds(options_.timeout) + 1);
  Route::Shard& shard = *route.add_shards();
  shard.set_number(part.number);
  shard.set_address(clients_[part.server]->address());
  int64_t sequence = 0;
  absl::AnyInvocable<void()> start;
  {
    MutexLock lock(mu_);
    shard.set_incarnation(part.incarnation);
    if (in_rounds) shard.set_version(part.version);
    if (updates) {
      sequence = ++part.sequence;
      part.in_flight.insert(sequence);
      route.mutable_id()->set_client(client_);
      route.mutable_id()->set_sequence(sequence);
      route.mutable_id()->set_finished_below(*part.in_flight.begin());
      if (in_rounds) {
        Round& round = *route.mutable_round();
        round.set_number(part.version++);
        round.set_part(options_.worker);
        round.set_parts(options_.workers);
        round.set_enough(options_.workers);
        round.set_weight(1);
        round.set_all_weight(options_.workers);
      }
    }
    ShardCall call;
    call.route = route.SerializeAsString();
    call.shard = part.number;
    call.program = program;
    call.updates = updates;
    call.node = absl::StrCat("key '", key->name, "'");
    start = [this, key, place, sequence, updates, call = std::move(call),
             arguments = std::move(arguments), joint]() mutable {
      calls_->Call(
          std::move(call), std::move(arguments), &cancellation_,
          [this, key, place, sequence, updates, joint](absl::StatusOr<ShardAnswer> answer) {
            if (updates) PushEnded(*key->parts[place], sequence);
            if (!answer.ok()) {
              joint->Done(place, answer.status());
            } else if (updates) {
              joint->Done(place, Tensor());
            } else if (answer->results.size() != 1) {
              joint->Done(place, errors::Internal("key '", key->name, "' came as ",
                                                  answer->results.size(), " tensors"));
            } else {
              joint->Done(place, std::move(answer->results[0]));
            }
          });
    };
    if (!in_rounds) {
      if (part.is_busy || !part.queue.empty()) {
        part.queue.emplace_back(updates, std::move(start));
        return;
      }
      part.is_busy = updates;
    }
  }
  start();
}

// The push is still counted, so that this lives until it returns. Pushes that end at once, such as
// those of a store that is let go, are found by the thread that started them, without recursion.
void KvStore::PushEnded(Part& part, int64_t sequence) {
  {
    MutexLock lock(mu_);
    part.in_flight.erase(sequence);
    if (options_.aggregation == Aggregation::kAllWorkers) return;
    part.is_busy = false;
    if (std::exchange(part.is_pumping, true)) return;
  }
  while (true) {
    absl::AnyInvocable<void()> start;
    {
      MutexLock lock(mu_);
      if (part.is_busy || part.queue.empty()) {
        part.is_pumping = false;
        return;
      }
      part.is_busy = part.queue.front().first;
      start = std::move(part.queue.front().second);
      part.queue.pop_front();
    }
    start();
  }
}

void KvStore::End(const absl::Status& status) {
  MutexLock lock(mu_);
  if (first_error_.ok()) first_error_ = status;
  --begun_;
  ended_.NotifyAll();  // Under the lock: this may end as soon as it is released.
}

absl::Status KvStore::WaitAll() {
  MutexLock lock(mu_);
  while (begun_ > 0) ended_.Wait(mu_);  // Every call has a deadline.
  return std::exchange(first_error_, absl::OkStatus());
}

}  // namespace tandem::parameter_server
