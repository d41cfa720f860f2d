// Master: steps, whole and in parts, and callables.
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "core/base/status.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/master.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/step_transfers.h"

namespace tandem {
namespace {

RunSignature SignatureOf(const tensorflow::PartialRunSetupRequest& request) {
  RunSignature signature;
  signature.feeds.assign(request.feed().begin(), request.feed().end());
  signature.fetches.assign(request.fetch().begin(), request.fetch().end());
  signature.targets.assign(request.target().begin(), request.target().end());
  return signature;
}

// The answer of one step: its results, in the message or lent, and what else it says.
template <typename Response>
class Answer {
 public:
  // `names`: those of the results, in the very words of the request; none where they have none.
  // `in_body`: an error of the step is part of an answer that is OK.
  Answer(TensorField field, std::vector<std::string> names, bool in_body, StepTransfers transfers,
         grpc::ByteBuffer* response, Master::Done done)
      : field_(field),
        names_(std::move(names)),
        in_body_(in_body),
        transfers_(std::move(transfers)),
        response_(*response),
        done_(std::move(done)) {}

  StepTransfers& transfers() { return transfers_; }
  // For the step to fill before it is given. As long as the answer lives.
  tensorflow::RunMetadata* metadata() { return rest_.mutable_metadata(); }
  bool* partial_run_is_over() { return &partial_run_is_over_; }

  // REQUIRES: called once.
  void Give(absl::StatusOr<std::vector<Tensor>> results) {
    extras_.set_partial_run_is_over(partial_run_is_over_);
    absl::StatusOr<grpc::ByteBuffer> encoded =
        CatchOutOfMemory([&]() -> absl::StatusOr<grpc::ByteBuffer> {
          TANDEM_RETURN_IF_ERROR(results.status());
          std::vector<NamedTensor> tensors;
          tensors.reserve(results->size());
          for (size_t i = 0; i < results->size(); ++i) {
            tensors.push_back(
                {names_.empty() ? std::string() : std::move(names_[i]), std::move((*results)[i])});
          }
          transfers_.LendResults(&tensors, &extras_);
          return Encode(std::move(tensors));
        });
    if constexpr (std::is_same_v<Response, tensorflow::RunStepResponse>) {
      if (!encoded.ok() && in_body_) {
        extras_.clear_result();
        rest_.set_status_code(static_cast<tensorflow::error::Code>(encoded.status().raw_code()));
        rest_.set_status_error_message(std::string(encoded.status().message()));
        encoded = Encode({});
      }
    }
    if (encoded.ok()) response_ = *encoded;
    done_(encoded.status());
  }

  // Instead of results: the feeds that were offered are not there.
  void AskForFeedsAgain() {
    extras_.set_wants_feeds_again(true);
    Give(std::vector<Tensor>());
  }

 private:
  absl::StatusOr<grpc::ByteBuffer> Encode(std::vector<NamedTensor> tensors) const {
    const bool has_extras = extras_.ByteSizeLong() > 0;
    return EncodeStepMessage(rest_, field_, "fetch", std::move(tensors),
                             has_extras ? &extras_ : nullptr);
  }

  const TensorField field_;
  std::vector<std::string> names_;
  const bool in_body_;
  StepTransfers transfers_;
  grpc::ByteBuffer& response_;
  Master::Done done_;
  Response rest_;
  step_extras::Response extras_;
  bool partial_run_is_over_ = false;
};

// Values of feeds, with their names or numbers in errors. None: those that were offered are not
// there.
absl::StatusOr<absl::optional<Session::Feeds>> ReadFeeds(std::vector<ReadTensor> read,
                                                         StepTransfers& transfers,
                                                         const ServerLimits& limits) {
  Session::Feeds feeds;
  RequestTensors tensors(limits);
  for (const ReadTensor& feed : read) tensors.Count(feed.value);
  TANDEM_RETURN_IF_ERROR(tensors.Count(transfers.OfferedBytes()));
  TANDEM_ASSIGN_OR_RETURN(const bool are_there, transfers.TakeFeeds(&read));
  if (!are_there) return absl::optional<Session::Feeds>();
  feeds.reserve(read.size());
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
  return absl::optional<Session::Feeds>(std::move(feeds));
}

}  // namespace

int64_t Master::StepTimeout(const tensorflow::RunStepRequest& request) const {
  const auto session = Find(request.session_handle());
  return session.ok() ? (*session)->Timeout(request.options()) : request.options().timeout_in_ms();
}

void Master::RunStep(const tensorflow::RunStepRequest& request, std::vector<ReadTensor> read,
                     StepTransfers transfers, grpc::ByteBuffer* response,
                     CancellationManager* cancellation, Done done) {
  const auto answer = std::make_shared<Answer<tensorflow::RunStepResponse>>(
      kRunStepResults, std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
      request.store_errors_in_response_body(), std::move(transfers), response, std::move(done));
  auto give = [answer](absl::StatusOr<std::vector<Tensor>> results) {
    answer->Give(std::move(results));
  };
  std::shared_ptr<MasterSession> session;
  absl::optional<Session::Feeds> feeds;
  const bool is_partial = !request.partial_run_handle().empty();
  const bool ends_partial_run = is_partial && answer->transfers().ends_partial_run();
  const auto prepare = [&]() -> absl::Status {
    // A partial run that has begun goes on.
    if (!is_partial) TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    if (ends_partial_run) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    if (is_partial && request.target_size() > 0) {
      return errors::InvalidArgument(
          "the targets of a partial run belong to its setup; this call "
          "names '",
          request.target(0), "'");
    }
    TANDEM_ASSIGN_OR_RETURN(feeds, ReadFeeds(std::move(read), answer->transfers(), limits_));
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    answer->Give(status);
    return;
  }
  if (ends_partial_run) {
    session->EndPartialRun(request.partial_run_handle(), [answer] {
      *answer->partial_run_is_over() = true;
      answer->Give(std::vector<Tensor>());
    });
    return;
  }
  if (!feeds.has_value()) {
    answer->AskForFeedsAgain();
    return;
  }
  if (is_partial) {
    session->RunPartially(request.partial_run_handle(), *std::move(feeds),
                          std::vector<std::string>(request.fetch().begin(), request.fetch().end()),
                          request.options(), cancellation, answer->metadata(),
                          answer->partial_run_is_over(), std::move(give));
    return;
  }
  RunSignature signature;
  std::vector<Tensor> values;
  signature.feeds.reserve(feeds->size());
  values.reserve(feeds->size());
  for (auto& [name, value] : *feeds) {
    signature.feeds.push_back(std::move(name));
    values.push_back(std::move(value));
  }
  signature.fetches.assign(request.fetch().begin(), request.fetch().end());
  signature.targets.assign(request.target().begin(), request.target().end());
  if (std::shared_ptr<Session::Callable> callable = session->FindRun(signature)) {
    session->Start(std::move(callable), std::move(values), request.options(), cancellation,
                   answer->metadata(), std::move(give));
    return;
  }
  control_.Run([session = std::move(session), signature = std::move(signature),
                values = std::move(values), &request, cancellation, metadata = answer->metadata(),
                give = std::move(give)]() mutable {
    session->Run(signature, std::move(values), request.options(), cancellation, metadata,
                 std::move(give));
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
                         std::vector<ReadTensor> read, StepTransfers transfers,
                         grpc::ByteBuffer* response, CancellationManager* cancellation, Done done) {
  const auto answer = std::make_shared<Answer<tensorflow::RunCallableResponse>>(
      kRunCallableResults, std::vector<std::string>(), /*in_body=*/false, std::move(transfers),
      response, std::move(done));
  std::shared_ptr<MasterSession> session;
  MasterSession::NamedCallable callable;
  absl::optional<Session::Feeds> feeds;
  const auto prepare = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_ASSIGN_OR_RETURN(callable, session->FindCallable(request.handle()));
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    TANDEM_ASSIGN_OR_RETURN(feeds, ReadFeeds(std::move(read), answer->transfers(), limits_));
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    answer->Give(status);
    return;
  }
  if (!feeds.has_value()) {
    answer->AskForFeedsAgain();
    return;
  }
  std::vector<Tensor> values;
  values.reserve(feeds->size());
  for (auto& [name, value] : *feeds) values.push_back(std::move(value));
  session->Start(
      std::move(callable.callable), std::move(values), callable.run_options, cancellation,
      answer->metadata(),
      [answer](absl::StatusOr<std::vector<Tensor>> results) { answer->Give(std::move(results)); });
}

}  // namespace tandem
