#include "tools/cli/remote_target.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/rpc/remote_server.h"

namespace tandem::cli {
namespace {

// A limit that passed on this side says nothing but that.
absl::Status ExplainTimeout(const absl::Status& status, const std::string& what,
                            absl::Duration limit) {
  if (!absl::IsDeadlineExceeded(status) || !absl::EndsWith(status.message(), "Deadline Exceeded")) {
    return status;
  }
  return errors::DeadlineExceeded(what, " within ",
                                  absl::FormatDuration(absl::Ceil(limit, absl::Milliseconds(1))));
}

absl::Status CheckFilters(const RemoteServer& server, const std::vector<std::string>& filters,
                          absl::Duration limit) {
  std::vector<DeviceName> wanted;
  for (const std::string& filter : filters) {
    absl::StatusOr<DeviceName> name = DeviceName::Parse(filter);
    if (!name.ok()) return WithContext(name.status(), absl::StrCat("filter '", filter, "'"));
    wanted.push_back(*std::move(name));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<RemoteDevice> devices, server.ListDevices(limit));
  std::vector<DeviceName> names;
  std::set<std::string> tasks;
  for (const RemoteDevice& device : devices) {
    absl::StatusOr<DeviceName> name = DeviceName::Parse(device.name);
    if (!name.ok()) continue;
    tasks.insert(name->TaskName());
    names.push_back(*std::move(name));
  }
  for (size_t i = 0; i < filters.size(); ++i) {
    const bool fits = absl::c_any_of(
        names, [&](const DeviceName& name) { return AreCompatible(wanted[i], name); });
    if (fits) continue;
    return errors::InvalidArgument("filter '", filters[i],
                                   "' fits none of the tasks that answer, which are ",
                                   absl::StrJoin(tasks, ", "));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> ConnectToServerThatAnswers(
    const std::string& target, const Graph& graph, const RemoteSessionOptions& options) {
  // A server that is there answers at once, however long it waits for its cluster.
  constexpr absl::Duration kTimeToAnswer = absl::Seconds(10);
  const absl::Time end = absl::Now() + options.start_timeout;
  const absl::Duration to_answer = std::min(options.start_timeout, kTimeToAnswer);
  TANDEM_ASSIGN_OR_RETURN(const RemoteServer server, RemoteServer::Create(target));
  absl::Status status = server.OwnDevices(to_answer).status();
  if (status.ok() && !options.device_filters.empty()) {
    status = CheckFilters(server, options.device_filters, to_answer);
  }
  if (!status.ok()) {
    return ExplainTimeout(status, absl::StrCat(target, ": no server answered"), to_answer);
  }
  RemoteSessionOptions left = options;
  left.start_timeout = std::max(end - absl::Now(), absl::Milliseconds(1));
  absl::StatusOr<std::unique_ptr<Session>> session = ConnectSession(target, graph, left);
  if (session.ok()) return session;
  return ExplainTimeout(
      session.status(),
      absl::StrCat(target,
                   ": the server answers, but made no session (its log names the tasks of the "
                   "cluster that it waits for)"),
      options.start_timeout);
}

}  // namespace tandem::cli
