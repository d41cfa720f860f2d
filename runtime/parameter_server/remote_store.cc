#include "runtime/parameter_server/remote_store.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/alarm.h"
#include "proto/step_extras.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/parameter_server/wire.h"
#include "runtime/rpc/server_link.h"

namespace tandem::parameter_server {
namespace {

constexpr size_t kRememberedRoutes = 16;
constexpr size_t kMostServers = 1024;
constexpr int64_t kLongestTimeoutMs = int64_t{7} * 24 * 3600 * 1000;

CallRequest RequestOf(const Route& route, const Route::Shard& shard, const ShardCall& call) {
  CallRequest request;
  *request.mutable_shard() = KeyOf(route.job(), shard.number());
  request.set_incarnation(shard.incarnation());
  request.set_program(call.program);
  request.set_updates(call.updates);
  if (!call.updates) {
    request.set_wait_for_version(shard.version());
    return request;
  }
  *request.mutable_id() = route.id();
  if (route.has_round()) {
    *request.mutable_round() = route.round();
    request.mutable_round()->set_number(shard.version());
  }
  request.set_pulled_version(call.pulled_version);
  return request;
}

absl::StatusOr<ShardAnswer> AnswerOf(ShardHost::Outcome outcome, const std::string& address) {
  if (outcome.lost.empty()) return std::move(outcome.answer);
  return errors::Unavailable(address, ": ", outcome.lost);
}

// A call of a shard elsewhere.
//
// Large values are offered and asked for in shared memory in the first try only: what cannot be
// had there, for whatever reason, goes in messages, as do all repetitions.
class FarCall : public std::enable_shared_from_this<FarCall> {
 public:
  // `client` outlives the call.
  FarCall(ServiceClient* client, CallRequest request, std::vector<Tensor> arguments, int results,
          const ServiceCallOptions& options, ParameterStore::Done done)
      : client_(*client),
        request_(std::move(request)),
        arguments_(std::move(arguments)),
        results_(static_cast<size_t>(results)),
        options_(options),
        done_(std::move(done)) {}

  void Send(ServerLink* link) {
    std::vector<NamedTensor> arguments = Unnamed(arguments_);
    step_extras::Request extras;
    transfers_ =
        link == nullptr ? ServerLink::Step() : ServerLink::Step(link, &arguments, results_);
    transfers_.AddTo(&extras);
    const bool is_lent = extras.ByteSizeLong() > 0;
    absl::StatusOr<grpc::ByteBuffer> encoded = EncodeStepMessage(
        request_, kCallArguments, "argument", std::move(arguments), is_lent ? &extras : nullptr);
    if (!encoded.ok()) {
      done_(WithContext(encoded.status(), absl::StrCat("'", request_.program(), "'")));
      return;
    }
    ServiceCallOptions options = options_;
    options.once = is_lent;
    client_.Call("Call", *std::move(encoded), options,
                 [self = shared_from_this(), is_lent](absl::StatusOr<grpc::ByteBuffer> answer) {
                   self->Answered(std::move(answer), is_lent);
                 });
  }

 private:
  void Answered(absl::StatusOr<grpc::ByteBuffer> answer, bool is_lent) {
    bool wants_arguments = false;
    absl::StatusOr<ShardAnswer> result =
        answer.ok() ? CatchOutOfMemory([&] { return Decode(&*answer, &wants_arguments); })
                    : absl::StatusOr<ShardAnswer>(answer.status());
    transfers_ = ServerLink::Step();
    if (is_lent && (wants_arguments || absl::IsUnavailable(answer.status()))) {
      Send(nullptr);
    } else {
      done_(std::move(result));
    }
  }

  absl::StatusOr<ShardAnswer> Decode(grpc::ByteBuffer* buffer, bool* wants_arguments) {
    CallResponse response;
    step_extras::Response extras;
    // The server is one of the same job; its results are bounded by the message.
    absl::StatusOr<std::vector<ReadTensor>> read = DecodeStepMessage(
        buffer, kCallResults, std::numeric_limits<size_t>::max(), &response, &extras);
    absl::Status status = read.status();
    if (status.ok()) status = transfers_.TakeResults(extras, &*read);
    if (!status.ok()) return WithContext(status, client_.address());
    *wants_arguments = extras.wants_feeds_again();
    ShardHost::Outcome outcome;
    outcome.answer.version = response.version();
    for (ReadTensor& result : *read) {
      absl::StatusOr<Tensor> value = ValueOf(std::move(result));
      if (!value.ok()) return WithContext(value.status(), client_.address());
      outcome.answer.results.push_back(*std::move(value));
    }
    outcome.lost = std::move(*response.mutable_lost());
    return AnswerOf(std::move(outcome), client_.address());
  }

  ServiceClient& client_;
  const CallRequest request_;
  const std::vector<Tensor> arguments_;
  const size_t results_;
  const ServiceCallOptions options_;
  ParameterStore::Done done_;
  ServerLink::Step transfers_;
};

// A call of a shard in this process, which is cancelled when it takes too long. The alarm may hold
// it for a moment longer than the caller's cancellation lives.
struct LocalCall {
  CancellationManager cancellation;
  CancellationManager* outer = nullptr;  // Null: the call is not registered there.
  CancellationManager::Token token = 0;
  grpc::Alarm alarm;

  void End() {
    alarm.Cancel();
    if (outer != nullptr) outer->Deregister(token);
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<RemoteStore>> RemoteStore::Create(
    const absl::optional<Security>& security) {
  Options options;
  TANDEM_ASSIGN_OR_RETURN(options.security, SecurityOrEnvironment(security));
  TANDEM_ASSIGN_OR_RETURN(options.faults, CallFaults::FromEnvironment());
  return std::make_shared<RemoteStore>(std::move(options));
}

absl::StatusOr<std::shared_ptr<const Route>> RemoteStore::ReadRoute(const std::string& bytes) {
  {
    MutexLock lock(mu_);
    for (const auto& [known, route] : routes_) {
      if (known == bytes) return route;
    }
  }
  auto route = std::make_shared<Route>();
  if (bytes.empty() || !route->ParseFromString(bytes)) {
    return errors::InvalidArgument("the route of ", bytes.size(), " bytes cannot be read");
  }
  if (route->timeout_ms() <= 0 || route->timeout_ms() > kLongestTimeoutMs) {
    return errors::InvalidArgument("the route's time is ", route->timeout_ms(),
                                   " ms; it is from 1 ms to 7 days");
  }
  MutexLock lock(mu_);
  routes_.emplace_front(bytes, route);
  if (routes_.size() > kRememberedRoutes) routes_.pop_back();
  return std::shared_ptr<const Route>(std::move(route));
}

absl::StatusOr<std::shared_ptr<ServiceClient>> RemoteStore::ClientOf(const std::string& address) {
  MutexLock lock(mu_);
  const auto found = clients_.find(address);
  if (found != clients_.end()) return found->second;
  if (options_.check_address) TANDEM_RETURN_IF_ERROR(options_.check_address(address));
  if (clients_.size() >= kMostServers) {
    return errors::ResourceExhausted("there are ", clients_.size(),
                                     " parameter servers already; no more can be called");
  }
  absl::optional<size_t> least_lent_bytes;
  if (options_.host_transfers == HostTransfers::kAuto) {
    least_lent_bytes = options_.least_host_transfer_bytes;
  }
  TANDEM_ASSIGN_OR_RETURN(
      std::shared_ptr<ServiceClient> client,
      ServiceClient::Create(address, options_.security, options_.faults, least_lent_bytes));
  clients_.emplace(address, client);
  return client;
}

void RemoteStore::Call(ShardCall call, std::vector<Tensor> arguments,
                       CancellationManager* cancellation, Done done) {
  const absl::StatusOr<std::shared_ptr<const Route>> route = ReadRoute(call.route);
  if (!route.ok()) {
    done(route.status());
    return;
  }
  CallShard(**route, std::move(call), std::move(arguments), cancellation, std::move(done));
}

void RemoteStore::CallShard(const Route& route, ShardCall call, std::vector<Tensor> arguments,
                            CancellationManager* cancellation, Done done) {
  const Route::Shard* shard = nullptr;
  for (const Route::Shard& candidate : route.shards()) {
    if (candidate.number() == call.shard) shard = &candidate;
  }
  if (shard == nullptr) {
    done(errors::InvalidArgument("the route of '", route.job(), "' has ", route.shards_size(),
                                 " shards, and no shard ", call.shard));
    return;
  }
  const absl::Duration timeout = absl::Milliseconds(route.timeout_ms());
  CallRequest request = RequestOf(route, *shard, call);
  if (options_.local != nullptr && options_.local->Holds(request.shard(), shard->incarnation())) {
    CallHere(std::move(request), std::move(arguments), timeout, cancellation, std::move(done));
    return;
  }
  const absl::StatusOr<std::shared_ptr<ServiceClient>> client = ClientOf(shard->address());
  if (!client.ok()) {
    done(client.status());
    return;
  }
  ServiceCallOptions options;
  options.deadline = absl::Now() + timeout;
  options.cancellation = cancellation;
  ServiceClient* const there = client->get();
  std::make_shared<FarCall>(there, std::move(request), std::move(arguments), call.results, options,
                            std::move(done))
      ->Send(there->link());
}

void RemoteStore::CallHere(CallRequest request, std::vector<Tensor> arguments,
                           absl::Duration timeout, CancellationManager* cancellation, Done done) {
  auto local = std::make_shared<LocalCall>();
  if (cancellation != nullptr) {
    local->token = cancellation->NewToken();
    if (!cancellation->Register(local->token, [call = local.get(), cancellation] {
          call->cancellation.Cancel(cancellation->status());
        })) {
      done(cancellation->status());
      return;
    }
    local->outer = cancellation;
  }
  local->alarm.Set(
      absl::ToChronoTime(absl::Now() + timeout),
      [weak = std::weak_ptr<LocalCall>(local), timeout, task = options_.local->options().task,
       program = request.program()](bool went_off) {
        if (!went_off) return;
        if (const std::shared_ptr<LocalCall> call = weak.lock()) {
          call->cancellation.Cancel(
              errors::DeadlineExceeded(task, " (this process) did not answer '", program, "' for ",
                                       absl::FormatDuration(timeout)));
        }
      });
  LocalCall& call = *local;
  options_.local->Call(
      request, std::move(arguments), &call.cancellation,
      [local = std::move(local), task = options_.local->options().task,
       done = std::move(done)](absl::StatusOr<ShardHost::Outcome> outcome) mutable {
        local->End();
        if (outcome.ok()) {
          done(AnswerOf(*std::move(outcome), task));
        } else {
          done(outcome.status());
        }
      });
}

}  // namespace tandem::parameter_server
