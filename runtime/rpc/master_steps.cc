// Master: steps, whole and in parts, and callables.
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/master.h"

namespace tandem {
namespace {

RunSignature SignatureOf(const tensorflow::PartialRunSetupRequest& request) {
  RunSignature signature;
  signature.feeds.assign(request.feed().begin(), request.feed().end());
  signature.fetches.assign(request.fetch().begin(), request.fetch().end());
  signature.targets.assign(request.target().begin(), request.target().end());
  return signature;
}

// Puts the results of a step into its response. An error is in the body if the request wants it so.
Session::Callable::Done Answer(const tensorflow::RunStepRequest& request,
                               tensorflow::RunStepResponse* response, Master::Done done) {
  // The names are the very words of the request.
  return [names = std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
          in_body = request.store_errors_in_response_body(), response,
          done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
    absl::Status status = results.status();
    for (size_t i = 0; i < names.size() && status.ok(); ++i) {
      tensorflow::NamedTensorProto* const named = response->add_tensor();
      named->set_name(names[i]);
      status = CatchOutOfMemory([&] {
        return TensorToProto((*results)[i], named->mutable_tensor(), TensorProtoForm::kContent);
      });
      if (!status.ok()) {
        status = WithContext(status, absl::StrCat("fetch '", names[i], "'"));
        response->clear_tensor();
      }
    }
    if (!status.ok() && in_body) {
      response->set_status_code(static_cast<tensorflow::error::Code>(status.raw_code()));
      response->set_status_error_message(std::string(status.message()));
      status = absl::OkStatus();
    }
    done(std::move(status));
  };
}

absl::StatusOr<Session::Feeds> ReadFeeds(const tensorflow::RunStepRequest& request,
                                         const ServerLimits& limits) {
  Session::Feeds feeds;
  RequestTensors tensors(limits);
  for (const tensorflow::NamedTensorProto& feed : request.feed()) {
    absl::StatusOr<Tensor> value = tensors.Read(feed.tensor());
    if (!value.ok()) return WithContext(value.status(), absl::StrCat("feed '", feed.name(), "'"));
    feeds.emplace_back(feed.name(), *std::move(value));
  }
  return feeds;
}

}  // namespace

int64_t Master::StepTimeout(const tensorflow::RunStepRequest& request) const {
  const auto session = Find(request.session_handle());
  return session.ok() ? (*session)->Timeout(request.options()) : request.options().timeout_in_ms();
}

void Master::RunStep(const tensorflow::RunStepRequest& request,
                     tensorflow::RunStepResponse* response, CancellationManager* cancellation,
                     Done done) {
  Session::Callable::Done answer = Answer(request, response, std::move(done));
  std::shared_ptr<MasterSession> session;
  Session::Feeds feeds;
  const bool is_partial = !request.partial_run_handle().empty();
  const auto prepare = [&]() -> absl::Status {
    // A partial run that has begun goes on.
    if (!is_partial) TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    if (is_partial && request.target_size() > 0) {
      return errors::InvalidArgument(
          "the targets of a partial run belong to its setup; this call "
          "names '",
          request.target(0), "'");
    }
    TANDEM_ASSIGN_OR_RETURN(feeds, ReadFeeds(request, limits_));
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    answer(status);
    return;
  }
  if (is_partial) {
    session->RunPartially(request.partial_run_handle(), std::move(feeds),
                          std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
                          request.options(), cancellation, response->mutable_metadata(),
                          std::move(answer));
    return;
  }
  RunSignature signature;
  std::vector<Tensor> values;
  for (auto& [name, value] : feeds) {
    signature.feeds.push_back(std::move(name));
    values.push_back(std::move(value));
  }
  signature.fetches.assign(request.fetch().begin(), request.fetch().end());
  signature.targets.assign(request.target().begin(), request.target().end());
  if (session->HasRun(signature)) {
    session->Run(signature, std::move(values), request.options(), cancellation,
                 response->mutable_metadata(), std::move(answer));
    return;
  }
  control_.Run([session = std::move(session), signature = std::move(signature),
                values = std::move(values), &request, cancellation, response,
                answer = std::move(answer)]() mutable {
    session->Run(signature, std::move(values), request.options(), cancellation,
                 response->mutable_metadata(), std::move(answer));
  });
}

absl::Status Master::PartialRunSetup(const tensorflow::PartialRunSetupRequest& request,
                                     tensorflow::PartialRunSetupResponse* response) {
  TANDEM_RETURN_IF_ERROR(CheckNotDrained());
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session,
                          Find(request.session_handle()));
  TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
  TANDEM_ASSIGN_OR_RETURN(const std::string handle, session->SetUpPartialRun(SignatureOf(request)));
  response->set_partial_run_handle(handle);
  return absl::OkStatus();
}

absl::Status Master::MakeCallable(const tensorflow::MakeCallableRequest& request,
                                  tensorflow::MakeCallableResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session,
                          Find(request.session_handle()));
  TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
  TANDEM_ASSIGN_OR_RETURN(const int64_t handle, session->MakeCallable(request.options()));
  response->set_handle(handle);
  return absl::OkStatus();
}

absl::Status Master::ReleaseCallable(const tensorflow::ReleaseCallableRequest& request) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session,
                          Find(request.session_handle()));
  session->ReleaseCallable(request.handle());
  return absl::OkStatus();
}

int64_t Master::CallableTimeout(const tensorflow::RunCallableRequest& request) const {
  const auto session = Find(request.session_handle());
  if (!session.ok()) return 0;
  const auto callable = (*session)->FindCallable(request.handle());
  return callable.ok() ? (*session)->Timeout(callable->run_options) : 0;
}

void Master::RunCallable(const tensorflow::RunCallableRequest& request,
                         tensorflow::RunCallableResponse* response,
                         CancellationManager* cancellation, Done done) {
  std::shared_ptr<MasterSession> session;
  MasterSession::NamedCallable callable;
  std::vector<Tensor> feeds;
  const auto prepare = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_ASSIGN_OR_RETURN(callable, session->FindCallable(request.handle()));
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    RequestTensors tensors(limits_);
    for (int i = 0; i < request.feed_size(); ++i) {
      absl::StatusOr<Tensor> value = tensors.Read(request.feed(i));
      if (!value.ok()) return WithContext(value.status(), absl::StrCat("feed ", i));
      feeds.push_back(*std::move(value));
    }
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    done(status);
    return;
  }
  session->Start(
      std::move(callable.callable), std::move(feeds), callable.run_options, cancellation,
      response->mutable_metadata(),
      [response, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        absl::Status status = results.status();
        if (status.ok()) {
          for (const Tensor& value : *results) {
            status = CatchOutOfMemory([&] {
              return TensorToProto(value, response->add_fetch(), TensorProtoForm::kContent);
            });
            if (!status.ok()) break;
          }
        }
        done(std::move(status));
      });
}

}  // namespace tandem
