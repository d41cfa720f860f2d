#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/membership.grpc.pb.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/cluster/membership/control_transport.h"
#include "runtime/rpc/call_set.h"
#include "runtime/rpc/listen_address.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem::membership {
namespace {

// Messages say everything each time: there is no use in keeping more of them, or for longer.
constexpr int kMostUnderWay = 8;
constexpr absl::Duration kMessageTime = absl::Seconds(2);
constexpr int kMostMessageBytes = 16 << 20;

std::string WithPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

class GrpcTransport final : public ControlTransport, public Control::CallbackService {
 public:
  GrpcTransport(HostPort own, std::string listen_host, Security security)
      : own_(std::move(own)),
        listen_host_(std::move(listen_host)),
        security_(std::move(security)) {}
  ~GrpcTransport() override { Stop(); }

  absl::Status Start(OnMessage on_message, OnRefused on_refused, GetStatus get_status) override {
    on_message_ = std::move(on_message);
    on_refused_ = std::move(on_refused);
    get_status_ = std::move(get_status);
    TANDEM_RETURN_IF_ERROR(CheckCanListen(listen_host_, own_.port));
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMostMessageBytes);
    int port = 0;
    builder.AddListeningPort(WithPort(listen_host_, own_.port), NewServerCredentials(security_),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      server_.reset();
      return errors::Unavailable("cannot listen on ", WithPort(listen_host_, own_.port),
                                 ", although the port was free a moment ago");
    }
    port_ = port;
    return absl::OkStatus();
  }

  std::string address() const override { return WithPort(own_.host, port_); }

  grpc::ServerUnaryReactor* Deliver(grpc::CallbackServerContext* context, const Envelope* envelope,
                                    Delivered*) override {
    on_message_(*envelope);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const StatusRequest*,
                                   JobStatus* status) override {
    *status = get_status_();
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  void Send(const std::string& address, const Envelope& envelope) override {
    std::shared_ptr<Peer> peer;
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      std::shared_ptr<Peer>& slot = peers_[address];
      if (slot == nullptr) {
        slot = std::make_shared<Peer>();
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        slot->stub = Control::NewStub(NewChannel(address, security_, std::move(arguments)));
      }
      if (slot->under_way >= kMostUnderWay) return;
      ++slot->under_way;
      peer = slot;
    }
    struct Call {
      grpc::ClientContext context;
      Envelope envelope;
      Delivered delivered;
    };
    auto* const call = new Call;
    call->envelope = envelope;
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + kMessageTime));
    calls_->Begin(&call->context);
    peer->stub->async()->Deliver(
        &call->context, &call->envelope, &call->delivered,
        [this, call, peer, address, calls = calls_](const grpc::Status& status) {
          bool refused = absl::StrContains(status.error_message(), "Connection refused");
          {
            MutexLock lock(mu_);
            --peer->under_way;
            refused = refused && !stopped_;
          }
          if (refused) on_refused_(address);
          calls->Forget(&call->context);
          delete call;
          calls->End();
        });
  }

  void Stop() override {
    {
      MutexLock lock(mu_);
      if (std::exchange(stopped_, true)) return;
    }
    // The last words, such as that this process leaves, may still be under way.
    calls_->EndAll(absl::Milliseconds(200));
    if (server_ != nullptr) {
      server_->Shutdown(absl::ToChronoTime(absl::Now() + absl::Milliseconds(500)));
      server_->Wait();
    }
    MutexLock lock(mu_);
    peers_.clear();
  }

 private:
  struct Peer {
    std::unique_ptr<Control::Stub> stub;
    int under_way = 0;  // Guarded by mu_.
  };

  const HostPort own_;
  const std::string listen_host_;
  const Security security_;
  OnMessage on_message_;
  OnRefused on_refused_;
  GetStatus get_status_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  const std::shared_ptr<CallSet> calls_ = std::make_shared<CallSet>();
  Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, std::shared_ptr<Peer>> peers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlTransport>> NewGrpcTransport(
    const GrpcTransportOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(HostPort own, ParseHostPort(options.address));
  TANDEM_RETURN_IF_ERROR(CheckSecurity(options.security));
  std::string listen = ListenHost(own.host);
  if (!options.bind.empty()) {
    TANDEM_ASSIGN_OR_RETURN(listen, ResolveBindAddress(options.bind));
  }
  const std::string& place = options.bind.empty() ? own.host : listen;
  const char* const variable = std::getenv("TANDEM_INSECURE");
  const bool may_be_open =
      options.insecure || (variable != nullptr && absl::string_view(variable) == "1");
  if (!IsLoopback(place) && !options.security.ServesTls() && options.security.token.empty() &&
      !may_be_open) {
    return errors::FailedPrecondition(
        "the membership service would listen on ", place,
        ", where others can reach it, without TLS (TANDEM_TLS_CERT, TANDEM_TLS_KEY, TANDEM_TLS_CA) "
        "and without a token (TANDEM_TOKEN); set them, or say that it may (TANDEM_INSECURE=1)");
  }
  return std::make_unique<GrpcTransport>(std::move(own), std::move(listen), options.security);
}

absl::StatusOr<JobStatus> AskStatus(const std::string& address, const Security& security,
                                    absl::Duration timeout) {
  TANDEM_RETURN_IF_ERROR(ParseHostPort(address).status());
  const auto stub = Control::NewStub(NewChannel(address, security));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  JobStatus status;
  const grpc::Status result = stub->Status(&context, StatusRequest(), &status);
  if (result.ok()) return status;
  return WithContext(ExplainConnection(FromGrpc(result), security.ConnectsWithTls()),
                     absl::StrCat("the member at ", address));
}

}  // namespace tandem::membership
