// Master: steps, whole and in parts, and callables.
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/master.h"
#include "runtime/rpc/step_messages.h"

namespace tandem {
namespace {

RunSignature SignatureOf(const tensorflow::PartialRunSetupRequest& request) {
  RunSignature signature;
  signature.feeds.assign(request.feed().begin(), request.feed().end());
  signature.fetches.assign(request.fetch().begin(), request.fetch().end());
  signature.targets.assign(request.target().begin(), request.target().end());
  return signature;
}

// Encodes the results of a step with the rest of its response. An error is in the body if the
// request wants it so.
Session::Callable::Done Answer(const tensorflow::RunStepRequest& request,
                               std::shared_ptr<tensorflow::RunStepResponse> rest,
                               grpc::ByteBuffer* response, Master::Done done) {
  // The names are the very words of the request.
  return [names = std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
          in_body = request.store_errors_in_response_body(), rest = std::move(rest), response,
          done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
    absl::StatusOr<grpc::ByteBuffer> encoded =
        CatchOutOfMemory([&]() -> absl::StatusOr<grpc::ByteBuffer> {
          TANDEM_RETURN_IF_ERROR(results.status());
          std::vector<NamedTensor> tensors;
          for (size_t i = 0; i < names.size(); ++i) {
            tensors.push_back({std::move(names[i]), std::move((*results)[i])});
          }
          return EncodeStepMessage(*rest, kRunStepResults, "fetch", std::move(tensors));
        });
    if (!encoded.ok() && in_body) {
      rest->set_status_code(static_cast<tensorflow::error::Code>(encoded.status().raw_code()));
      rest->set_status_error_message(std::string(encoded.status().message()));
      encoded = EncodeStepMessage(*rest, kRunStepResults, "fetch", {});
    }
    if (encoded.ok()) *response = *encoded;
    done(encoded.status());
  };
}

// Values of feeds, with their names or numbers in errors.
absl::StatusOr<Session::Feeds> ReadFeeds(std::vector<ReadTensor> read, const ServerLimits& limits) {
  Session::Feeds feeds;
  RequestTensors tensors(limits);
  for (const ReadTensor& feed : read) tensors.Count(feed.value);
  for (size_t i = 0; i < read.size(); ++i) {
    ReadTensor& feed = read[i];
    if (feed.value.is_valid()) {
      feeds.emplace_back(std::move(feed.name), std::move(feed.value));
      continue;
    }
    absl::StatusOr<Tensor> value = tensors.Read(feed.proto);
    if (!value.ok()) {
      return WithContext(value.status(), feed.name.empty()
                                             ? absl::StrCat("feed ", i)
                                             : absl::StrCat("feed '", feed.name, "'"));
    }
    feeds.emplace_back(std::move(feed.name), *std::move(value));
  }
  return feeds;
}

}  // namespace

int64_t Master::StepTimeout(const tensorflow::RunStepRequest& request) const {
  const auto session = Find(request.session_handle());
  return session.ok() ? (*session)->Timeout(request.options()) : request.options().timeout_in_ms();
}

void Master::RunStep(const tensorflow::RunStepRequest& request, std::vector<ReadTensor> read,
                     grpc::ByteBuffer* response, CancellationManager* cancellation, Done done) {
  auto rest = std::make_shared<tensorflow::RunStepResponse>();
  // Kept by the answer, which outlives the step.
  tensorflow::RunMetadata* const metadata = rest->mutable_metadata();
  Session::Callable::Done answer = Answer(request, std::move(rest), response, std::move(done));
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
    TANDEM_ASSIGN_OR_RETURN(feeds, ReadFeeds(std::move(read), limits_));
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
                          request.options(), cancellation, metadata, std::move(answer));
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
    session->Run(signature, std::move(values), request.options(), cancellation, metadata,
                 std::move(answer));
    return;
  }
  control_.Run([session = std::move(session), signature = std::move(signature),
                values = std::move(values), &request, cancellation, metadata,
                answer = std::move(answer)]() mutable {
    session->Run(signature, std::move(values), request.options(), cancellation, metadata,
                 std::move(answer));
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
                         std::vector<ReadTensor> read, grpc::ByteBuffer* response,
                         CancellationManager* cancellation, Done done) {
  std::shared_ptr<MasterSession> session;
  MasterSession::NamedCallable callable;
  std::vector<Tensor> feeds;
  const auto prepare = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_ASSIGN_OR_RETURN(callable, session->FindCallable(request.handle()));
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    TANDEM_ASSIGN_OR_RETURN(Session::Feeds values, ReadFeeds(std::move(read), limits_));
    for (auto& [name, value] : values) feeds.push_back(std::move(value));
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    done(status);
    return;
  }
  auto rest = std::make_shared<tensorflow::RunCallableResponse>();
  tensorflow::RunMetadata* const metadata = rest->mutable_metadata();
  session->Start(
      std::move(callable.callable), std::move(feeds), callable.run_options, cancellation, metadata,
      [rest = std::move(rest), response,
       done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        absl::StatusOr<grpc::ByteBuffer> encoded =
            CatchOutOfMemory([&]() -> absl::StatusOr<grpc::ByteBuffer> {
              TANDEM_RETURN_IF_ERROR(results.status());
              std::vector<NamedTensor> tensors;
              for (Tensor& value : *results) tensors.push_back({"", std::move(value)});
              return EncodeStepMessage(*rest, kRunCallableResults, "fetch", std::move(tensors));
            });
        if (encoded.ok()) *response = *encoded;
        done(encoded.status());
      });
}

}  // namespace tandem
