// How a running job of several workers is, asked of its members.
#ifndef TANDEM_TOOLS_CLI_JOB_STATUS_H_
#define TANDEM_TOOLS_CLI_JOB_STATUS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/membership.pb.h"
#include "runtime/cluster/status_page.h"
#include "runtime/rpc/security.h"

namespace tandem::cli {

// What the chief says, whom any of the members (host:port) may name; or, while there is none, what
// the first member says that answers. Takes `timeout` for each member that does not. The error of
// the last one.
absl::StatusOr<membership::JobStatus> AskJob(const std::vector<std::string>& members,
                                             const Security& security, absl::Duration timeout);

// A page of it, and metrics. Errors of StatusPage::Serve.
absl::StatusOr<std::unique_ptr<StatusPage>> ServeJobStatus(int port,
                                                           std::vector<std::string> members,
                                                           Security security);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_JOB_STATUS_H_
