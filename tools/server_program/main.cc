// tandem_server: one task of a cluster, serving clients' sessions until it is told to end.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server.h"
#include "tools/flags/program_flags.h"

ABSL_FLAG(
    std::string, cluster, "",
    "the cluster: JSON (a map of jobs, or a whole TF_CONFIG), a ServerDef or a ClusterDef, or "
    "the name of a file with one of them. Default: TF_CONFIG, else a cluster of one task");
ABSL_FLAG(std::string, job, "",
          "the job of this task; default: as the cluster says, or its only job");
ABSL_FLAG(int, task, -1, "the number of this task in its job; default: as the cluster says, or 0");
ABSL_FLAG(int, port, -1, "listen on this port instead of the own address's; 0 picks a free one");
ABSL_FLAG(std::string, bind, "", "listen on this address; default: loopback if the own address is");
ABSL_FLAG(std::string, devices, "",
          "devices to declare, as in CPU:2; default: TANDEM_DEVICES, or CPU:1");
ABSL_FLAG(std::string, tls_cert, "",
          "file with the server's certificate (PEM): serve over TLS; default: TANDEM_TLS_CERT");
ABSL_FLAG(std::string, tls_key, "", "file with the certificate's key; default: TANDEM_TLS_KEY");
ABSL_FLAG(std::string, tls_ca, "",
          "file with the certificates of authorities: only clients and tasks whose certificates "
          "they signed are served; default: TANDEM_TLS_CA");
ABSL_FLAG(std::string, token_file, "",
          "file with a token: only clients and tasks that send it are served; default: the token "
          "in TANDEM_TOKEN");
ABSL_FLAG(bool, insecure, false,
          "serve other machines without TLS and without a token; TANDEM_INSECURE=1 does the same");
ABSL_FLAG(
    std::string, allow_paths, "",
    "folders whose files graphs may read and write, separated by commas; default: any file, or "
    "none if other machines can reach the server");
ABSL_FLAG(int, max_message_bytes, tandem::ServerLimits().message_bytes,
          "refuse larger messages of clients and tasks");
ABSL_FLAG(int64_t, max_sessions, tandem::ServerLimits().sessions,
          "refuse more sessions of clients at once");
ABSL_FLAG(int64_t, max_graph_nodes, tandem::ServerLimits().graph_nodes,
          "refuse sessions with more nodes, those of functions included");
ABSL_FLAG(int64_t, max_request_tensor_bytes, tandem::ServerLimits().request_tensor_bytes,
          "refuse requests whose tensors (constants or feeds) take more memory");
ABSL_FLAG(int64_t, max_variable_bytes, tandem::ServerLimits().variable_bytes,
          "refuse to keep more of the variables of trainings with parameter servers, replicas of "
          "other servers' included; default: as much as there is memory");
ABSL_FLAG(absl::Duration, session_idle_limit, absl::InfiniteDuration(),
          "close sessions that have had no call for so long; default: never");
ABSL_FLAG(std::string, host_transfers, "auto",
          "values to and from tasks and clients of this host: auto, large ones through shared "
          "memory; off, in messages, as to other hosts");
ABSL_FLAG(absl::Duration, start_timeout, absl::Seconds(120),
          "how long a new session waits for tasks that cannot be reached");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(10),
          "how long running steps may go on after SIGTERM or SIGINT");

namespace tandem {
namespace {

constexpr char kUsage[] =
    R"(serves TensorFlow graphs to clients' sessions.

  tandem_server                                     one task, on a free port, which is printed
  tandem_server --port=2222                         one task on port 2222
  tandem_server --cluster=cluster.json --job=worker --task=0
  TF_CONFIG='{"cluster": {"worker": ["localhost:2222"]},
              "task": {"type": "worker", "index": 0}}' tandem_server

A client connects with tf.compat.v1.Session("grpc://localhost:2222"), in Python, and needs no change. It
may connect to any task of a cluster; its session uses all of them, whatever the order in which they
were started. `tandem local --jobs=worker:2,ps:1` starts a whole cluster on this machine.

SIGTERM, SIGINT and SIGHUP end the server: it takes no new steps, running ones get --grace. A second signal
ends it at once. The exit code is 0, or 143 when clients had sessions.)";

struct ClusterDocument {
  std::string text;
  std::string source;  // Where it comes from, for messages.
};

absl::StatusOr<ClusterDocument> FindClusterDocument() {
  const std::string flag = absl::GetFlag(FLAGS_cluster);
  if (flag.empty()) {
    if (const char* const config = std::getenv("TF_CONFIG")) {
      return ClusterDocument{config, "TF_CONFIG"};
    }
    return ClusterDocument{R"({"worker": ["localhost:0"]})", "the cluster of one task"};
  }
  // Text of a message has braces or line ends, which names of files hardly have.
  if (flag.find_first_of("{\n") != std::string::npos) return ClusterDocument{flag, "--cluster"};
  // Far more than the addresses of all tasks that there can be.
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  absl::StatusOr<std::string> text = ReadFile(PosixFileSystem(), flag, kMaxBytes);
  if (!text.ok()) return WithContext(text.status(), "--cluster");
  return ClusterDocument{*std::move(text), absl::StrCat("file '", flag, "' (--cluster)")};
}

// The task that this server is, and what to say where nothing said which one it is.
struct OwnTask {
  TaskId id;
  std::string remark;
};

absl::StatusOr<OwnTask> FindOwnTask(const ClusterConfig& config) {
  OwnTask own;
  TaskId& task = own.id;
  task = config.task.value_or(TaskId{});
  if (!absl::GetFlag(FLAGS_job).empty()) task.job = absl::GetFlag(FLAGS_job);
  if (absl::GetFlag(FLAGS_task) >= 0) task.index = absl::GetFlag(FLAGS_task);
  if (task.job.empty()) {
    if (config.jobs.size() != 1) {
      return errors::InvalidArgument(
          "the cluster has ", config.jobs.size(),
          " jobs and does not say which task this is; use --job and --task");
    }
    task.job = config.jobs.begin()->first;
  }
  const auto job = config.jobs.find(task.job);
  if (!config.task.has_value() && absl::GetFlag(FLAGS_task) < 0 && job != config.jobs.end() &&
      job->second.size() > 1) {
    own.remark = absl::StrCat(" (of ", job->second.size(),
                              " tasks of the job; nothing says which one this is: --task)");
  }
  return own;
}

// How long the server may take to end once no step runs any more.
constexpr absl::Duration kTimeToEnd = absl::Seconds(10);

// A library that waits for a thread it could not make (little memory) must not keep the process.
void EndAtTheLatestAfter(absl::Duration duration) {
  std::signal(SIGALRM, [](int) {
    constexpr char kMessage[] = "tandem_server: it did not end in time, and is ended\n";
    (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    _exit(1);
  });
  constexpr int64_t kMost = 1 << 30;
  alarm(static_cast<unsigned>(
      std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 1, kMost)));
}

// A file or connection that is opened later must not get the number of a standard stream that the
// caller closed: what is printed would go into it. Before all else, since libraries open files
// before main.
__attribute__((constructor(101))) void OpenStandardStreams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) == -1) (void)!open("/dev/null", O_RDWR);
  }
}

absl::StatusOr<HostTransfers> WantedHostTransfers() {
  const std::string flag = absl::GetFlag(FLAGS_host_transfers);
  if (flag == "auto") return HostTransfers::kAuto;
  if (flag == "off") return HostTransfers::kOff;
  return errors::InvalidArgument("--host_transfers=", flag, ": it is auto or off");
}

absl::Status Serve(bool* had_sessions) {
  TANDEM_ASSIGN_OR_RETURN(const ClusterDocument document, FindClusterDocument());
  ServerOptions options;
  absl::StatusOr<ClusterConfig> config = ParseClusterConfig(document.text);
  if (!config.ok()) return WithContext(config.status(), document.source);
  options.config = *std::move(config);
  absl::StatusOr<OwnTask> task = FindOwnTask(options.config);
  if (!task.ok()) return WithContext(task.status(), document.source);
  options.task = task->id;
  if (absl::GetFlag(FLAGS_port) > 65535 || absl::GetFlag(FLAGS_port) < -1) {
    return errors::InvalidArgument("--port=", absl::GetFlag(FLAGS_port),
                                   ": ports go from 0 to 65535");
  }
  if (absl::GetFlag(FLAGS_grace) < absl::ZeroDuration()) {
    return errors::InvalidArgument("--grace=", absl::FormatDuration(absl::GetFlag(FLAGS_grace)),
                                   ": it cannot be negative");
  }
  if (absl::GetFlag(FLAGS_start_timeout) < absl::ZeroDuration()) {
    return errors::InvalidArgument(
        "--start_timeout=", absl::FormatDuration(absl::GetFlag(FLAGS_start_timeout)),
        ": it cannot be negative");
  }
  if (absl::GetFlag(FLAGS_port) >= 0) options.port = absl::GetFlag(FLAGS_port);
  options.bind = absl::GetFlag(FLAGS_bind);
  options.devices = absl::GetFlag(FLAGS_devices);
  TANDEM_ASSIGN_OR_RETURN(
      options.security,
      LoadSecurity({absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key),
                    absl::GetFlag(FLAGS_tls_ca), absl::GetFlag(FLAGS_token_file)}));
  options.insecure = absl::GetFlag(FLAGS_insecure);
  if (const std::string folders = absl::GetFlag(FLAGS_allow_paths); !folders.empty()) {
    options.allow_paths = std::vector<std::string>(absl::StrSplit(folders, ',', absl::SkipEmpty()));
  }
  TANDEM_ASSIGN_OR_RETURN(options.host_transfers, WantedHostTransfers());
  options.limits.message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.limits.sessions = absl::GetFlag(FLAGS_max_sessions);
  options.limits.graph_nodes = absl::GetFlag(FLAGS_max_graph_nodes);
  options.limits.request_tensor_bytes = absl::GetFlag(FLAGS_max_request_tensor_bytes);
  options.limits.variable_bytes = absl::GetFlag(FLAGS_max_variable_bytes);
  options.session_idle_limit = absl::GetFlag(FLAGS_session_idle_limit);
  options.start_timeout = absl::GetFlag(FLAGS_start_timeout);

  // Before any thread is made, so that all of them leave these signals to this one.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);  // The terminal went away: as good a reason to end in order.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Create(options));
  TANDEM_RETURN_IF_ERROR(server->Start());
  // Whoever started the server waits for this line.
  std::printf("serving /job:%s/task:%d at %s%s\n", options.task.job.c_str(), options.task.index,
              server->target().c_str(), task->remark.c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return errors::ResourceExhausted("where the server listens could not be written to stdout: ",
                                     std::strerror(errno));
  }
  int signal = 0;
  sigwait(&signals, &signal);
  TANDEM_LOG(Info) << "SIG" << sigabbrev_np(signal) << ": the server ends; running steps have "
                   << absl::FormatDuration(absl::GetFlag(FLAGS_grace));
  // The next one ends the process, also when whoever started it ignores them.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
  EndAtTheLatestAfter(absl::GetFlag(FLAGS_grace) + kTimeToEnd);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  *had_sessions = server->Stop(absl::GetFlag(FLAGS_grace));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const tandem::Program program = {"tandem_server", tandem::kUsage, "server_program/main.cc"};
  if (const auto code = tandem::ParseProgramFlags(program, argc, argv)) return *code;
  bool had_sessions = false;
  const absl::Status status = tandem::Serve(&had_sessions);
  if (status.ok()) return had_sessions ? 143 : 0;
  std::fprintf(stderr, "tandem_server: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
