#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"

namespace tandem {

using shared_memory::Equal;
using shared_memory::Kind;
using shared_memory::Message;
using shared_memory::View;

namespace {

constexpr size_t kMostStrangers = 64;
constexpr absl::Duration kTimeToSayHello = absl::Seconds(5);
// Memory that was not used for one to two of these goes back to the system.
constexpr absl::Duration kTrimEvery = absl::Seconds(10);
// After a connection that could not be accepted, as with too many open files.
constexpr absl::Duration kAcceptAgainAfter = absl::Seconds(1);

// Something has come, or the other end is gone.
bool IsReadable(const OwnedFd& fd) {
  pollfd asked = {fd.get(), POLLIN, 0};
  return poll(&asked, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemoryEndpoint>> SharedMemoryEndpoint::Create(
    size_t least_lent_bytes) {
  std::string name = NewSocketName("tandem");
  TANDEM_ASSIGN_OR_RETURN(OwnedFd listener, ListenOnUnixSocket(name));
  OwnedFd wakes(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakes.is_valid()) return absl::ErrnoToStatus(errno, "an eventfd cannot be made");
  std::unique_ptr<SharedMemoryEndpoint> endpoint(new SharedMemoryEndpoint(
      least_lent_bytes, std::move(name), std::move(listener), std::move(wakes)));
  try {
    endpoint->thread_ = std::thread([endpoint = endpoint.get()] { endpoint->Serve(); });
  } catch (const std::system_error& error) {
    return errors::ResourceExhausted("no thread can be made: ", error.what());
  }
  return endpoint;
}

SharedMemoryEndpoint::SharedMemoryEndpoint(size_t least_lent_bytes, std::string socket_name,
                                           OwnedFd listener, OwnedFd wakes)
    : least_lent_bytes_(least_lent_bytes),
      socket_name_(std::move(socket_name)),
      secret_(shared_memory::NewSecret()),
      listener_(std::move(listener)),
      wakes_(std::move(wakes)) {}

SharedMemoryEndpoint::~SharedMemoryEndpoint() {
  {
    MutexLock lock(mu_);
    ends_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mu_);
  for (const auto& [connection, lender] : lenders_) lender->Close();
  for (const auto& lender : offerers_) lender->Close();
  for (const auto& borrower : borrowers_) borrower->Close();
}

void SharedMemoryEndpoint::Wake() {
  const uint64_t one = 1;
  // It fails only when there are 2^64 wakes to come.
  (void)!write(wakes_.get(), &one, sizeof(one));
}

absl::StatusOr<OwnedFd> SharedMemoryEndpoint::ConnectTo(absl::string_view socket_name,
                                                        absl::string_view secret,
                                                        shared_memory::Secret* known) {
  if (secret.size() != known->size()) {
    return errors::InvalidArgument("a secret of shared memory has ", secret.size(),
                                   " bytes; expected ", known->size());
  }
  std::copy(secret.begin(), secret.end(), known->begin());
  TANDEM_ASSIGN_OR_RETURN(OwnedFd socket, ConnectToUnixSocket(socket_name));
  // Anybody may listen under a name that a process left behind.
  TANDEM_RETURN_IF_ERROR(CheckSameUser(socket));
  return socket;
}

absl::StatusOr<std::shared_ptr<SegmentBorrower>> SharedMemoryEndpoint::Connect(
    absl::string_view socket_name, absl::string_view secret, size_t most_held_bytes) {
  shared_memory::Secret known;
  TANDEM_ASSIGN_OR_RETURN(OwnedFd socket, ConnectTo(socket_name, secret, &known));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<SegmentBorrower> borrower,
                          SegmentBorrower::Create(std::move(socket), known, most_held_bytes));
  {
    MutexLock lock(mu_);
    borrowers_.push_back(borrower);
  }
  Wake();
  return borrower;
}

absl::StatusOr<std::shared_ptr<SegmentLender>> SharedMemoryEndpoint::ConnectToOffer(
    absl::string_view socket_name, absl::string_view secret) {
  shared_memory::Secret known;
  TANDEM_ASSIGN_OR_RETURN(OwnedFd socket, ConnectTo(socket_name, secret, &known));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<SegmentLender> lender,
                          SegmentLender::CreateOffering(std::move(socket), known));
  {
    MutexLock lock(mu_);
    offerers_.push_back(lender);
  }
  Wake();
  return lender;
}

std::shared_ptr<SegmentLender> SharedMemoryEndpoint::FindLender(absl::string_view connection) {
  MutexLock lock(mu_);
  const auto found = lenders_.find(connection);
  return found == lenders_.end() ? nullptr : found->second;
}

std::shared_ptr<SegmentBorrower> SharedMemoryEndpoint::FindBorrower(absl::string_view connection) {
  MutexLock lock(mu_);
  const auto found = accepted_.find(connection);
  if (found != accepted_.end()) return found->second;
  // The lender may know that it was accepted before this endpoint's thread has noted its name.
  for (const std::shared_ptr<SegmentBorrower>& borrower : borrowers_) {
    const absl::optional<shared_memory::Secret> offering = borrower->offering();
    if (offering.has_value() && Equal(*offering, connection)) return borrower;
  }
  return nullptr;
}

void SharedMemoryEndpoint::Serve() {
  for (;;) {
    Wait();
    {
      MutexLock lock(mu_);
      if (ends_) return;
    }
    Accept();
    HearStrangers();
    LookAfterBorrowers();
    LookAfterLenders();
    LookAfterOfferers();
    Trim();
  }
}

void SharedMemoryEndpoint::Wait() {
  absl::Time wakes_at = next_trim_;
  std::vector<pollfd> fds = {{wakes_.get(), POLLIN, 0}};
  if (accepts_again_ == absl::InfinitePast()) {
    fds.push_back({listener_.get(), POLLIN, 0});
  } else {
    wakes_at = std::min(wakes_at, accepts_again_);
  }
  for (const Stranger& stranger : strangers_) {
    fds.push_back({stranger.socket.get(), POLLIN, 0});
    wakes_at = std::min(wakes_at, stranger.deadline);
  }
  {
    MutexLock lock(mu_);
    for (const auto& [connection, lender] : lenders_) {
      fds.push_back({lender->socket().get(), POLLIN, 0});
    }
    for (const auto& lender : offerers_) fds.push_back({lender->socket().get(), POLLIN, 0});
    for (const auto& borrower : borrowers_) fds.push_back({borrower->socket().get(), POLLIN, 0});
  }
  int timeout = -1;
  if (wakes_at != absl::InfiniteFuture()) {
    constexpr int64_t kMost = 60'000;
    timeout = static_cast<int>(
        std::clamp<int64_t>(absl::ToInt64Milliseconds(wakes_at - absl::Now()) + 1, 0, kMost));
  }
  (void)poll(fds.data(), fds.size(), timeout);
  uint64_t count = 0;
  (void)!read(wakes_.get(), &count, sizeof(count));
}

void SharedMemoryEndpoint::Accept() {
  if (absl::Now() < accepts_again_) return;
  accepts_again_ = absl::InfinitePast();
  for (;;) {
    absl::StatusOr<absl::optional<OwnedFd>> accepted = AcceptUnixConnection(listener_);
    if (!accepted.ok()) {
      accepts_again_ = absl::Now() + kAcceptAgainAfter;
      return;
    }
    if (!accepted->has_value()) return;
    // Most of many that come at once have said hello by now.
    if (strangers_.size() >= kMostStrangers) HearStrangers();
    if (strangers_.size() >= kMostStrangers || !CheckSameUser(**accepted).ok()) continue;
    strangers_.push_back({*std::move(*accepted), absl::Now() + kTimeToSayHello});
  }
}

void SharedMemoryEndpoint::HearStrangers() {
  std::vector<Stranger> silent;
  for (Stranger& stranger : strangers_) {
    Message message;
    const absl::StatusOr<absl::optional<ReceivedMessage>> received =
        ReceiveWithFds(stranger.socket, Room(&message));
    if (received.ok() && !received->has_value()) {
      if (absl::Now() < stranger.deadline) silent.push_back(std::move(stranger));
      continue;
    }
    if (received.ok() && (*received)->bytes == sizeof(message)) {
      Admit(std::move(stranger.socket), message);
    }
  }
  strangers_ = std::move(silent);
}

void SharedMemoryEndpoint::Admit(OwnedFd socket, const Message& hello) {
  if (!Equal(secret_, View(hello.secret))) return;
  if (hello.kind == Kind::kOffers) {
    MutexLock lock(mu_);
    borrowers_.push_back(SegmentBorrower::Accept(std::move(socket)));
    return;
  }
  if (hello.kind != Kind::kHello) return;
  absl::StatusOr<std::shared_ptr<SegmentLender>> lender =
      SegmentLender::Create(std::move(socket), shared_memory::NewSecret());
  if (!lender.ok()) return;
  MutexLock lock(mu_);
  const std::string connection(View((*lender)->connection()));
  lenders_.emplace(connection, *std::move(lender));
  next_trim_ = std::min(next_trim_, absl::Now() + kTrimEvery);
}

void SharedMemoryEndpoint::LookAfterBorrowers() {
  std::vector<std::shared_ptr<SegmentBorrower>> borrowers;
  {
    MutexLock lock(mu_);
    borrowers = borrowers_;
  }
  for (const std::shared_ptr<SegmentBorrower>& borrower : borrowers) {
    const absl::Status status = borrower->Read();
    const absl::optional<shared_memory::Secret> offering = borrower->offering();
    MutexLock lock(mu_);
    const std::string name(offering.has_value() ? View(*offering) : absl::string_view());
    if (status.ok()) {
      if (!offering.has_value()) continue;
      const auto known = accepted_.emplace(name, borrower).first;
      if (known->second == borrower) continue;
      // Another connection has the name.
      borrower->Close();
    } else if (const auto known = accepted_.find(name);
               known != accepted_.end() && known->second == borrower) {
      accepted_.erase(known);
    }
    borrowers_.erase(std::find(borrowers_.begin(), borrowers_.end(), borrower));
  }
}

void SharedMemoryEndpoint::LookAfterLenders() {
  std::vector<std::shared_ptr<SegmentLender>> gone;
  {
    MutexLock lock(mu_);
    for (auto lender = lenders_.begin(); lender != lenders_.end();) {
      // A borrower says nothing after its hello.
      if (IsReadable(lender->second->socket())) {
        gone.push_back(std::move(lender->second));
        lender = lenders_.erase(lender);
      } else {
        ++lender;
      }
    }
  }
  for (const std::shared_ptr<SegmentLender>& lender : gone) lender->Close();
}

void SharedMemoryEndpoint::LookAfterOfferers() {
  MutexLock lock(mu_);
  for (auto lender = offerers_.begin(); lender != offerers_.end();) {
    lender = (*lender)->Read().ok() ? std::next(lender) : offerers_.erase(lender);
  }
  if (!offerers_.empty()) next_trim_ = std::min(next_trim_, absl::Now() + kTrimEvery);
}

void SharedMemoryEndpoint::Trim() {
  if (absl::Now() < next_trim_) return;
  std::vector<std::shared_ptr<SegmentLender>> lenders;
  {
    MutexLock lock(mu_);
    for (const auto& [connection, lender] : lenders_) lenders.push_back(lender);
    lenders.insert(lenders.end(), offerers_.begin(), offerers_.end());
  }
  for (const std::shared_ptr<SegmentLender>& lender : lenders) (void)lender->Trim();
  next_trim_ = lenders.empty() ? absl::InfiniteFuture() : absl::Now() + kTrimEvery;
}

}  // namespace tandem
