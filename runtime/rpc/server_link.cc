#include "runtime/rpc/server_link.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/host_transfer.grpc.pb.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/step_transfers.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/threads/start_thread.h"

namespace tandem {

ServerLink::ServerLink(std::string target, std::shared_ptr<grpc::Channel> channel,
                       std::shared_ptr<CallSet> calls, size_t least_bytes)
    : target_(std::move(target)),
      channel_(std::move(channel)),
      calls_(std::move(calls)),
      least_bytes_(least_bytes) {}

ServerLink::~ServerLink() {
  std::thread introduces;
  {
    MutexLock lock(mu_);
    introduces = std::move(introduces_);
  }
  if (introduces.joinable()) introduces.join();
}

bool ServerLink::IsLarge(const Tensor& value) const {
  return !LendableBytes(value, least_bytes_).empty();
}

HostLink* ServerLink::MakeLink() {
  if (HostLink* const link = link_.load(std::memory_order_acquire)) return link;
  MutexLock lock(mu_);
  if (own_link_ != nullptr || failed_) return own_link_.get();
  absl::StatusOr<std::unique_ptr<SharedMemoryEndpoint>> endpoint =
      SharedMemoryEndpoint::Create(least_bytes_);
  if (!endpoint.ok()) {
    failed_ = true;
    TANDEM_LOG(Warning) << "values go to and from " << target_
                        << " in messages, not through shared memory: "
                        << endpoint.status().message();
    return nullptr;
  }
  endpoint_ = *std::move(endpoint);
  own_link_ = std::make_unique<HostLink>(target_, endpoint_.get(), HostLink::Kind::kServer);
  link_.store(own_link_.get(), std::memory_order_release);
  return own_link_.get();
}

absl::optional<HostLink::Connection> ServerLink::Connect() {
  HostLink* const link = MakeLink();
  if (link == nullptr) return absl::nullopt;
  return link->Connect([this](const CallOptions& options, HostLink::Introduced done) {
    Introduce(options, std::move(done));
  });
}

void ServerLink::Introduce(const CallOptions& options, HostLink::Introduced done) {
  const auto shared_done = std::make_shared<HostLink::Introduced>(std::move(done));
  {
    MutexLock lock(mu_);
    // The last one has answered, or this one would not be here.
    if (introduces_.joinable()) introduces_.join();
    introduces_ = StartThread("tandem-link", [this, options, shared_done] {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(options.deadline));
      calls_->Begin(&context);
      host_transfers::IntroduceResponse response;
      const absl::Status status =
          FromGrpc(host_transfers::HostTransferService::NewStub(channel_)->Introduce(
              &context, host_transfers::IntroduceRequest(), &response));
      calls_->Forget(&context);
      if (status.ok()) {
        (*shared_done)(std::move(response));
      } else {
        (*shared_done)(status);
      }
      calls_->End();
    });
    if (introduces_.joinable()) return;
  }
  (*shared_done)(errors::ResourceExhausted("the system grants no thread"));
}

bool ServerLink::WaitUntilConnected(absl::Time deadline) {
  constexpr absl::Duration kInterval = absl::Milliseconds(1);
  for (;;) {
    const absl::optional<HostLink::Connection> connection = Connect();
    if (connection.has_value()) {
      if (connection->lender->takes_offers() && connection->borrower->NewRequest().has_value()) {
        return true;
      }
    } else if (HostLink* const link = link_.load(std::memory_order_acquire);
               link == nullptr || !link->asks()) {
      // Answered in between, or there will be none.
      if (link == nullptr || !Connect().has_value()) return false;
    }
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kInterval);
  }
}

ServerLink::Step::Step(ServerLink* link, std::vector<NamedTensor>* feeds, size_t results)
    : link_(link) {
  const auto is_large = [link](const NamedTensor& feed) { return link->IsLarge(feed.value); };
  if (link->link_.load(std::memory_order_acquire) == nullptr &&
      std::none_of(feeds->begin(), feeds->end(), is_large)) {
    return;
  }
  const absl::optional<HostLink::Connection> connection = link->Connect();
  if (!connection.has_value()) return;
  for (size_t i = 0; i < feeds->size(); ++i) {
    NamedTensor& feed = (*feeds)[i];
    feed.value.Localize();
    const absl::Span<const char> bytes = LendableBytes(feed.value, link->least_bytes_);
    if (bytes.empty()) continue;
    absl::optional<SegmentLender::Offered> offered = connection->lender->Offer(bytes);
    if (!offered.has_value()) continue;
    feed.is_lent = true;
    step_extras::LentTensor* const lent = request_.add_feed();
    lent->set_index(static_cast<uint32_t>(i));
    lent->set_row(offered->ticket().row);
    lent->set_number(offered->ticket().number);
    lent->set_segment(offered->segment());
    lent->set_bytes(bytes.size());
    offered_.push_back(*std::move(offered));
  }
  if (!offered_.empty()) {
    const absl::string_view name = shared_memory::View(connection->lender->connection());
    request_.set_offers(name.data(), name.size());
  }
  for (size_t i = 0; i < results; ++i) {
    absl::optional<SegmentBorrower::Request> asked = connection->borrower->NewRequest();
    if (!asked.has_value()) break;
    request_.add_row(asked->ticket().row);
    request_.add_number(asked->ticket().number);
    asked_.push_back(std::move(asked));
  }
  if (!asked_.empty()) {
    const absl::string_view name = shared_memory::View(asked_.front()->connection());
    request_.set_borrows(name.data(), name.size());
  }
}

absl::Status ServerLink::Step::TakeResults(const step_extras::Response& response,
                                           std::vector<ReadTensor>* results) {
  TANDEM_RETURN_IF_ERROR(TakeLentTensors(
      response.result(), results,
      [this](const step_extras::LentTensor& result) -> absl::StatusOr<RefPtr<Buffer>> {
        if (result.index() >= asked_.size() || !asked_[result.index()].has_value()) {
          return errors::InvalidArgument("the server lent a result that nobody asked it to lend");
        }
        absl::optional<SegmentBorrower::Request> asked;
        asked.swap(asked_[result.index()]);
        return (*std::move(asked)).Take(result.segment(), result.bytes());
      }));
  if (link_ == nullptr) return absl::OkStatus();
  if (HostLink* const link = link_->link_.load(std::memory_order_acquire)) {
    if (!response.result().empty() || offers_feeds()) link->NoteLoan();
    return absl::OkStatus();
  }
  const auto is_large = [this](const ReadTensor& result) { return link_->IsLarge(result.value); };
  // The next ones come through shared memory.
  if (std::any_of(results->begin(), results->end(), is_large)) (void)link_->Connect();
  return absl::OkStatus();
}

}  // namespace tandem
