#include "runtime/parameter_server/service_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/parameter_server/wire.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

// What is sent, and where the answer comes.
struct Exchange {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

// The second of a call that comes twice; nobody waits for its answer.
void SendBeside(const std::shared_ptr<grpc::Channel>& channel,
                const std::shared_ptr<CallSet>& calls, const std::string& path,
                const grpc::ByteBuffer& request, absl::Time deadline) {
  auto* const exchange = new Exchange;
  exchange->request = request;
  if (deadline != absl::InfiniteFuture()) {
    exchange->context.set_deadline(absl::ToChronoTime(deadline));
  }
  calls->Begin(&exchange->context);
  Stub(channel).UnaryCall(&exchange->context, path, grpc::StubOptions(), &exchange->request,
                          &exchange->response, [exchange, calls](const grpc::Status&) {
                            calls->Forget(&exchange->context);
                            delete exchange;
                            calls->End();
                          });
}

// Whether the server has, or may have, not answered; what it says itself has details.
bool IsUnanswered(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return true;
  // A server that ends says so to calls in these words.
  return status.error_code() == grpc::StatusCode::CANCELLED && status.error_details().empty() &&
         (status.error_message().empty() || status.error_message() == "CANCELLED");
}

}  // namespace

// One call with its repetitions; deletes itself when it is over.
class ServiceClient::RepeatedCall {
 public:
  RepeatedCall(ServiceClient* client, const char* method, grpc::ByteBuffer request,
               const ServiceCallOptions& options, Done done)
      : client_(*client),
        calls_(client->calls_),
        method_(method),
        path_(absl::StrCat("/tandem.parameter_server.ParameterService/", method)),
        request_(std::move(request)),
        options_(options),
        done_(std::move(done)) {}

  void Start() {
    calls_->Begin();
    if (options_.cancellation != nullptr) {
      token_ = options_.cancellation->NewToken();
      if (!options_.cancellation->Register(token_, [this] { Cancel(); })) {
        Finish(options_.cancellation->status());
        return;
      }
      is_registered_ = true;
    }
    Send();
  }

 private:
  void Cancel() {
    MutexLock lock(mu_);
    is_cancelled_ = true;
    // Neither ends the call on this thread.
    if (exchange_ != nullptr) exchange_->context.TryCancel();
    if (alarm_ != nullptr) alarm_->Cancel();
  }

  void Send() {
    CallFaults::Decision fault;
    if (client_.faults_ != nullptr) fault = client_.faults_->Next(method_);
    if (fault.loses_request) {
      TryAgain(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the request was lost on purpose"));
      return;
    }
    if (fault.comes_twice) {
      SendBeside(client_.channel_, calls_, path_, request_, options_.deadline);
    }
    auto exchange = std::make_unique<Exchange>();
    exchange->request = request_;
    if (options_.deadline != absl::InfiniteFuture()) {
      exchange->context.set_deadline(absl::ToChronoTime(options_.deadline));
    }
    Exchange& sent = *exchange;
    {
      MutexLock lock(mu_);
      exchange_ = std::move(exchange);
      // A call that is cancelled before it begins ends as soon as it does.
      if (is_cancelled_) sent.context.TryCancel();
    }
    calls_->Begin(&sent.context);
    Stub(client_.channel_)
        .UnaryCall(&sent.context, path_, grpc::StubOptions(), &sent.request, &sent.response,
                   [this, loses = fault.loses_answer](const grpc::Status& status) {
                     Answered(loses ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                                   "the answer was lost on purpose")
                                    : status);
                   });
  }

  void Answered(const grpc::Status& status) {
    const std::shared_ptr<CallSet> calls = calls_;
    std::unique_ptr<Exchange> exchange;
    {
      MutexLock lock(mu_);
      exchange = std::move(exchange_);
    }
    calls->Forget(&exchange->context);
    // Each of these may delete this.
    if (status.ok()) {
      Finish(std::move(exchange->response));
    } else if (IsUnanswered(status)) {
      TryAgain(status);
    } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
               status.error_details().empty()) {
      Finish(errors::DeadlineExceeded("the parameter server at ", client_.address_,
                                      " did not answer ", method_, " for ", Waited()));
    } else {
      Finish(WithContext(FromGrpc(status), client_.address_));
    }
    exchange.reset();
    calls->End();
  }

  void TryAgain(const grpc::Status& status) {
    if (options_.once || client_.ends_.load() || absl::Now() + pause_ >= options_.deadline) {
      Finish(errors::Unavailable("the parameter server at ", client_.address_,
                                 " cannot be reached (", method_, ", tried for ", Waited(), "): ",
                                 ExplainConnection(FromGrpc(status), client_.with_tls_).message()));
      return;
    }
    {
      MutexLock lock(mu_);
      if (!is_cancelled_) {
        // A new one each time: the last one's callback may not have returned yet.
        alarm_ = std::make_unique<grpc::Alarm>();
        alarm_->Set(absl::ToChronoTime(absl::Now() + pause_), [this](bool) { PauseEnded(); });
        pause_ = std::min(pause_ * 1.6, kLongestPause);
        return;
      }
    }
    Finish(options_.cancellation->status());
  }

  void PauseEnded() {
    bool is_cancelled = false;
    {
      MutexLock lock(mu_);
      is_cancelled = is_cancelled_;
    }
    if (is_cancelled) {
      Finish(options_.cancellation->status());
    } else {
      Send();
    }
  }

  void Finish(absl::StatusOr<grpc::ByteBuffer> result) {
    if (is_registered_) {
      options_.cancellation->Deregister(token_);
      if (!result.ok() && options_.cancellation->IsCancelled()) {
        result = options_.cancellation->status();
      }
    }
    done_(std::move(result));
    const std::shared_ptr<CallSet> calls = calls_;
    delete this;
    calls->End();
  }

  std::string Waited() const {
    return absl::FormatDuration(absl::Trunc(absl::Now() - began_, absl::Milliseconds(1)));
  }

  ServiceClient& client_;
  const std::shared_ptr<CallSet> calls_;
  const char* const method_;
  const std::string path_;
  const grpc::ByteBuffer request_;
  const ServiceCallOptions options_;
  Done done_;
  const absl::Time began_ = absl::Now();
  absl::Duration pause_ = kFirstPause;
  bool is_registered_ = false;
  CancellationManager::Token token_ = 0;
  Mutex mu_;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Exchange> exchange_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
};

ServiceClient::ServiceClient(std::string address, const Security& security,
                             std::shared_ptr<CallFaults> faults,
                             absl::optional<size_t> least_lent_bytes)
    : address_(std::move(address)),
      with_tls_(security.ConnectsWithTls()),
      faults_(std::move(faults)),
      channel_([&] {
        grpc::ChannelArguments arguments;
        // Several servers in one process do not share connections.
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        return NewChannel(address_, security, std::move(arguments));
      }()),
      calls_(std::make_shared<CallSet>()),
      link_(least_lent_bytes.has_value() && !with_tls_
                ? std::make_unique<ServerLink>(address_, channel_, calls_, *least_lent_bytes)
                : nullptr) {}

absl::StatusOr<std::shared_ptr<ServiceClient>> ServiceClient::Create(
    const std::string& address, const Security& security, std::shared_ptr<CallFaults> faults,
    absl::optional<size_t> least_lent_bytes) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return errors::InvalidArgument("the address of a parameter server, '", address,
                                   "': ", parsed.status().message());
  }
  return std::shared_ptr<ServiceClient>(
      new ServiceClient(address, security, std::move(faults), least_lent_bytes));
}

ServiceClient::~ServiceClient() {
  ends_.store(true);
  calls_->EndAll(/*grace=*/absl::ZeroDuration());
}

void ServiceClient::Call(const char* method, grpc::ByteBuffer request,
                         const ServiceCallOptions& options, Done done) {
  (new RepeatedCall(this, method, std::move(request), options, std::move(done)))->Start();
}

absl::StatusOr<grpc::ByteBuffer> ServiceClient::CallAndWait(const char* method,
                                                            grpc::ByteBuffer request,
                                                            const ServiceCallOptions& options) {
  Event ended;
  absl::StatusOr<grpc::ByteBuffer> result = errors::Internal("the call has not ended");
  Call(method, std::move(request), options, [&](absl::StatusOr<grpc::ByteBuffer> answer) {
    result = std::move(answer);
    ended.Set();
  });
  // The call has a deadline, or is cancelled.
  ended.Wait();
  return result;
}

absl::Status ServiceClient::CallAndWait(const char* method,
                                        const google::protobuf::MessageLite& request,
                                        const ServiceCallOptions& options,
                                        google::protobuf::MessageLite* response) {
  TANDEM_ASSIGN_OR_RETURN(grpc::ByteBuffer answer,
                          CallAndWait(method, WholeMessage(request), options));
  TANDEM_RETURN_IF_ERROR(WithContext(ParseMessage(&answer, response), address_));
  return absl::OkStatus();
}

}  // namespace tandem::parameter_server
