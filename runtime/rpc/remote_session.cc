#include "runtime/rpc/remote_session.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
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
#include "runtime/rpc/step_call.h"
#include "runtime/rpc/step_messages.h"
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
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    for (const std::string& target : targets) request.add_target(target);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value] : feeds) tensors.push_back({name, value});
    return RunAndWait(options, [&](const RunOptions& started, Callable::Done done) {
      StartStep(std::move(request), std::move(tensors), started, metadata, std::move(done));
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
  void StartStep(tensorflow::RunStepRequest request, std::vector<NamedTensor> feeds,
                 const RunOptions& options, RunMetadata* metadata, Callable::Done done) {
    request.set_session_handle(handle_);
    request.set_request_id(NewRequestId());
    request.set_store_errors_in_response_body(true);
    if (options.trace)
      request.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    if (options.timeout != absl::InfiniteDuration()) {
      request.mutable_options()->set_timeout_in_ms(
          std::max<int64_t>(1, absl::ToInt64Milliseconds(options.timeout)));
    }
    absl::StatusOr<grpc::ByteBuffer> encoded =
        EncodeStepMessage(request, kRunStepFeeds, "feed", std::move(feeds));
    if (!encoded.ok()) {
      done(encoded.status());
      return;
    }
    StartStepCall(
        channel_, calls_,
        CallOptionsOf("/tensorflow.MasterService/RunStep", options.timeout + kAnswerTime, options),
        *std::move(encoded),
        [this, metadata,
         fetches = std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
         done = std::move(done)](absl::StatusOr<grpc::ByteBuffer> response) mutable {
          done(TakeResults(fetches, std::move(response), metadata));
        });
  }

  StepCallOptions CallOptionsOf(const char* path, absl::Duration timeout,
                                const RunOptions& options) {
    StepCallOptions call;
    call.path = path;
    if (timeout != absl::InfiniteDuration()) call.deadline = absl::Now() + timeout;
    call.session = &all_runs_;
    call.caller = options.cancellation;
    call.explain = [this](const absl::Status& status) { return StatusOf(status); };
    return call;
  }

  absl::StatusOr<std::vector<Tensor>> TakeResults(const std::vector<std::string>& fetches,
                                                  absl::StatusOr<grpc::ByteBuffer> bytes,
                                                  RunMetadata* metadata) const {
    TANDEM_RETURN_IF_ERROR(bytes.status());
    tensorflow::RunStepResponse response;
    TANDEM_ASSIGN_OR_RETURN(std::vector<ReadTensor> tensors,
                            Decode(&*bytes, kRunStepResults, &response));
    if (metadata != nullptr && response.has_metadata()) {
      AppendEvents(response.metadata().step_stats(), &metadata->events);
    }
    if (response.status_code() != tensorflow::error::OK) {
      return ExplainLostSession(absl::Status(static_cast<absl::StatusCode>(response.status_code()),
                                             response.status_error_message()));
    }
    // In any order, and each name once.
    std::map<std::string, Tensor> by_name;
    for (ReadTensor& read : tensors) {
      std::string name = std::move(read.name);
      absl::StatusOr<Tensor> value = CatchOutOfMemory([&] { return ValueOf(std::move(read)); });
      if (!value.ok()) return WithContext(value.status(), absl::StrCat("fetch '", name, "'"));
      by_name[std::move(name)] = *std::move(value);
    }
    std::vector<Tensor> results;
    for (const std::string& fetch : fetches) {
      const auto found = by_name.find(fetch);
      if (found == by_name.end()) {
        return errors::Internal("the server's answer has no value for the fetch '", fetch, "'");
      }
      results.push_back(found->second);
    }
    return results;
  }

  static absl::StatusOr<std::vector<ReadTensor>> Decode(grpc::ByteBuffer* bytes, TensorField field,
                                                        google::protobuf::MessageLite* response) {
    return CatchOutOfMemory([&] {
      return DecodeStepMessage(bytes, field, std::numeric_limits<size_t>::max(), response);
    });
  }

  // A server that does not know the session says only that.
  absl::Status ExplainLostSession(const absl::Status& status) const {
    if (!absl::IsAborted(status) || !absl::StrContains(status.message(), handle_) ||
        !absl::StrContains(status.message(), "is not found")) {
      return status;
    }
    return errors::Aborted(status.message(), " The server at ", target_,
                           " was restarted or reset, or has closed the session: its graph is gone, "
                           "and after a restart the variables of that task, too. Make a new "
                           "session, and initialize or restore what was lost");
  }

  absl::Status StatusOf(const absl::Status& status) const {
    return WithContext(ExplainLostSession(ExplainConnection(status, with_tls_)), target_);
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
    tensorflow::RunCallableRequest request;
    request.set_session_handle(session_.handle_);
    request.set_handle(handle_);
    request.set_request_id(NewRequestId());
    std::vector<NamedTensor> tensors;
    for (Tensor& feed : feeds) tensors.push_back({"", std::move(feed)});
    absl::StatusOr<grpc::ByteBuffer> encoded =
        EncodeStepMessage(request, kRunCallableFeeds, "feed", std::move(tensors));
    if (!encoded.ok()) {
      done(encoded.status());
      return;
    }
    // A callable's own limit was set when it was made.
    StartStepCall(
        session_.channel_, session_.calls_,
        session_.CallOptionsOf("/tensorflow.MasterService/RunCallable", options.timeout, options),
        *std::move(encoded),
        [metadata, done = std::move(done)](absl::StatusOr<grpc::ByteBuffer> response) mutable {
          done(TakeResults(std::move(response), metadata));
        });
  }

  static absl::StatusOr<std::vector<Tensor>> TakeResults(absl::StatusOr<grpc::ByteBuffer> bytes,
                                                         RunMetadata* metadata) {
    TANDEM_RETURN_IF_ERROR(bytes.status());
    tensorflow::RunCallableResponse response;
    TANDEM_ASSIGN_OR_RETURN(std::vector<ReadTensor> tensors,
                            Decode(&*bytes, kRunCallableResults, &response));
    if (metadata != nullptr && response.has_metadata()) {
      AppendEvents(response.metadata().step_stats(), &metadata->events);
    }
    std::vector<Tensor> results;
    for (ReadTensor& read : tensors) {
      TANDEM_ASSIGN_OR_RETURN(Tensor value,
                              CatchOutOfMemory([&] { return ValueOf(std::move(read)); }));
      results.push_back(std::move(value));
    }
    return results;
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
