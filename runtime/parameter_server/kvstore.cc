#include "runtime/parameter_server/kvstore.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "runtime/parameter_server/kvstore_parts.h"
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

}  // namespace tandem::parameter_server
