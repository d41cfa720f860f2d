// FolderArbiter: an arbiter in a folder that all members share, such as that of the checkpoints.
//
//   FOLDER/.membership/generation-12     the members of generation 12; never changed
//   FOLDER/.membership/beat              "12 345": its chief's last beat
//
// A claim writes a file under a name of its own and links it to the generation's, which succeeds
// once. Old generations are removed, but never the newest: so a claim that comes so late that its
// name is free again finds that a newer one is there, and has lost.
//
// This holds on local file systems and on NFS, where links are atomic, too. Object stores that look
// like file systems may not have links; then every claim fails, with the system's words.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FOLDER_ARBITER_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FOLDER_ARBITER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/cluster/membership/arbiter.h"

namespace tandem::membership {

class FolderArbiter final : public Arbiter {
 public:
  // Makes the folder if need be. Errors of the file system.
  static absl::StatusOr<std::unique_ptr<FolderArbiter>> Open(const std::string& folder);

  absl::StatusOr<ArbiterState> Read() override;
  absl::StatusOr<ArbiterState> Renew(uint64_t number, uint64_t beat) override;
  absl::StatusOr<ClaimResponse> Claim(const Generation& generation, uint64_t base) override;

 private:
  explicit FolderArbiter(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<uint64_t> Newest() const;
  void RemoveOld(uint64_t newest) const;

  const std::string folder_;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FOLDER_ARBITER_H_
