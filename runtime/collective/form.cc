// Group::Form: members tell each other where they are, and connect.
//
// In the store, below "<key>/<generation>/":
//   nonce        what members show each other when they connect; by member 0
//   member/<r>   where and what member r is: {"incarnation":…,"host":…,"shm":…,"tcp":…,"build":…}
//   choices      the table of algorithms; by member 0
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "nlohmann/json.hpp"
#include "runtime/collective/group.h"
#include "runtime/collective/key_value_store.h"
#include "runtime/collective/measure.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/shm/shm.h"
#include "runtime/transport/tcp/tcp.h"

namespace tandem::collective {
namespace {

constexpr absl::Duration kBetweenLines = absl::Seconds(5);

// What two processes of one host, and no others, have in common: the kernel's boot, and the network
// namespace, beyond which no Unix socket reaches.
std::string HostId() {
  if (const char* const value = std::getenv("TANDEM_HOST_ID")) return value;
  std::string id;
  char text[256];
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t got = read(fd, text, sizeof(text));
    if (got > 0) id.append(text, static_cast<size_t>(got));
    close(fd);
  }
  const ssize_t got = readlink("/proc/self/ns/net", text, sizeof(text));
  if (got > 0) id.append(text, static_cast<size_t>(got));
  if (id.empty() && gethostname(text, sizeof(text)) == 0) id = text;
  return id;
}

// What the bits of a result may depend on besides the values.
std::string Build() {
  std::string build = absl::StrCat("tandem ", kVersion);
#if defined(__x86_64__)
  // Libraries pick among these when they run.
  for (const auto& [name, is_there] :
       {std::make_pair("avx2", __builtin_cpu_supports("avx2") != 0),
        std::make_pair("fma", __builtin_cpu_supports("fma") != 0),
        std::make_pair("avx512f", __builtin_cpu_supports("avx512f") != 0),
        std::make_pair("avx512vnni", __builtin_cpu_supports("avx512vnni") != 0)}) {
    if (is_there) absl::StrAppend(&build, " ", name);
  }
#endif
  return build;
}

struct Endpoint {
  uint64_t incarnation = 0;
  std::string host;
  std::string shm;
  std::string tcp;
  std::string build;
};

std::string ToText(const Endpoint& endpoint) {
  nlohmann::json json;
  json["incarnation"] = endpoint.incarnation;
  json["host"] = endpoint.host;
  json["shm"] = endpoint.shm;
  json["tcp"] = endpoint.tcp;
  json["build"] = endpoint.build;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Endpoint> FromText(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  Endpoint endpoint;
  const auto string = [&json](const char* name, std::string* value) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string()) return false;
    *value = found->get<std::string>();
    return true;
  };
  const auto read = [&] {
    if (!json.is_object()) return false;
    const auto incarnation = json.find("incarnation");
    if (incarnation == json.end() || !incarnation->is_number_unsigned()) return false;
    endpoint.incarnation = incarnation->get<uint64_t>();
    return string("host", &endpoint.host) && string("shm", &endpoint.shm) &&
           string("tcp", &endpoint.tcp) && string("build", &endpoint.build);
  };
  if (!read()) return errors::InvalidArgument("'", text, "' is no description of a member");
  return endpoint;
}

absl::Status CheckOptions(const GroupOptions& options) {
  const int size = static_cast<int>(options.members.size());
  if (size < 1 || options.rank < 0 || options.rank >= size) {
    return errors::InvalidArgument("group '", options.key, "': member ", options.rank, " of ",
                                   size);
  }
  if (options.transport == TransportKind::kInProcess &&
      (options.hub == nullptr || options.hub->size() != size)) {
    return errors::InvalidArgument("group '", options.key,
                                   "': members of one process share a hub of their number");
  }
  if (options.timeout <= absl::ZeroDuration() || options.heartbeat <= absl::ZeroDuration() ||
      options.lost_after < 2 * options.heartbeat) {
    return errors::InvalidArgument(
        "group '", options.key, "': timeout ", absl::FormatDuration(options.timeout),
        ", heartbeat ", absl::FormatDuration(options.heartbeat), ", lost after ",
        absl::FormatDuration(options.lost_after),
        "; all are more than nothing, and the last at least two heartbeats");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> Group::Form(GroupOptions options, KeyValueStore* store,
                                                   const std::function<absl::Status()>& check) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  ChoiceTable pinned;
  if (!options.algorithm.empty()) TANDEM_RETURN_IF_ERROR(pinned.Pin(options.algorithm));
  const int size = static_cast<int>(options.members.size());
  const absl::Time deadline = absl::Now() + options.form_timeout;
  const std::string base = absl::StrCat(options.key, "/", options.generation, "/");
  const auto describe = [&options](int rank) {
    const Member& member = options.members[static_cast<size_t>(rank)];
    return absl::StrCat(member.name, " on ", member.host);
  };
  // What a member has put into the store.
  const auto get = [&](const std::string& key, int rank) -> absl::StatusOr<std::string> {
    absl::Time say_at = absl::Now() + kBetweenLines;
    absl::StatusOr<std::string> value = errors::Unknown("");
    while (true) {
      const absl::Time until =
          check ? std::min(deadline, absl::Now() + transport::kBetweenChecks) : deadline;
      value = store->Get(key, until);
      if (!absl::IsDeadlineExceeded(value.status()) || until == deadline) break;
      TANDEM_RETURN_IF_ERROR(check());
      if (absl::Now() < say_at) continue;
      say_at += kBetweenLines;
      TANDEM_LOG(Warning) << "group '" << options.key << "' generation " << options.generation
                          << " waits for " << describe(rank) << " to connect";
    }
    if (value.ok()) return value;
    const std::string who = absl::StrCat("group '", options.key, "' generation ",
                                         options.generation, ": ", describe(rank));
    return WithContext(
        value.status(),
        absl::IsDeadlineExceeded(value.status())
            ? absl::StrCat(who, " did not come within ", absl::FormatDuration(options.form_timeout))
            : absl::StrCat(who, " was waited for"));
  };
  const bool is_alone = size == 1;
  const bool is_in_process = options.transport == TransportKind::kInProcess;

  // Listen first, then say where.
  Endpoint own;
  own.incarnation = options.members[static_cast<size_t>(options.rank)].incarnation;
  own.host = options.host_id.empty() ? HostId() : options.host_id;
  own.build = Build();
  std::unique_ptr<transport::ShmListener> shm;
  std::unique_ptr<transport::TcpListener> tcp;
  absl::Status no_tcp;
  if (!is_alone && !is_in_process) {
    if (options.transport != TransportKind::kTcp) {
      TANDEM_ASSIGN_OR_RETURN(shm, transport::ShmListener::Create(size));
      own.shm = shm->name();
    }
    if (options.transport != TransportKind::kSharedMemory) {
      transport::TcpOptions tcp_options;
      tcp_options.host = options.members[static_cast<size_t>(options.rank)].host;
      tcp_options.connections = options.tcp_connections;
      tcp_options.requires_tls = options.requires_tls;
      auto listener = transport::TcpListener::Create(tcp_options);
      // Where all members share a host nobody needs it.
      no_tcp = listener.status();
      if (!listener.ok() && options.transport == TransportKind::kTcp) return no_tcp;
      if (listener.ok()) {
        tcp = *std::move(listener);
        own.tcp = tcp->address();
      }
    }
  }
  std::vector<Endpoint> endpoints(static_cast<size_t>(size));
  endpoints[static_cast<size_t>(options.rank)] = own;
  std::string nonce = options.nonce;
  if (!is_alone) {
    if (nonce.empty() && options.rank == 0) {
      nonce = transport::NewNonce();
      TANDEM_RETURN_IF_ERROR(store->Put(base + "nonce", nonce));
    }
    TANDEM_RETURN_IF_ERROR(store->Put(absl::StrCat(base, "member/", options.rank), ToText(own)));
    if (nonce.empty()) {
      TANDEM_ASSIGN_OR_RETURN(nonce, get(base + "nonce", 0));
    }
    for (int rank = 0; rank < size; ++rank) {
      if (rank == options.rank) continue;
      TANDEM_ASSIGN_OR_RETURN(const std::string text,
                              get(absl::StrCat(base, "member/", rank), rank));
      absl::StatusOr<Endpoint> endpoint = FromText(text);
      if (!endpoint.ok()) return WithContext(endpoint.status(), describe(rank));
      const uint64_t expected = options.members[static_cast<size_t>(rank)].incarnation;
      if (expected != 0 && endpoint->incarnation != expected) {
        return errors::FailedPrecondition(
            "group '", options.key, "' generation ", options.generation, ": ", describe(rank),
            " is incarnation ", endpoint->incarnation, ", expected was ", expected,
            ": its process was started again since the members were counted");
      }
      if (options.is_deterministic && endpoint->build != own.build) {
        return errors::FailedPrecondition(
            "deterministic mode needs equal machines and versions at all members: ", describe(rank),
            " has '", endpoint->build, "', ", describe(options.rank), " has '", own.build, "'");
      }
      endpoints[static_cast<size_t>(rank)] = *std::move(endpoint);
    }
  }

  std::vector<int> hosts;
  std::map<std::string, int> numbers;
  for (const Endpoint& endpoint : endpoints) {
    hosts.push_back(numbers.emplace(endpoint.host, static_cast<int>(numbers.size())).first->second);
  }
  transport::Identity identity;
  identity.group = options.key;
  identity.generation = options.generation;
  identity.nonce = nonce;
  identity.rank = options.rank;
  for (const Member& member : options.members) {
    identity.members.push_back({member.name, member.host});
  }

  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<int> of_peer(static_cast<size_t>(size), 0);
  if (!is_alone && is_in_process) {
    transports.push_back(
        std::make_unique<transport::InProcessTransport>(options.hub, options.rank));
  } else if (!is_alone) {
    std::vector<transport::ShmAddress> locals;
    std::vector<transport::TcpAddress> remotes;
    for (int rank = 0; rank < size; ++rank) {
      const Endpoint& endpoint = endpoints[static_cast<size_t>(rank)];
      const bool is_local =
          options.transport == TransportKind::kSharedMemory ||
          (options.transport == TransportKind::kAuto &&
           hosts[static_cast<size_t>(rank)] == hosts[static_cast<size_t>(options.rank)]);
      if (is_local) locals.push_back({rank, endpoint.shm});
      if (!is_local && rank != options.rank) remotes.push_back({rank, endpoint.tcp});
    }
    if (!remotes.empty() && tcp == nullptr) return no_tcp;
    if (locals.size() > 1) {
      TANDEM_ASSIGN_OR_RETURN(
          auto connected, transport::ConnectShm(std::move(shm), identity, locals, deadline, check));
      for (const auto& local : locals) {
        of_peer[static_cast<size_t>(local.rank)] = static_cast<int>(transports.size());
      }
      transports.push_back(std::move(connected));
    }
    if (!remotes.empty()) {
      TANDEM_ASSIGN_OR_RETURN(auto connected, transport::ConnectTcp(std::move(tcp), identity,
                                                                    remotes, deadline, check));
      for (const auto& remote : remotes) {
        of_peer[static_cast<size_t>(remote.rank)] = static_cast<int>(transports.size());
      }
      transports.push_back(std::move(connected));
    }
  }
  const absl::Duration timeout = options.form_timeout;
  auto group = std::make_unique<Group>(options, hosts, std::move(transports), std::move(of_peer));
  // What member 0 has, everybody has.
  if (!is_alone) TANDEM_RETURN_IF_ERROR(AgreeOnChoices(*group, timeout));
  if (!options.algorithm.empty()) {
    ChoiceTable table = group->choices();
    TANDEM_RETURN_IF_ERROR(table.Pin(options.algorithm));
    group->SetChoices(std::move(table));
  }
  return group;
}

}  // namespace tandem::collective
