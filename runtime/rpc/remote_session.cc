#include "runtime/rpc/remote_session.h"

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>
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
#include "runtime/rpc/remote_step.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/server_link.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/step_call.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/tell_queue.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

using tensorflow::MasterService;

constexpr absl::Duration kControlTimeout = absl::Seconds(30);
// How much longer than a step's own limit the call may take: the server's answer says more than
// gRPC's.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);
// How long what ends here waits for the server to hear of it.
constexpr absl::Duration kGrace = absl::Seconds(2);

void SetDeadline(absl::Duration timeout, grpc::ClientContext* context) {
  if (timeout == absl::InfiniteDuration()) return;
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

// Of a step by its request's names, which come in any order, and each once.
absl::StatusOr<std::vector<Tensor>> ResultsOf(const tensorflow::RunStepRequest& request,
                                              std::vector<ReadTensor> tensors) {
  std::map<std::string, Tensor> by_name;
  for (ReadTensor& read : tensors) {
    std::string name = std::move(read.name);
    absl::StatusOr<Tensor> value = CatchOutOfMemory([&] { return ValueOf(std::move(read)); });
    if (!value.ok()) return WithContext(value.status(), absl::StrCat("fetch '", name, "'"));
    by_name[std::move(name)] = *std::move(value);
  }
  std::vector<Tensor> results;
  for (const std::string& fetch : request.fetch()) {
    const auto found = by_name.find(fetch);
    if (found == by_name.end()) {
      return errors::Internal("the server's answer has no value for the fetch '", fetch, "'");
    }
    results.push_back(found->second);
  }
  return results;
}

absl::StatusOr<std::vector<Tensor>> ResultsOf(const tensorflow::RunCallableRequest&,
                                              std::vector<ReadTensor> tensors) {
  std::vector<Tensor> results;
  for (ReadTensor& read : tensors) {
    TANDEM_ASSIGN_OR_RETURN(Tensor value,
                            CatchOutOfMemory([&] { return ValueOf(std::move(read)); }));
    results.push_back(std::move(value));
  }
  return results;
}

// The error of the step that the answer's body holds.
absl::Status StatusIn(const tensorflow::RunStepResponse& response) {
  return absl::Status(static_cast<absl::StatusCode>(response.status_code()),
                      response.status_error_message());
}
absl::Status StatusIn(const tensorflow::RunCallableResponse&) { return absl::OkStatus(); }

class RemoteSession final : public Session {
 public:
  RemoteSession(std::string target, const std::string& address, const Security& security,
                Graph graph, std::shared_ptr<SessionDevices> devices,
                const RemoteSessionOptions& options)
      : target_(std::move(target)),
        with_tls_(security.ConnectsWithTls()),
        channel_(ConnectToServer(address, security)),
        stub_(MasterService::NewStub(channel_)),
        devices_(std::move(devices)),
        link_(options.host_transfers == HostTransfers::kOff || with_tls_
                  ? nullptr
                  : std::make_unique<ServerLink>(target_, channel_, calls_,
                                                 options.least_host_transfer_bytes)),
        graph_(std::move(graph)) {}

  ~RemoteSession() override {
    if (!handle_.empty()) {
      tensorflow::CloseSessionRequest request;
      request.set_session_handle(handle_);
      tells_.Tell<tensorflow::CloseSessionResponse>(
          absl::Now() + kControlTimeout, [&](grpc::ClientContext* context, auto* queue) {
            return stub_->PrepareAsyncCloseSession(context, request, queue);
          });
    }
    tells_.EndAll(absl::Now() + kGrace);
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
    if (link_ != nullptr && options.host_transfer_wait > absl::ZeroDuration()) {
      (void)link_->WaitUntilConnected(absl::Now() + options.host_transfer_wait);
    }
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
    AddOptions(options, &request);
    RemoteStep<RunStepWire> step(link_.get(), std::move(request), NamedTensors(feeds),
                                 fetches.size());
    return WaitFor(step, CallOptionsOf<RunStepWire>(options), metadata);
  }

  absl::StatusOr<std::unique_ptr<Callable>> MakeCallable(const RunSignature& signature) override;
  absl::StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(
      const RunSignature& signature) override;

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
  class RemotePartialRun;

  static std::vector<NamedTensor> NamedTensors(const Feeds& feeds) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value] : feeds) tensors.push_back({name, value});
    return tensors;
  }

  void AddOptions(const RunOptions& options, tensorflow::RunStepRequest* request) const {
    request->set_session_handle(handle_);
    request->set_store_errors_in_response_body(true);
    if (options.trace) {
      request->mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    }
    if (options.timeout != absl::InfiniteDuration()) {
      request->mutable_options()->set_timeout_in_ms(
          std::max<int64_t>(1, absl::ToInt64Milliseconds(options.timeout)));
    }
  }

  template <typename Wire>
  StepCallOptions CallOptionsOf(const RunOptions& options) {
    StepCallOptions call;
    call.path = Wire::kPath;
    // A step's own limit is the server's affair, a callable's was set when it was made.
    const absl::Duration limit =
        std::is_same_v<Wire, RunStepWire> ? options.timeout + kAnswerTime : options.timeout;
    if (limit != absl::InfiniteDuration()) call.deadline = absl::Now() + limit;
    call.session = &all_runs_;
    call.caller = options.cancellation;
    call.explain = [this](const absl::Status& status) { return StatusOf(status); };
    return call;
  }

  // What an answer says. `is_over`: of a partial run, whether the server said so; may be null.
  template <typename Wire>
  absl::StatusOr<std::vector<Tensor>> TakeResults(
      const RemoteStep<Wire>& step, absl::StatusOr<typename RemoteStep<Wire>::Answer> answer,
      RunMetadata* metadata, bool* is_over) const {
    TANDEM_RETURN_IF_ERROR(answer.status());
    if (is_over != nullptr) *is_over = answer->extras.partial_run_is_over();
    if (metadata != nullptr && answer->rest.has_metadata()) {
      AppendEvents(answer->rest.metadata().step_stats(), &metadata->events);
    }
    const absl::Status status = StatusIn(answer->rest);
    if (!status.ok()) return ExplainLostSession(status);
    return ResultsOf(step.request(), std::move(answer->tensors));
  }

  // Runs a step on the calling thread.
  template <typename Wire>
  absl::StatusOr<std::vector<Tensor>> WaitFor(RemoteStep<Wire>& step, const StepCallOptions& call,
                                              RunMetadata* metadata, bool* is_over = nullptr) {
    for (;;) {
      TANDEM_ASSIGN_OR_RETURN(const grpc::ByteBuffer request, step.Encode());
      auto answer = step.Decode(WaitForStepCall(channel_, calls_.get(), call, request));
      if (answer.has_value()) return TakeResults(step, *std::move(answer), metadata, is_over);
    }
  }

  // `done` is also told what TakeResults says of a partial run.
  using StepDone = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>, bool is_over)>;
  template <typename Wire>
  void Start(std::shared_ptr<RemoteStep<Wire>> step, StepCallOptions call, RunMetadata* metadata,
             StepDone done) {
    absl::StatusOr<grpc::ByteBuffer> request = step->Encode();
    if (!request.ok()) {
      done(request.status(), false);
      return;
    }
    StartStepCall(channel_, calls_, call, *std::move(request),
                  [this, step = std::move(step), call, metadata,
                   done = std::move(done)](absl::StatusOr<grpc::ByteBuffer> response) mutable {
                    auto answer = step->Decode(std::move(response));
                    if (!answer.has_value()) {
                      Start(std::move(step), call, metadata, std::move(done));
                      return;
                    }
                    bool is_over = false;
                    absl::StatusOr<std::vector<Tensor>> results =
                        TakeResults(*step, *std::move(answer), metadata, &is_over);
                    done(std::move(results), is_over);
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
  const std::unique_ptr<ServerLink> link_;  // Null: values go in messages.
  TellQueue tells_;
  std::string handle_;  // Set once, by Open.
  CancellationManager all_runs_;
  Mutex graph_mu_;
  Graph graph_ ABSL_GUARDED_BY(graph_mu_);  // As the server knows it.
  int64_t version_ ABSL_GUARDED_BY(graph_mu_) = 0;
};

class RemoteSession::RemoteCallable final : public Session::Callable {
 public:
  RemoteCallable(RemoteSession* session, int64_t handle, size_t fetches)
      : session_(*session), handle_(handle), fetches_(fetches) {}

  ~RemoteCallable() override {
    tensorflow::ReleaseCallableRequest request;
    request.set_session_handle(session_.handle_);
    request.set_handle(handle_);
    session_.tells_.Tell<tensorflow::ReleaseCallableResponse>(
        absl::Now() + kControlTimeout, [&](grpc::ClientContext* context, auto* queue) {
          return session_.stub_->PrepareAsyncReleaseCallable(context, request, queue);
        });
  }

  absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> feeds, const RunOptions& options,
                                          RunMetadata* metadata) override {
    RemoteStep<RunCallableWire> step = NewStep(std::move(feeds));
    return session_.WaitFor(step, session_.CallOptionsOf<RunCallableWire>(options), metadata);
  }

  void Start(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
             Done done) override {
    if (options.timeout != absl::InfiniteDuration()) {
      done(errors::InvalidArgument(
          "a run that is started without waiting has no deadline of its own; cancel it in time"));
      return;
    }
    session_.Start(std::make_shared<RemoteStep<RunCallableWire>>(NewStep(std::move(feeds))),
                   session_.CallOptionsOf<RunCallableWire>(options), metadata,
                   [done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results,
                                            bool) mutable { done(std::move(results)); });
  }

 private:
  RemoteStep<RunCallableWire> NewStep(std::vector<Tensor> feeds) const {
    tensorflow::RunCallableRequest request;
    request.set_session_handle(session_.handle_);
    request.set_handle(handle_);
    std::vector<NamedTensor> tensors;
    for (Tensor& feed : feeds) tensors.push_back({"", std::move(feed)});
    return {session_.link_.get(), std::move(request), std::move(tensors), fetches_};
  }

  RemoteSession& session_;
  const int64_t handle_;
  const size_t fetches_;
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
  return std::make_unique<RemoteCallable>(this, response.handle(), signature.fetches.size());
}

class RemoteSession::RemotePartialRun final : public Session::PartialRun {
 public:
  RemotePartialRun(RemoteSession* session, std::string handle, const RunSignature& signature)
      : session_(*session), handle_(std::move(handle)) {
    for (const std::string& name : signature.feeds) feeds_left_.insert(WithIndex(name));
    for (const std::string& name : signature.fetches) fetches_left_.insert(WithIndex(name));
  }

  ~RemotePartialRun() override {
    {
      MutexLock lock(mu_);
      if (server_is_done_) return;
    }
    RemoteStep<RunStepWire> step = EndStep();
    session_.WaitFor(step, EndOptions(), nullptr).status().IgnoreError();
  }

  absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          RunMetadata* metadata) override {
    TANDEM_RETURN_IF_ERROR(CheckNotOver());
    CancellationManager cancellation(&cancellation_);
    const CallerCancels caller(options.cancellation, &cancellation);
    RunOptions ended = options;
    ended.cancellation = &cancellation;
    RemoteStep<RunStepWire> step = NewStep(options, feeds, fetches);
    bool is_over = false;
    absl::StatusOr<std::vector<Tensor>> results =
        session_.WaitFor(step, session_.CallOptionsOf<RunStepWire>(ended), metadata, &is_over);
    Note(feeds, fetches, results.status(), is_over);
    return results;
  }

  void Start(const RunOptions& options, Feeds feeds, std::vector<std::string> fetches,
             RunMetadata* metadata, Callable::Done done) override {
    if (options.timeout != absl::InfiniteDuration()) {
      done(errors::InvalidArgument(
          "a run that is started without waiting has no deadline of its own; cancel it in time"));
      return;
    }
    if (const absl::Status status = CheckNotOver(); !status.ok()) {
      done(status);
      return;
    }
    // Of the call: ended by the caller, and with the run.
    struct Ends {
      Ends(CancellationManager* run, CancellationManager* caller)
          : cancellation(run), caller_cancels(caller, &cancellation) {}
      CancellationManager cancellation;
      CallerCancels caller_cancels;
    };
    auto ends = std::make_unique<Ends>(&cancellation_, options.cancellation);
    RunOptions ended = options;
    ended.cancellation = &ends->cancellation;
    auto step = std::make_shared<RemoteStep<RunStepWire>>(NewStep(options, feeds, fetches));
    session_.Start(std::move(step), session_.CallOptionsOf<RunStepWire>(ended), metadata,
                   [this, feeds = std::move(feeds), fetches = std::move(fetches),
                    ends = std::move(ends), done = std::move(done)](
                       absl::StatusOr<std::vector<Tensor>> results, bool is_over) mutable {
                     Note(feeds, fetches, results.status(), is_over);
                     ends.reset();
                     done(std::move(results));
                   });
  }

  bool is_over() const override {
    MutexLock lock(mu_);
    return is_over_;
  }

  void End(const absl::Status& reason, absl::AnyInvocable<void()> ended) override {
    bool is_done = false;
    {
      MutexLock lock(mu_);
      is_over_ = true;
      is_done = std::exchange(server_is_done_, true);
    }
    cancellation_.Cancel(reason);
    if (is_done) {
      ended();
      return;
    }
    session_.Start(std::make_shared<RemoteStep<RunStepWire>>(EndStep()), EndOptions(), nullptr,
                   [ended = std::move(ended)](const absl::StatusOr<std::vector<Tensor>>&,
                                              bool) mutable { ended(); });
  }

 private:
  // While it lives, `caller` (may be null) cancels `cancellation`.
  class CallerCancels {
   public:
    CallerCancels(CancellationManager* caller, CancellationManager* cancellation)
        : caller_(caller) {
      if (caller_ == nullptr) return;
      token_ = caller_->NewToken();
      if (!caller_->Register(token_,
                             [caller, cancellation] { cancellation->Cancel(caller->status()); })) {
        cancellation->Cancel(caller_->status());
      }
    }
    ~CallerCancels() {
      if (caller_ != nullptr) caller_->Deregister(token_);
    }
    CallerCancels(const CallerCancels&) = delete;
    CallerCancels& operator=(const CallerCancels&) = delete;

   private:
    CancellationManager* const caller_;
    CancellationManager::Token token_ = 0;
  };

  static std::string WithIndex(const std::string& name) {
    return absl::StrContains(name, ':') ? name : absl::StrCat(name, ":0");
  }

  absl::Status CheckNotOver() const {
    MutexLock lock(mu_);
    if (is_over_) return errors::InvalidArgument("the partial run is over");
    return absl::OkStatus();
  }

  RemoteStep<RunStepWire> NewStep(const RunOptions& options, const Feeds& feeds,
                                  const std::vector<std::string>& fetches) const {
    tensorflow::RunStepRequest request;
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    request.set_partial_run_handle(handle_);
    session_.AddOptions(options, &request);
    return {session_.link_.get(), std::move(request), NamedTensors(feeds), fetches.size()};
  }

  // What a call that ended says of the run. `is_over`: as the server said.
  void Note(const Feeds& feeds, const std::vector<std::string>& fetches, const absl::Status& status,
            bool is_over) {
    MutexLock lock(mu_);
    if (status.ok()) {
      for (const auto& [name, value] : feeds) feeds_left_.erase(WithIndex(name));
      for (const std::string& name : fetches) fetches_left_.erase(WithIndex(name));
      is_over = is_over || (feeds_left_.empty() && fetches_left_.empty());
    }
    if (is_over) server_is_done_ = true;
    // An argument that is none does not end it.
    if (is_over || !(status.ok() || absl::IsInvalidArgument(status))) is_over_ = true;
  }

  RemoteStep<RunStepWire> EndStep() const {
    tensorflow::RunStepRequest request;
    request.set_session_handle(session_.handle_);
    request.set_partial_run_handle(handle_);
    request.set_store_errors_in_response_body(true);
    step_extras::Request extras;
    extras.set_ends_partial_run(true);
    return {nullptr, std::move(request), {}, 0, std::move(extras)};
  }
  // The server may be gone.
  StepCallOptions EndOptions() const {
    StepCallOptions call = session_.CallOptionsOf<RunStepWire>(RunOptions());
    call.deadline = absl::Now() + kGrace;
    return call;
  }

  RemoteSession& session_;
  const std::string handle_;
  CancellationManager cancellation_;  // Of the calls.
  mutable Mutex mu_;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  // Nothing of it is left there, or was told to end.
  bool server_is_done_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::string> feeds_left_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> fetches_left_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<Session::PartialRun>> RemoteSession::SetUpPartialRun(
    const RunSignature& signature) {
  tensorflow::PartialRunSetupRequest request;
  request.set_session_handle(handle_);
  request.set_request_id(NewRequestId());
  for (const std::string& feed : signature.feeds) request.add_feed(feed);
  for (const std::string& fetch : signature.fetches) request.add_fetch(fetch);
  for (const std::string& target : signature.targets) request.add_target(target);
  grpc::ClientContext context;
  SetDeadline(kControlTimeout, &context);
  tensorflow::PartialRunSetupResponse response;
  TANDEM_RETURN_IF_ERROR(StatusOf(FromGrpc(stub_->PartialRunSetup(&context, request, &response))));
  return std::make_unique<RemotePartialRun>(this, response.partial_run_handle(), signature);
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
  auto session = std::make_unique<RemoteSession>(
      target, address, security, std::move(own),
      std::make_shared<SessionDevices>(std::move(devices)), options);
  TANDEM_RETURN_IF_ERROR(session->Open(options));
  return std::unique_ptr<Session>(std::move(session));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const std::string& target,
                                                         const Graph& graph) {
  return ConnectSession(target, graph);
}

}  // namespace tandem
