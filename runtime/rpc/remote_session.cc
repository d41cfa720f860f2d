#include "runtime/rpc/remote_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "core/tensor/tensor_proto.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/call_set.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

using tensorflow::MasterService;

constexpr absl::Duration kControlTimeout = absl::Seconds(30);
// How much longer than a step's own limit the call may take: the server's answer says more than
// gRPC's.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);

void SetDeadline(absl::Duration timeout, grpc::ClientContext* context) {
  if (timeout == absl::InfiniteDuration()) return;
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

class RemoteSession final : public Session {
 public:
  RemoteSession(std::string target, const std::string& address, const Security& security,
                Graph graph, std::shared_ptr<SessionDevices> devices)
      : target_(std::move(target)),
        with_tls_(security.ConnectsWithTls()),
        channel_(ConnectToServer(address, security)),
        stub_(MasterService::NewStub(channel_)),
        devices_(std::move(devices)),
        graph_(std::move(graph)) {}

  ~RemoteSession() override {
    if (!handle_.empty()) {
      tensorflow::CloseSessionRequest request;
      request.set_session_handle(handle_);
      Tell<tensorflow::CloseSessionRequest, tensorflow::CloseSessionResponse>(
          std::move(request), [](MasterService::Stub& stub, auto* tell, auto done) {
            stub.async()->CloseSession(&tell->context, &tell->request, &tell->response, done);
          });
    }
    constexpr absl::Duration kGrace = absl::Seconds(2);
    calls_->EndAll(kGrace);
  }

  absl::Status Open(const RemoteSessionOptions& options) {
    tensorflow::CreateSessionRequest request;
    {
      MutexLock lock(graph_mu_);
      TANDEM_RETURN_IF_ERROR(ExportGraphDef(graph_, {}, request.mutable_graph_def()));
    }
    tensorflow::ConfigProto& config = *request.mutable_config();
    config.set_allow_soft_placement(options.soft_placement);
    config.set_isolate_session_state(options.isolated);
    for (const std::string& filter : options.device_filters) config.add_device_filters(filter);
    request.set_target(target_);
    tensorflow::CreateSessionResponse response;
    absl::Status status = TryToOpen(options, request, /*wait=*/false, &response);
    // Waits for a server that is not there, but not long for one that will have nothing to do with
    // this client; it may be about to end, or to begin.
    constexpr absl::Duration kTimeToChangeItsMind = absl::Seconds(2);
    if (IsNotConnected(status) &&
        (!MayBeTlsMismatch(status) ||
         channel_->WaitForConnected(absl::ToChronoTime(
             absl::Now() + std::min(options.start_timeout, kTimeToChangeItsMind))))) {
      status = TryToOpen(options, request, /*wait=*/true, &response);
    }
    TANDEM_RETURN_IF_ERROR(StatusOf(status));
    if (response.session_handle().empty()) {
      return errors::Internal(target_, " made a session without a handle");
    }
    handle_ = response.session_handle();
    MutexLock lock(graph_mu_);
    version_ = response.graph_version();
    return absl::OkStatus();
  }

  absl::Status TryToOpen(const RemoteSessionOptions& options,
                         const tensorflow::CreateSessionRequest& request, bool wait,
                         tensorflow::CreateSessionResponse* response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(wait);
    SetDeadline(options.start_timeout, &context);
    return FromGrpc(stub_->CreateSession(&context, request, response));
  }

  absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets,
                                          RunMetadata* metadata) override {
    tensorflow::RunStepRequest request;
    for (const auto& [name, value] : feeds) {
      tensorflow::NamedTensorProto* const feed = request.add_feed();
      feed->set_name(name);
      const absl::Status status =
          TensorToProto(value, feed->mutable_tensor(), TensorProtoForm::kContent);
      if (!status.ok()) return WithContext(status, absl::StrCat("feed '", name, "'"));
    }
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    for (const std::string& target : targets) request.add_target(target);
    return RunAndWait(options, [&](const RunOptions& started, Callable::Done done) {
      StartStep(std::move(request), started, metadata, std::move(done));
    });
  }

  absl::StatusOr<std::unique_ptr<Callable>> MakeCallable(const RunSignature& signature) override;

  absl::Status Extend(const std::function<absl::Status(Graph& graph)>& extend) override {
    if (!extend) return errors::InvalidArgument("there is nothing to extend the graph with");
    MutexLock lock(graph_mu_);
    Graph extended = graph_.Clone();
    extended.set_shared_functions(graph_.functions().Clone());
    const int first_new = extended.id_limit();
    TANDEM_RETURN_IF_ERROR(extend(extended));
    tensorflow::ExtendSessionRequest request;
    request.set_session_handle(handle_);
    request.set_current_graph_version(version_);
    for (const Node* node : extended.nodes()) {
      if (node->id() < first_new) continue;
      TANDEM_RETURN_IF_ERROR(NodeToProto(*node, {}, request.mutable_graph_def()->add_node()));
    }
    LibraryToProto(extended.functions(), request.mutable_graph_def()->mutable_library());
    grpc::ClientContext context;
    SetDeadline(kControlTimeout, &context);
    tensorflow::ExtendSessionResponse response;
    TANDEM_RETURN_IF_ERROR(StatusOf(FromGrpc(stub_->ExtendSession(&context, request, &response))));
    version_ = response.new_graph_version();
    graph_ = std::move(extended);
    return absl::OkStatus();
  }

  std::vector<std::pair<std::string, Tensor>> RandomPositions() override { return {}; }
  absl::Status SetRandomPosition(const std::string& op, const Tensor&) override {
    return errors::Unimplemented("the position of '", op, "' stays on the server ", target_);
  }

  DeviceSet& devices() override { return devices_->devices(); }
  const std::shared_ptr<SessionDevices>& session_devices() const override { return devices_; }

  void Close(const absl::Status& reason) override { all_runs_.Cancel(reason); }

 private:
  class RemoteCallable;

  // Something that the server is told, whatever it answers.
  template <typename Request, typename Response>
  struct TellCall {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  template <typename Request, typename Response, typename Start>
  void Tell(Request request, Start start) {
    auto* const tell = new TellCall<Request, Response>;
    tell->request = std::move(request);
    SetDeadline(kControlTimeout, &tell->context);
    calls_->Begin(&tell->context);
    start(*stub_, tell, [tell, calls = calls_](const grpc::Status&) {
      calls->Forget(&tell->context);
      delete tell;
      calls->End();
    });
  }

  // A call that runs a step; deletes itself when it is over.
  template <typename Request, typename Response>
  struct StepCall {
    Request request;
    Response response;
    grpc::ClientContext context;
    // The session's and the caller's end; ended before the caller knows.
    std::optional<CancellationManager> cancellation;
    CancellationManager* outer = nullptr;
    CancellationManager::Token token = 0;
    CancellationManager::Token outer_token = 0;

    std::shared_ptr<CallSet> calls;

    // Cancels the call with the session or the caller. False: that has happened already.
    bool Watch(std::shared_ptr<CallSet> of_session, CancellationManager* all_runs,
               CancellationManager* caller) {
      calls = std::move(of_session);
      calls->Begin(&context);
      cancellation.emplace(all_runs);
      token = cancellation->NewToken();
      if (!cancellation->Register(token, [this] { context.TryCancel(); })) return false;
      if (caller == nullptr) return true;
      outer_token = caller->NewToken();
      if (!caller->Register(outer_token,
                            [this, caller] { cancellation->Cancel(caller->status()); })) {
        cancellation->Cancel(caller->status());
        return false;
      }
      outer = caller;
      return true;
    }
    // Deletes the call, and hands `results` on.
    template <typename Done>
    void HandOn(absl::StatusOr<std::vector<Tensor>> results, Done& done) {
      const std::shared_ptr<CallSet> of_session = std::move(calls);
      of_session->Forget(&context);
      delete this;
      done(std::move(results));
      of_session->End();
    }
    // What the call ended with; nothing is watched any more.
    absl::Status End(const grpc::Status& status, const RemoteSession& session) {
      if (outer != nullptr) outer->Deregister(outer_token);
      cancellation->Deregister(token);
      absl::Status result = session.StatusOf(FromGrpc(status));
      if (!result.ok() && cancellation->IsCancelled()) result = cancellation->status();
      cancellation.reset();
      return result;
    }
  };

  // A step that is waited for, with a limit.
  template <typename Start>
  absl::StatusOr<std::vector<Tensor>> RunAndWait(const RunOptions& options, Start start) {
    absl::StatusOr<std::vector<Tensor>> results = errors::Internal("the step has not ended");
    Event ended;
    start(options, [&](absl::StatusOr<std::vector<Tensor>> values) {
      results = std::move(values);
      ended.Set();
    });
    ended.Wait();
    return results;
  }

  // `options` may have a timeout.
  void StartStep(tensorflow::RunStepRequest request, const RunOptions& options,
                 RunMetadata* metadata, Callable::Done done) {
    auto* const call = new StepCall<tensorflow::RunStepRequest, tensorflow::RunStepResponse>;
    call->request = std::move(request);
    call->request.set_session_handle(handle_);
    call->request.set_request_id(NewRequestId());
    call->request.set_store_errors_in_response_body(true);
    if (options.trace) {
      call->request.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    }
    if (options.timeout != absl::InfiniteDuration()) {
      call->request.mutable_options()->set_timeout_in_ms(
          std::max<int64_t>(1, absl::ToInt64Milliseconds(options.timeout)));
    }
    SetDeadline(options.timeout + kAnswerTime, &call->context);
    if (!call->Watch(calls_, &all_runs_, options.cancellation)) {
      const absl::Status reason = call->cancellation->status();
      (void)call->End(grpc::Status::CANCELLED, *this);
      call->HandOn(reason, done);
      return;
    }
    stub_->async()->RunStep(
        &call->context, &call->request, &call->response,
        [this, call, metadata,
         done = std::make_shared<Callable::Done>(std::move(done))](const grpc::Status& ended) {
          call->HandOn(TakeResults(*call, call->End(ended, *this), metadata), *done);
        });
  }

  static absl::StatusOr<std::vector<Tensor>> TakeResults(
      StepCall<tensorflow::RunStepRequest, tensorflow::RunStepResponse>& call, absl::Status status,
      RunMetadata* metadata) {
    TANDEM_RETURN_IF_ERROR(status);
    const tensorflow::RunStepResponse& response = call.response;
    if (metadata != nullptr && response.has_metadata()) {
      AppendEvents(response.metadata().step_stats(), &metadata->events);
    }
    if (response.status_code() != tensorflow::error::OK) {
      return absl::Status(static_cast<absl::StatusCode>(response.status_code()),
                          response.status_error_message());
    }
    // In any order, and each name once.
    std::map<absl::string_view, Tensor> by_name;
    for (const tensorflow::NamedTensorProto& named : response.tensor()) {
      absl::StatusOr<Tensor> value =
          CatchOutOfMemory([&] { return TensorFromProto(named.tensor()); });
      if (!value.ok()) {
        return WithContext(value.status(), absl::StrCat("fetch '", named.name(), "'"));
      }
      by_name[named.name()] = *std::move(value);
    }
    std::vector<Tensor> results;
    for (const std::string& fetch : call.request.fetch()) {
      const auto found = by_name.find(fetch);
      if (found == by_name.end()) {
        return errors::Internal("the server's answer has no value for the fetch '", fetch, "'");
      }
      results.push_back(found->second);
    }
    return results;
  }

  absl::Status StatusOf(const absl::Status& status) const {
    return WithContext(ExplainConnection(status, with_tls_), target_);
  }

  const std::string target_;
  const bool with_tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<MasterService::Stub> stub_;
  const std::shared_ptr<SessionDevices> devices_;
  const std::shared_ptr<CallSet> calls_ = std::make_shared<CallSet>();
  std::string handle_;  // Set once, by Open.
  CancellationManager all_runs_;
  Mutex graph_mu_;
  Graph graph_ ABSL_GUARDED_BY(graph_mu_);  // As the server knows it.
  int64_t version_ ABSL_GUARDED_BY(graph_mu_) = 0;
};

class RemoteSession::RemoteCallable final : public Session::Callable {
 public:
  RemoteCallable(RemoteSession* session, int64_t handle) : session_(*session), handle_(handle) {}

  ~RemoteCallable() override {
    tensorflow::ReleaseCallableRequest request;
    request.set_session_handle(session_.handle_);
    request.set_handle(handle_);
    session_.Tell<tensorflow::ReleaseCallableRequest, tensorflow::ReleaseCallableResponse>(
        std::move(request), [](MasterService::Stub& stub, auto* tell, auto done) {
          stub.async()->ReleaseCallable(&tell->context, &tell->request, &tell->response, done);
        });
  }

  absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> feeds, const RunOptions& options,
                                          RunMetadata* metadata) override {
    return session_.RunAndWait(options, [&](const RunOptions& started, Done done) {
      StartCall(std::move(feeds), started, metadata, std::move(done));
    });
  }

  void Start(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
             Done done) override {
    if (options.timeout != absl::InfiniteDuration()) {
      done(errors::InvalidArgument(
          "a run that is started without waiting has no deadline of its own; cancel it in time"));
      return;
    }
    StartCall(std::move(feeds), options, metadata, std::move(done));
  }

 private:
  void StartCall(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
                 Done done) {
    auto* const call =
        new StepCall<tensorflow::RunCallableRequest, tensorflow::RunCallableResponse>;
    call->request.set_session_handle(session_.handle_);
    call->request.set_handle(handle_);
    call->request.set_request_id(NewRequestId());
    for (size_t i = 0; i < feeds.size(); ++i) {
      const absl::Status status =
          TensorToProto(feeds[i], call->request.add_feed(), TensorProtoForm::kContent);
      if (status.ok()) continue;
      delete call;
      done(WithContext(status, absl::StrCat("feed ", i)));
      return;
    }
    // A callable's own limit was set when it was made.
    SetDeadline(options.timeout, &call->context);
    if (!call->Watch(session_.calls_, &session_.all_runs_, options.cancellation)) {
      const absl::Status reason = call->cancellation->status();
      (void)call->End(grpc::Status::CANCELLED, session_);
      call->HandOn(reason, done);
      return;
    }
    session_.stub_->async()->RunCallable(
        &call->context, &call->request, &call->response,
        [session = &session_, call, metadata,
         done = std::make_shared<Done>(std::move(done))](const grpc::Status& ended) {
          absl::Status status = call->End(ended, *session);
          std::vector<Tensor> results;
          for (const tensorflow::TensorProto& fetched : call->response.fetch()) {
            if (!status.ok()) break;
            absl::StatusOr<Tensor> value =
                CatchOutOfMemory([&] { return TensorFromProto(fetched); });
            status = value.status();
            if (status.ok()) results.push_back(*std::move(value));
          }
          if (metadata != nullptr && call->response.has_metadata()) {
            AppendEvents(call->response.metadata().step_stats(), &metadata->events);
          }
          if (status.ok()) {
            call->HandOn(std::move(results), *done);
          } else {
            call->HandOn(std::move(status), *done);
          }
        });
  }

  RemoteSession& session_;
  const int64_t handle_;
};

absl::StatusOr<std::unique_ptr<Session::Callable>> RemoteSession::MakeCallable(
    const RunSignature& signature) {
  tensorflow::MakeCallableRequest request;
  request.set_session_handle(handle_);
  request.set_request_id(NewRequestId());
  for (const std::string& feed : signature.feeds) request.mutable_options()->add_feed(feed);
  for (const std::string& fetch : signature.fetches) request.mutable_options()->add_fetch(fetch);
  for (const std::string& target : signature.targets) {
    request.mutable_options()->add_target(target);
  }
  grpc::ClientContext context;
  SetDeadline(kControlTimeout, &context);
  tensorflow::MakeCallableResponse response;
  TANDEM_RETURN_IF_ERROR(StatusOf(FromGrpc(stub_->MakeCallable(&context, request, &response))));
  return std::make_unique<RemoteCallable>(this, response.handle());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> ConnectSession(const std::string& target,
                                                        const Graph& graph,
                                                        const RemoteSessionOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const std::string address, AddressOfTarget(target));
  TANDEM_ASSIGN_OR_RETURN(const Security security, SecurityOrEnvironment(options.security));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  Graph own = graph.Clone();
  own.set_shared_functions(graph.functions().Clone());
  auto session =
      std::make_unique<RemoteSession>(target, address, security, std::move(own),
                                      std::make_shared<SessionDevices>(std::move(devices)));
  TANDEM_RETURN_IF_ERROR(session->Open(options));
  return std::unique_ptr<Session>(std::move(session));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const std::string& target,
                                                         const Graph& graph) {
  return ConnectSession(target, graph);
}

}  // namespace tandem
