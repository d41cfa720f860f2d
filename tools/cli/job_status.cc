#include "tools/cli/job_status.h"

#include <utility>

#include "core/base/status.h"
#include "runtime/cluster/membership/control_transport.h"
#include "runtime/cluster/membership/status_text.h"

namespace tandem::cli {
namespace {

// Of each member that a page asks.
constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

absl::StatusOr<membership::JobStatus> AskJob(const std::vector<std::string>& members,
                                             const Security& security, absl::Duration timeout) {
  absl::Status last = errors::InvalidArgument("there is no member to ask");
  for (const std::string& member : members) {
    absl::StatusOr<membership::JobStatus> status = membership::AskStatus(member, security, timeout);
    if (!status.ok()) {
      last = status.status();
      continue;
    }
    if (!status->from_chief() && status->generation().members_size() > 0) {
      absl::StatusOr<membership::JobStatus> chief =
          membership::AskStatus(status->generation().members(0).address(), security, timeout);
      // While there is no chief, what this one knows is all there is.
      if (chief.ok() && chief->from_chief()) return chief;
    }
    return status;
  }
  return last;
}

absl::StatusOr<std::unique_ptr<StatusPage>> ServeJobStatus(int port,
                                                           std::vector<std::string> members,
                                                           Security security) {
  using Text = absl::StatusOr<std::string>;
  const auto ask = [members = std::move(members), security = std::move(security)] {
    return AskJob(members, security, kPatience);
  };
  return StatusPage::Serve(
      port, {{"/", "text/html; charset=utf-8",
              [ask]() -> Text {
                const absl::StatusOr<membership::JobStatus> status = ask();
                // The page goes on asking.
                return HtmlOf("Tandem job", status.ok() ? membership::StatusTable(*status)
                                                        : std::string(status.status().message()));
              }},
             {"/metrics", StatusPage::kMetrics, [ask]() -> Text {
                TANDEM_ASSIGN_OR_RETURN(const membership::JobStatus status, ask());
                return membership::StatusMetrics(status);
              }}});
}

}  // namespace tandem::cli
