// The launcher as arbiter: a register in the memory of the process that started the members, which
// they reach over gRPC. `tandem launch` has one; its members find it in TANDEM_RENDEZVOUS.
//
// It outlives its members, and when it dies, so do they: so it needs no lease to know whether the
// chief lives. It says so as soon as it has seen it die (NoteEnd), and members need not wait.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "runtime/cluster/membership/arbiter.h"
#include "runtime/rpc/security.h"

namespace tandem::membership {

// In memory. Threads: any.
class MemoryArbiter final : public Arbiter {
 public:
  absl::StatusOr<ArbiterState> Read() override;
  absl::StatusOr<ArbiterState> Renew(uint64_t number, uint64_t beat) override;
  absl::StatusOr<ClaimResponse> Claim(const Generation& generation, uint64_t base) override;

  // The process with this number on this host has ended.
  void NoteEnd(const std::string& host, int64_t pid);

 private:
  Mutex mu_;
  ArbiterState state_ ABSL_GUARDED_BY(mu_);
};

class RendezvousServer {
 public:
  virtual ~RendezvousServer() = default;

  // Listens on "host:port"; port 0: one that is free. The arbiter outlives it. Unavailable: the
  // port is taken. FailedPrecondition: others could reach it without TLS and without a token.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(const std::string& address,
                                                                 const Security& security,
                                                                 Arbiter* arbiter);
  // "host:port".
  virtual std::string address() const = 0;
};

// The other end. Calls end after `timeout`; Unavailable names the address.
std::unique_ptr<Arbiter> NewRemoteArbiter(const std::string& address, const Security& security,
                                          absl::Duration timeout = absl::Seconds(2));

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_
