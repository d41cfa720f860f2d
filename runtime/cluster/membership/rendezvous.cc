#include "runtime/cluster/membership/rendezvous.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/membership.grpc.pb.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/rpc/listen_address.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem::membership {
namespace {

class Service final : public Rendezvous::CallbackService {
 public:
  explicit Service(Arbiter* arbiter) : arbiter_(*arbiter) {}

  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context, const ReadRequest*,
                                 ArbiterState* response) override {
    return Answer(context, arbiter_.Read(), response);
  }
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context, const RenewRequest* request,
                                  ArbiterState* response) override {
    return Answer(context, arbiter_.Renew(request->number(), request->beat()), response);
  }
  grpc::ServerUnaryReactor* Claim(grpc::CallbackServerContext* context, const ClaimRequest* request,
                                  ClaimResponse* response) override {
    return Answer(context, arbiter_.Claim(request->generation(), request->base()), response);
  }

 private:
  template <typename T>
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                          absl::StatusOr<T> answer, T* response) {
    if (answer.ok()) *response = *std::move(answer);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(answer.status()));
    return reactor;
  }

  Arbiter& arbiter_;
};

class GrpcRendezvousServer final : public RendezvousServer {
 public:
  explicit GrpcRendezvousServer(Arbiter* arbiter) : service_(arbiter) {}
  ~GrpcRendezvousServer() override {
    if (server_ == nullptr) return;
    server_->Shutdown(absl::ToChronoTime(absl::Now() + absl::Milliseconds(200)));
    server_->Wait();
  }

  absl::Status Listen(const HostPort& own, const Security& security) {
    const std::string host = ListenHost(own.host);
    TANDEM_RETURN_IF_ERROR(CheckCanListen(host, own.port));
    const auto with_port = [](const std::string& name, int port) {
      return absl::StrContains(name, ':') ? absl::StrCat("[", name, "]:", port)
                                          : absl::StrCat(name, ":", port);
    };
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    int port = 0;
    builder.AddListeningPort(with_port(host, own.port), NewServerCredentials(security), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      server_.reset();
      return errors::Unavailable("cannot listen on ", with_port(host, own.port));
    }
    address_ = with_port(own.host, port);
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

class RemoteArbiter final : public Arbiter {
 public:
  RemoteArbiter(const std::string& address, const Security& security, absl::Duration timeout)
      : address_(address), timeout_(timeout) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = Rendezvous::NewStub(NewChannel(address, security, std::move(arguments)));
  }

  absl::StatusOr<ArbiterState> Read() override {
    return Call<ArbiterState>(&Rendezvous::Stub::Read, ReadRequest());
  }
  absl::StatusOr<ArbiterState> Renew(uint64_t number, uint64_t beat) override {
    RenewRequest request;
    request.set_number(number);
    request.set_beat(beat);
    return Call<ArbiterState>(&Rendezvous::Stub::Renew, request);
  }
  absl::StatusOr<ClaimResponse> Claim(const Generation& generation, uint64_t base) override {
    ClaimRequest request;
    *request.mutable_generation() = generation;
    request.set_base(base);
    return Call<ClaimResponse>(&Rendezvous::Stub::Claim, request);
  }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (Rendezvous::Stub::*method)(grpc::ClientContext*,
                                                                         const Request&, Response*),
                                const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (status.ok()) return response;
    return WithContext(FromGrpc(status), absl::StrCat("the launcher's rendezvous at ", address_));
  }

  const std::string address_;
  const absl::Duration timeout_;
  std::unique_ptr<Rendezvous::Stub> stub_;
};

}  // namespace

absl::StatusOr<ArbiterState> MemoryArbiter::Read() {
  MutexLock lock(mu_);
  return state_;
}

absl::StatusOr<ArbiterState> MemoryArbiter::Renew(uint64_t number, uint64_t beat) {
  MutexLock lock(mu_);
  if (state_.generation().number() == number) state_.set_beat(beat);
  return state_;
}

absl::StatusOr<ClaimResponse> MemoryArbiter::Claim(const Generation& generation, uint64_t base) {
  if (generation.number() == 0 || generation.members_size() == 0) {
    return errors::InvalidArgument("a claim of generation ", generation.number(), " with ",
                                   generation.members_size(), " members");
  }
  MutexLock lock(mu_);
  ClaimResponse response;
  const uint64_t newest = state_.generation().number();
  if (generation.number() > newest && base >= newest) {
    state_.Clear();
    *state_.mutable_generation() = generation;
    response.set_won(true);
  }
  *response.mutable_state() = state_;
  return response;
}

void MemoryArbiter::NoteEnd(const std::string& host, int64_t pid) {
  MutexLock lock(mu_);
  if (state_.generation().members_size() == 0) return;
  const MemberInfo& chief = state_.generation().members(0);
  if (chief.pid() == pid && chief.host() == host) state_.set_holder_is_gone(true);
}

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    const std::string& address, const Security& security, Arbiter* arbiter) {
  TANDEM_ASSIGN_OR_RETURN(const HostPort own, ParseHostPort(address));
  const char* const variable = std::getenv("TANDEM_INSECURE");
  const bool may_be_open = variable != nullptr && absl::string_view(variable) == "1";
  if (!IsLoopback(own.host) && !security.ServesTls() && security.token.empty() && !may_be_open) {
    return errors::FailedPrecondition(
        "the rendezvous would listen on ", own.host,
        ", where others can reach it, without TLS (TANDEM_TLS_CERT, TANDEM_TLS_KEY, TANDEM_TLS_CA) "
        "and without a token (TANDEM_TOKEN); set them, or say that it may (TANDEM_INSECURE=1)");
  }
  auto server = std::make_unique<GrpcRendezvousServer>(arbiter);
  TANDEM_RETURN_IF_ERROR(server->Listen(own, security));
  return server;
}

std::unique_ptr<Arbiter> NewRemoteArbiter(const std::string& address, const Security& security,
                                          absl::Duration timeout) {
  return std::make_unique<RemoteArbiter>(address, security, timeout);
}

}  // namespace tandem::membership
