#include "strategies/parameter_server/serve_task.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/parameter_server/shard_client.h"
#include "runtime/rpc/server.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(300);
constexpr absl::Duration kAskTimeout = absl::Seconds(5);
constexpr absl::Duration kGrace = absl::Seconds(10);
// After a signal: the coordinator, which often is told to end at the same time, may save the
// variables, and tell the job's end.
constexpr absl::Duration kLinger = absl::Seconds(10);

std::string EndMark(const std::string& job) { return absl::StrCat(job, "/end"); }

std::atomic<int> last_signal{0};

// The first one is noted; a second one ends the process.
void OnSignal(int signal) {
  last_signal = signal;
  std::signal(signal, SIG_DFL);
}

absl::Status Ended(const std::string& why, int code) {
  absl::Status status = errors::Cancelled(why);
  status.SetPayload(kExitCodePayload, absl::Cord(absl::StrCat(code)));
  return status;
}

// Calls `call` with a client for each address, all at once.
template <typename Call>
void ForEach(const std::vector<std::string>& addresses, Call call) {
  std::vector<std::thread> threads;
  for (const std::string& address : addresses) {
    threads.emplace_back([&call, &address] {
      const absl::StatusOr<std::unique_ptr<ShardClient>> client = ShardClient::Create(address, {});
      absl::Status status = client.status();
      if (status.ok()) status = call(**client);
      if (status.ok() || absl::IsNotFound(status)) return;
      TANDEM_LOG(Debug) << address << " does not hear of the job's end: " << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::string JobOf(const ClusterConfig& config) {
  // FNV-1a.
  uint64_t hash = 14695981039346656037ull;
  const auto add = [&hash](absl::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    hash = (hash ^ 0xff) * 1099511628211ull;
  };
  for (const auto& [job, tasks] : config.jobs) {
    if (job == "evaluator") continue;  // Not every process need know of it.
    add(job);
    for (const auto& [index, address] : tasks) add(absl::StrCat(index, "=", address));
  }
  return absl::StrCat("job_", absl::Hex(hash, absl::kZeroPad16));
}

absl::Status ServeTask(const ClusterConfig& config) {
  ServerOptions options;
  options.config = config;
  options.task = *config.task;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Create(options));
  // Before any thread of the server can see one.
  last_signal = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction former {};
    sigaction(signal, nullptr, &former);
    if (former.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  TANDEM_RETURN_IF_ERROR(server->Start());
  const std::string target = server->target();
  TANDEM_LOG(Info) << options.task.ToString() << " serves at " << target
                   << " until its job has ended";
  constexpr absl::string_view kScheme = "grpc://";
  const std::string address =
      absl::StartsWith(target, kScheme) ? target.substr(kScheme.size()) : target;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<ShardClient> self,
                          ShardClient::Create(address, {}));
  const std::string mark = EndMark(JobOf(config));
  absl::Time until = absl::InfiniteFuture();
  for (;;) {
    const int signal = last_signal;
    if (signal != 0) until = std::min(until, absl::Now() + kLinger);
    if (absl::Now() >= until) {
      server->Stop(kGrace);
      return Ended(
          absl::StrCat(options.task.ToString(), " was told to end (SIG", sigabbrev_np(signal), ")"),
          128 + signal);
    }
    // NotFound: it has not.
    if (self->Report(mark, absl::Now() + kAskTimeout).ok()) {
      server->Stop(kGrace);
      return Ended(absl::StrCat(options.task.ToString(), " has served until its job had ended"), 0);
    }
    absl::SleepFor(kAskEvery);
  }
}

void MarkEnd(const std::string& job, const std::vector<std::string>& addresses,
             absl::Duration timeout) {
  ForEach(addresses, [&](ShardClient& client) {
    ShardDefinition mark;
    mark.job = EndMark(job);
    return client.Define(mark, absl::Now() + timeout).status();
  });
}

void UnmarkEnd(const std::string& job, const std::vector<std::string>& addresses,
               absl::Duration timeout) {
  ForEach(addresses,
          [&](ShardClient& client) { return client.Forget(EndMark(job), absl::Now() + timeout); });
}

}  // namespace tandem::parameter_server
