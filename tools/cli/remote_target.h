// What commands that run graphs on a server share: is it there, and then a session.
#ifndef TANDEM_TOOLS_CLI_REMOTE_TARGET_H_
#define TANDEM_TOOLS_CLI_REMOTE_TARGET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/graph/graph.h"
#include "runtime/rpc/remote_session.h"
#include "runtime/session/session.h"

namespace tandem::cli {

// A session on a server that answers. Unlike ConnectSession alone it does not wait for one that is
// not there: whoever sits at a terminal wants to know of a wrong address at once.
//   Unavailable       there is no server, or no such host.
//   DeadlineExceeded  after RemoteSessionOptions::start_timeout: the server does not answer, or
//                     answers but makes no session.
//   InvalidArgument   one of the device filters fits no task that answers; these are named.
// and errors of ConnectSession.
absl::StatusOr<std::unique_ptr<Session>> ConnectToServerThatAnswers(
    const std::string& target, const Graph& graph, const RemoteSessionOptions& options);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_REMOTE_TARGET_H_
