// SharedMemoryEndpoint: through which a process lends values to others of its host, and borrows
// theirs.
//
// It listens on a Unix socket of a name of its own. Whoever is to borrow from it, or to lend to it,
// is told the name and a secret by other means; a process of another user, or one that does not
// know the secret, is turned away. A process that is gone is noticed at once, and what was lent to
// it is used again.
//
// Threads: any. It has one of its own, which waits for connections and their ends.
// Lifetime: lenders and borrowers may outlive it; their connections end with it.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_ENDPOINT_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_ENDPOINT_H_

#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "runtime/transport/shared_memory/segment_borrower.h"
#include "runtime/transport/shared_memory/segment_lender.h"

namespace tandem {

class SharedMemoryEndpoint {
 public:
  // A smaller value is in a message as quickly.
  static constexpr size_t kLeastLentBytes = size_t{32} << 10;

  // `least_lent_bytes`: smaller values are not worth lending. Errors: the system lets this process
  // have no such socket, or no thread.
  static absl::StatusOr<std::unique_ptr<SharedMemoryEndpoint>> Create(
      size_t least_lent_bytes = kLeastLentBytes);
  ~SharedMemoryEndpoint();

  size_t least_lent_bytes() const { return least_lent_bytes_; }

  // What another process needs for Connect.
  const std::string& socket_name() const { return socket_name_; }
  absl::string_view secret() const { return shared_memory::View(secret_); }

  // A connection to another process's endpoint; it can be used (NewRequest) when that one has
  // answered. Unavailable: no such socket can be seen from here, as on another host.
  // PermissionDenied: the other process is another user's. InvalidArgument: `secret` is none.
  // `most_held_bytes`: SegmentBorrower::Create.
  absl::StatusOr<std::shared_ptr<SegmentBorrower>> Connect(
      absl::string_view socket_name, absl::string_view secret,
      size_t most_held_bytes = std::numeric_limits<size_t>::max());
  // A connection over which values are offered to another process's endpoint, once that one has
  // accepted. Errors: as Connect's, and those of SegmentLender::CreateOffering.
  absl::StatusOr<std::shared_ptr<SegmentLender>> ConnectToOffer(absl::string_view socket_name,
                                                                absl::string_view secret);

  // The lender to the process that calls itself so (Request::connection); null: there is none, any
  // more.
  std::shared_ptr<SegmentLender> FindLender(absl::string_view connection);
  // Takes what the process offers that calls itself so (SegmentLender::connection); null: there is
  // none, any more.
  std::shared_ptr<SegmentBorrower> FindBorrower(absl::string_view connection);

 private:
  // A connection that was accepted and has not said hello.
  struct Stranger {
    OwnedFd socket;
    absl::Time deadline;
  };

  SharedMemoryEndpoint(size_t least_lent_bytes, std::string socket_name, OwnedFd listener,
                       OwnedFd wakes);

  void Serve();
  // Waits until something has happened.
  void Wait();
  void Accept();
  // What strangers, borrowers and lenders have sent.
  void HearStrangers();
  // Answers one that knows the secret; others are sent away.
  void Admit(OwnedFd socket, const shared_memory::Message& hello);
  void LookAfterBorrowers();
  void LookAfterLenders();
  void LookAfterOfferers();
  static absl::StatusOr<OwnedFd> ConnectTo(absl::string_view socket_name, absl::string_view secret,
                                           shared_memory::Secret* known);
  void Trim();
  void Wake();

  const size_t least_lent_bytes_;
  const std::string socket_name_;
  const shared_memory::Secret secret_;
  const OwnedFd listener_;
  const OwnedFd wakes_;  // An eventfd.
  // Of the thread alone.
  std::vector<Stranger> strangers_;
  absl::Time accepts_again_ = absl::InfinitePast();
  absl::Time next_trim_ = absl::InfiniteFuture();

  Mutex mu_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, std::shared_ptr<SegmentLender>, std::less<>> lenders_ ABSL_GUARDED_BY(mu_);
  // Lenders of this process that offer values to others.
  std::vector<std::shared_ptr<SegmentLender>> offerers_ ABSL_GUARDED_BY(mu_);
  // Both kinds; those that take offers also by the name of their lender.
  std::vector<std::shared_ptr<SegmentBorrower>> borrowers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<SegmentBorrower>, std::less<>> accepted_
      ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_ENDPOINT_H_
