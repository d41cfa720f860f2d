#include "runtime/rpc/worker_client.h"

#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "runtime/rpc/host_link.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

std::string PathOf(const char* method) {
  return absl::StrCat("/tensorflow.WorkerService/", method);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address, const Security& security) {
  grpc::ChannelArguments arguments;
  // Several servers in one process do not share connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return NewChannel(address, security, std::move(arguments));
}

// One call; deletes itself when it is over.
template <typename Request, typename Response>
class UnaryCall {
 public:
  using Done = absl::AnyInvocable<void(absl::Status, Response*)>;

  static void Start(const WorkerClient& client, const std::shared_ptr<grpc::Channel>& channel,
                    const std::shared_ptr<CallSet>& calls, std::string path, Request request,
                    const CallOptions& options, Done done) {
    auto* const call =
        new UnaryCall(client, calls, std::move(path), std::move(request), std::move(done));
    if (options.deadline != absl::InfiniteFuture()) {
      call->context_.set_deadline(absl::ToChronoTime(options.deadline));
    }
    call->context_.set_wait_for_ready(options.wait_for_ready);
    calls->Begin(&call->context_);
    if (options.cancellation != nullptr) {
      call->token_ = options.cancellation->NewToken();
      // A call that is cancelled before it begins ends as soon as it does.
      if (!options.cancellation->Register(call->token_, [call] { call->context_.TryCancel(); })) {
        call->Finish(options.cancellation->status());
        return;
      }
      call->cancellation_ = options.cancellation;
    }
    grpc::TemplatedGenericStub<Request, Response>(channel).UnaryCall(
        &call->context_, call->path_, grpc::StubOptions(), &call->request_, &call->response_,
        [call](const grpc::Status& status) { call->End(status); });
  }

 private:
  UnaryCall(const WorkerClient& client, std::shared_ptr<CallSet> calls, std::string path,
            Request request, Done done)
      : client_(client),
        calls_(std::move(calls)),
        path_(std::move(path)),
        request_(std::move(request)),
        done_(std::move(done)) {}

  void End(const grpc::Status& status) {
    absl::Status result = FromGrpc(status);
    if (cancellation_ != nullptr) {
      cancellation_->Deregister(token_);
      if (!result.ok() && cancellation_->IsCancelled()) {
        Finish(cancellation_->status());
        return;
      }
    }
    if (IsFromGrpc(status)) {
      result = Lost(ExplainConnection(result, client_.with_tls()));
    } else if (absl::IsUnauthenticated(result)) {
      result = WithContext(result, absl::StrCat(client_.task(), " at ", client_.address()));
    }
    Finish(std::move(result));
  }

  // gRPC's own errors have no details; of a task's, those with these codes are rare.
  static bool IsFromGrpc(const grpc::Status& status) {
    if (!status.error_details().empty()) return false;
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return true;
      case grpc::StatusCode::CANCELLED:
        // Nobody here cancelled the call: a server that ends does so in these words.
        return status.error_message().empty() || status.error_message() == "CANCELLED";
      default:
        return false;
    }
  }

  // The error of a call that the task did not answer.
  absl::Status Lost(absl::Status status) const {
    const bool is_late = absl::IsDeadlineExceeded(status);
    return absl::Status(
        is_late ? status.code() : absl::StatusCode::kUnavailable,
        absl::StrCat(client_.task(), " at ", client_.address(),
                     is_late ? " did not answer: " : " cannot be reached: ", status.message(),
                     // Clients of TensorFlow look for these words.
                     "\nAdditional GRPC error information from remote target ", client_.task(),
                     " while calling ", path_, ":\n:", status.message()));
  }

  void Finish(absl::Status status) {
    done_(std::move(status), &response_);
    calls_->Forget(&context_);
    const std::shared_ptr<CallSet> calls = calls_;
    delete this;
    calls->End();
  }

  const WorkerClient& client_;
  const std::shared_ptr<CallSet> calls_;
  const std::string path_;
  const Request request_;
  Done done_;
  Response response_;
  grpc::ClientContext context_;
  CancellationManager* cancellation_ = nullptr;  // Set when registered.
  CancellationManager::Token token_ = 0;
};

template <typename Request, typename Response>
void CallPath(const WorkerClient& client, const std::shared_ptr<grpc::Channel>& channel,
              const std::shared_ptr<CallSet>& calls, std::string path, Request request,
              const CallOptions& options, WorkerClient::Done<Response> done) {
  UnaryCall<Request, Response>::Start(
      client, channel, calls, std::move(path), std::move(request), options,
      [done = std::move(done)](absl::Status status, Response* response) mutable {
        if (status.ok()) {
          done(std::move(*response));
        } else {
          done(std::move(status));
        }
      });
}

template <typename Request, typename Response>
void Call(const WorkerClient& client, const std::shared_ptr<grpc::Channel>& channel,
          const std::shared_ptr<CallSet>& calls, const char* method, Request request,
          const CallOptions& options, WorkerClient::Done<Response> done) {
  CallPath<Request, Response>(client, channel, calls, PathOf(method), std::move(request), options,
                              std::move(done));
}

}  // namespace

int64_t NewRequestId() {
  static std::atomic<uint64_t> next = [] {
    std::random_device random;
    return (static_cast<uint64_t>(random()) << 32) | random();
  }();
  for (;;) {
    const auto id = static_cast<int64_t>(next.fetch_add(1, std::memory_order_relaxed));
    if (id != 0) return id;
  }
}

// Asks the task for its status while somebody watches it.
class WorkerClient::Heartbeat {
 public:
  Heartbeat(WorkerClient* client, std::shared_ptr<CallSet> calls)
      : client_(*client), calls_(std::move(calls)) {}

  int64_t Watch(std::function<void(const absl::Status&)> lost) {
    MutexLock lock(mu_);
    const int64_t watch = next_watch_++;
    watchers_.emplace(watch, std::move(lost));
    if (!beats_) AskLaterLocked();
    return watch;
  }

  void Unwatch(int64_t watch) {
    MutexLock lock(mu_);
    watchers_.erase(watch);
  }

  // Nobody is asked any more.
  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    if (alarm_ != nullptr) alarm_->Cancel();
  }

 private:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr absl::Duration kAnswerTime = absl::Seconds(3);

  void AskLaterLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    beats_ = !stopped_;
    if (stopped_) return;
    calls_->Begin();
    // A new one each time: the last one's callback may not have returned yet.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(absl::ToChronoTime(absl::Now() + kInterval), [this, calls = calls_](bool) {
      Ask();
      calls->End();
    });
  }

  void Ask() {
    {
      MutexLock lock(mu_);
      if (watchers_.empty() || stopped_) {
        beats_ = false;
        return;
      }
    }
    CallOptions options;
    options.deadline = absl::Now() + kAnswerTime;
    client_.GetStatus(options, [this](absl::StatusOr<tensorflow::GetStatusResponse> response) {
      Answered(response.status());
    });
  }

  void Answered(const absl::Status& status) {
    std::map<int64_t, std::function<void(const absl::Status&)>> watchers;
    {
      MutexLock lock(mu_);
      // Whatever else it says, it lives.
      if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
        watchers.swap(watchers_);
      }
      AskLaterLocked();
    }
    for (const auto& [watch, lost] : watchers) {
      lost(errors::Unavailable(client_.task(), " is lost: ", status.message()));
    }
  }

  WorkerClient& client_;
  const std::shared_ptr<CallSet> calls_;
  Mutex mu_;
  bool beats_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
  int64_t next_watch_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<int64_t, std::function<void(const absl::Status&)>> watchers_ ABSL_GUARDED_BY(mu_);
};

WorkerClient::WorkerClient(std::string task, std::string address, const Security& security,
                           SharedMemoryEndpoint* shared_memory)
    : task_(std::move(task)),
      address_(std::move(address)),
      with_tls_(security.ConnectsWithTls()),
      channel_(Connect(address_, security)),
      calls_(std::make_shared<CallSet>()),
      heartbeat_(std::make_unique<Heartbeat>(this, calls_)),
      link_(shared_memory == nullptr ? nullptr : std::make_unique<HostLink>(task_, shared_memory)) {
}

int64_t WorkerClient::Watch(std::function<void(const absl::Status&)> lost) {
  return heartbeat_->Watch(std::move(lost));
}

void WorkerClient::Unwatch(int64_t watch) { heartbeat_->Unwatch(watch); }

WorkerClient::~WorkerClient() { EndCalls(); }

void WorkerClient::EndCalls() {
  // For what nobody waits for, such as the news that a session has ended.
  constexpr absl::Duration kGrace = absl::Seconds(1);
  heartbeat_->Stop();
  calls_->EndAll(kGrace);
}

void WorkerClient::GetStatus(const CallOptions& options, Done<tensorflow::GetStatusResponse> done) {
  Call(*this, channel_, calls_, "GetStatus", tensorflow::GetStatusRequest(), options,
       std::move(done));
}

void WorkerClient::CreateWorkerSession(tensorflow::CreateWorkerSessionRequest request,
                                       const CallOptions& options,
                                       Done<tensorflow::CreateWorkerSessionResponse> done) {
  Call(*this, channel_, calls_, "CreateWorkerSession", std::move(request), options,
       std::move(done));
}

void WorkerClient::DeleteWorkerSession(tensorflow::DeleteWorkerSessionRequest request,
                                       const CallOptions& options,
                                       Done<tensorflow::DeleteWorkerSessionResponse> done) {
  Call(*this, channel_, calls_, "DeleteWorkerSession", std::move(request), options,
       std::move(done));
}

void WorkerClient::RegisterGraph(tensorflow::RegisterGraphRequest request,
                                 const CallOptions& options,
                                 Done<tensorflow::RegisterGraphResponse> done) {
  Call(*this, channel_, calls_, "RegisterGraph", std::move(request), options, std::move(done));
}

void WorkerClient::RunGraph(tensorflow::RunGraphRequest request, const CallOptions& options,
                            Done<tensorflow::RunGraphResponse> done) {
  Call(*this, channel_, calls_, "RunGraph", std::move(request), options, std::move(done));
}

void WorkerClient::CleanupGraph(tensorflow::CleanupGraphRequest request, const CallOptions& options,
                                Done<tensorflow::CleanupGraphResponse> done) {
  Call(*this, channel_, calls_, "CleanupGraph", std::move(request), options, std::move(done));
}

void WorkerClient::CleanupAll(tensorflow::CleanupAllRequest request, const CallOptions& options,
                              Done<tensorflow::CleanupAllResponse> done) {
  Call(*this, channel_, calls_, "CleanupAll", std::move(request), options, std::move(done));
}

void WorkerClient::RecvTensor(tensorflow::RecvTensorRequest request, const CallOptions& options,
                              Done<ReceivedTensor> received) {
  absl::optional<SegmentBorrower::Request> loan;
  if (link_ != nullptr) {
    loan = link_->NewRequest([this](const CallOptions& options, HostLink::Introduced done) {
      CallPath<host_transfers::IntroduceRequest, host_transfers::IntroduceResponse>(
          *this, channel_, calls_, "/tandem.host_transfers.HostTransferService/Introduce", {},
          options, std::move(done));
    });
    if (loan.has_value()) SetLoanRequest(*loan, &request);
  }
  UnaryCall<tensorflow::RecvTensorRequest, grpc::ByteBuffer>::Start(
      *this, channel_, calls_, PathOf("RecvTensor"), std::move(request), options,
      [this, loan = std::move(loan), received = std::move(received)](
          absl::Status status, grpc::ByteBuffer* response) mutable {
        if (!status.ok()) {
          received(std::move(status));
          return;
        }
        absl::StatusOr<ReceivedTensor> value = DecodeReceivedTensor(response, std::move(loan));
        if (!value.ok()) {
          received(WithContext(value.status(), task_));
          return;
        }
        if (value->was_lent) link_->NoteLoan();
        received(std::move(value));
      });
}

ClusterTasks::ClusterTasks(const ClusterConfig& config, const TaskId& own, const Security& security,
                           SharedMemoryEndpoint* shared_memory)
    : own_(own.ToString()), shared_memory_(shared_memory) {
  for (const auto& [job, tasks] : config.jobs) {
    for (const auto& [index, address] : tasks) {
      const std::string name = TaskId{job, index}.ToString();
      if (name == own_) continue;
      others_.emplace(name, std::make_shared<WorkerClient>(name, address, security, shared_memory));
    }
  }
}

ClusterTasks::~ClusterTasks() {
  for (const auto& [task, client] : others_) client->EndCalls();
}

absl::StatusOr<std::shared_ptr<WorkerClient>> ClusterTasks::Find(absl::string_view task) const {
  const auto found = others_.find(task);
  if (found == others_.end()) {
    return errors::NotFound("the cluster has no task '", task, "' besides ", own_);
  }
  return found->second;
}

}  // namespace tandem
