#include "runtime/cluster/job_environment.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr int kDefaultPort = 8888;
constexpr size_t kMostHosts = 100000;
constexpr char kWorker[] = "worker";

absl::StatusOr<int> Number(const GetVariable& get, const char* name, int low, int high) {
  const char* const text = get(name);
  if (text == nullptr) return errors::InvalidArgument("the variable ", name, " is not set");
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
    return errors::InvalidArgument(name, "=", text, ": a number from ", low, " to ", high,
                                   " is wanted");
  }
  return number;
}

absl::StatusOr<int> NumberOr(const GetVariable& get, const char* name, int low, int high,
                             int otherwise) {
  return get(name) == nullptr ? absl::StatusOr<int>(otherwise) : Number(get, name, low, high);
}

std::string Address(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<JobEnvironment> FromTfConfig(const GetVariable& get) {
  JobEnvironment job;
  job.source = "TF_CONFIG";
  absl::StatusOr<ClusterConfig> config = ParseClusterConfig(get("TF_CONFIG"));
  if (!config.ok()) return WithContext(config.status(), "TF_CONFIG");
  job.config = *std::move(config);
  int workers = 0;
  for (const auto& [name, tasks] : job.config.jobs) {
    if (name != "ps" && name != "evaluator") workers += static_cast<int>(tasks.size());
  }
  job.min_workers = job.max_workers = std::max(workers, 1);
  if (const char* const range = get("TANDEM_WORKERS")) {
    const auto parsed = ParseWorkerRange(range);
    if (!parsed.ok()) return WithContext(parsed.status(), "TANDEM_WORKERS");
    std::tie(job.min_workers, job.max_workers) = *parsed;
  }
  if (const char* const rendezvous = get("TANDEM_RENDEZVOUS")) {
    const auto parsed = ParseHostPort(rendezvous);
    if (!parsed.ok()) return WithContext(parsed.status(), "TANDEM_RENDEZVOUS");
    job.rendezvous = rendezvous;
  }
  return job;
}

// Ranks of whom only that of rank 0 has a known address.
absl::StatusOr<JobEnvironment> FromRank(const GetVariable& get, std::string source, int rank,
                                        int size, int local_size, int default_port) {
  JobEnvironment job;
  job.source = std::move(source);
  job.min_workers = job.max_workers = size;
  job.config.task = TaskId{kWorker, rank};
  const char* const master = get("MASTER_ADDR");
  if (master == nullptr && local_size != size) {
    return errors::InvalidArgument(
        job.source, ": the ", size, " processes are on several hosts (", local_size,
        " on this one), and the variable MASTER_ADDR, the host of rank 0, is not set");
  }
  const std::string host = master == nullptr || local_size == size ? "127.0.0.1" : master;
  TANDEM_ASSIGN_OR_RETURN(
      int port,
      NumberOr(get, "MASTER_PORT", 1, 65535 - (local_size == size ? size + 1 : 1), default_port));
  // Torchrun's agent listens at MASTER_PORT itself.
  ++port;
  if (local_size == size) {
    for (int i = 0; i < size; ++i) job.config.jobs[kWorker][i] = Address(host, port + i);
    return job;
  }
  job.rendezvous = Address(host, port);
  TANDEM_RETURN_IF_ERROR(ParseHostPort(job.rendezvous).status());
  job.serves_rendezvous = rank == 0;
  // Where others reach this process: only it knows on which host it is.
  const char* const own = get("TANDEM_HOST");
  const char* const system_name = get("HOSTNAME");
  if (rank != 0 && own == nullptr && system_name == nullptr) {
    return errors::InvalidArgument(job.source,
                                   ": the variable TANDEM_HOST, by which the others "
                                   "reach this host, is not set (nor is HOSTNAME)");
  }
  const std::string name = own != nullptr ? own : rank == 0 ? host : system_name;
  job.config.jobs[kWorker][rank] = Address(name, 0);
  return job;
}

absl::StatusOr<JobEnvironment> FromTorchrun(const GetVariable& get) {
  TANDEM_ASSIGN_OR_RETURN(const int size, Number(get, "WORLD_SIZE", 1, 1 << 20));
  TANDEM_ASSIGN_OR_RETURN(const int rank, Number(get, "RANK", 0, size - 1));
  // Without torchrun nobody may have said how many are on this host.
  TANDEM_ASSIGN_OR_RETURN(const int local, NumberOr(get, "LOCAL_WORLD_SIZE", 1, size,
                                                    get("MASTER_ADDR") == nullptr ? size
                                                    : size == 1                   ? 1
                                                                                  : 0));
  return FromRank(get, "torchrun", rank, size, local, 29500);
}

absl::StatusOr<JobEnvironment> FromOpenMpi(const GetVariable& get) {
  TANDEM_ASSIGN_OR_RETURN(const int size, Number(get, "OMPI_COMM_WORLD_SIZE", 1, 1 << 20));
  TANDEM_ASSIGN_OR_RETURN(const int rank, Number(get, "OMPI_COMM_WORLD_RANK", 0, size - 1));
  TANDEM_ASSIGN_OR_RETURN(const int local, NumberOr(get, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, size, 0));
  return FromRank(get, "Open MPI", rank, size, local, 29500);
}

absl::StatusOr<JobEnvironment> FromSlurm(const GetVariable& get) {
  JobEnvironment job;
  job.source = "Slurm";
  const bool has_step = get("SLURM_STEP_NUM_TASKS") != nullptr;
  TANDEM_ASSIGN_OR_RETURN(
      const int size, Number(get, has_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, 1 << 20));
  TANDEM_ASSIGN_OR_RETURN(const int rank, Number(get, "SLURM_PROCID", 0, size - 1));
  job.min_workers = job.max_workers = size;
  job.config.task = TaskId{kWorker, rank};
  const auto first_set = [&](const char* step, const char* whole) {
    return get(step) != nullptr ? step : whole;
  };
  const char* const hosts_name = first_set("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  const char* const counts_name = first_set("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  if (get(hosts_name) == nullptr || get(counts_name) == nullptr) {
    return errors::InvalidArgument("Slurm: the variable ",
                                   get(hosts_name) == nullptr ? hosts_name : counts_name,
                                   " is not set; start the processes with srun");
  }
  const auto hosts = ExpandHostList(get(hosts_name));
  if (!hosts.ok()) return WithContext(hosts.status(), hosts_name);
  const auto counts = ExpandTaskCounts(get(counts_name));
  if (!counts.ok()) return WithContext(counts.status(), counts_name);
  if (hosts->size() != counts->size()) {
    return errors::InvalidArgument("Slurm: ", hosts_name, "=", get(hosts_name), " names ",
                                   hosts->size(), " hosts, ", counts_name, "=", get(counts_name),
                                   " has numbers of tasks for ", counts->size());
  }
  if (const char* const order = get("SLURM_DISTRIBUTION")) {
    if (absl::StartsWith(order, "cyclic") || absl::StartsWith(order, "arbitrary") ||
        absl::StartsWith(order, "plane")) {
      return errors::InvalidArgument("Slurm: SLURM_DISTRIBUTION=", order,
                                     ": where tasks are is known for block distribution only; "
                                     "start them with srun --distribution=block");
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const int port, NumberOr(get, "TANDEM_PORT", 1, 60000, kDefaultPort));
  int next = 0;
  for (size_t host = 0; host < hosts->size(); ++host) {
    for (int i = 0; i < (*counts)[host] && next < size; ++i) {
      job.config.jobs[kWorker][next++] = Address((*hosts)[host], port + i);
    }
  }
  if (next < size) {
    return errors::InvalidArgument("Slurm: ", counts_name, "=", get(counts_name), " has ", next,
                                   " tasks; ", size, " run");
  }
  return job;
}

}  // namespace

absl::StatusOr<std::pair<int, int>> ParseWorkerRange(absl::string_view text) {
  constexpr int kMost = 10000;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  int low = 0;
  int high = 0;
  if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &low) ||
      !absl::SimpleAtoi(parts.back(), &high) || low < 1 || high < low || high > kMost) {
    return errors::InvalidArgument("'", text,
                                   "' is no number of workers; 4, or 2:4 for two to "
                                   "four, is wanted, with at most ",
                                   kMost);
  }
  return std::make_pair(low, high);
}

absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view text) {
  std::vector<std::string> hosts;
  const auto wrong = [&](absl::string_view why) {
    return errors::InvalidArgument("'", text, "' is no list of hosts: ", why);
  };
  while (!text.empty()) {
    const size_t end = text.find_first_of(",[");
    std::string prefix(text.substr(0, end));
    if (end == absl::string_view::npos || text[end] == ',') {
      if (prefix.empty()) return wrong("a name is empty");
      hosts.push_back(std::move(prefix));
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
      if (end != absl::string_view::npos && text.empty()) return wrong("a name is empty");
      continue;
    }
    const size_t close = text.find(']', end);
    if (close == absl::string_view::npos) return wrong("a bracket is not closed");
    const absl::string_view inside = text.substr(end + 1, close - end - 1);
    const absl::string_view rest = text.substr(close + 1);
    const size_t comma = rest.find(',');
    const std::string suffix(rest.substr(0, comma));
    if (absl::StrContains(suffix, '[')) return wrong("several brackets in one name");
    for (const absl::string_view range : absl::StrSplit(inside, ',')) {
      const std::pair<absl::string_view, absl::string_view> ends =
          absl::StrSplit(range, absl::MaxSplits('-', 1));
      const absl::string_view last = ends.second.empty() ? ends.first : ends.second;
      uint32_t low = 0;
      uint32_t high = 0;
      if (!absl::SimpleAtoi(ends.first, &low) || !absl::SimpleAtoi(last, &high) || high < low) {
        return wrong(absl::StrCat("'", range, "' is no range of numbers"));
      }
      if (high - low >= kMostHosts - hosts.size()) return wrong("there are too many");
      for (uint32_t number = low; number <= high; ++number) {
        std::string digits = absl::StrCat(number);
        // Leading zeros are part of the names.
        if (digits.size() < ends.first.size()) {
          digits.insert(0, ends.first.size() - digits.size(), '0');
        }
        hosts.push_back(absl::StrCat(prefix, digits, suffix));
      }
    }
    text = comma == absl::string_view::npos ? absl::string_view() : rest.substr(comma + 1);
    if (comma != absl::string_view::npos && text.empty()) return wrong("a name is empty");
  }
  if (hosts.empty()) return wrong("it is empty");
  if (hosts.size() > kMostHosts) return wrong("there are too many");
  return hosts;
}

absl::StatusOr<std::vector<int>> ExpandTaskCounts(absl::string_view text) {
  std::vector<int> counts;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::string_view whole = part;
    int times = 1;
    const size_t open = part.find("(x");
    bool good = true;
    if (open != absl::string_view::npos) {
      absl::string_view factor = part.substr(open + 2);
      good = absl::ConsumeSuffix(&factor, ")") && absl::SimpleAtoi(factor, &times) && times > 0;
      part = part.substr(0, open);
    }
    int count = 0;
    good = good && absl::SimpleAtoi(part, &count) && count > 0;
    if (!good || counts.size() + static_cast<size_t>(times) > kMostHosts) {
      return errors::InvalidArgument("'", text, "': '", whole,
                                     "' is no number of tasks, as in 2 or 2(x3)");
    }
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  }
  return counts;
}

absl::StatusOr<absl::optional<JobEnvironment>> ReadJobEnvironment(const GetVariable& get) {
  absl::StatusOr<JobEnvironment> (*read)(const GetVariable&) = nullptr;
  if (const char* const config = get("TF_CONFIG"); config != nullptr && config[0] != '\0') {
    read = FromTfConfig;
  } else if (get("RANK") != nullptr && get("WORLD_SIZE") != nullptr) {
    read = FromTorchrun;
  } else if (get("OMPI_COMM_WORLD_RANK") != nullptr) {
    read = FromOpenMpi;
  } else if (get("SLURM_PROCID") != nullptr && get("SLURM_NTASKS") != nullptr) {
    read = FromSlurm;
  }
  if (read == nullptr) return absl::optional<JobEnvironment>();
  TANDEM_ASSIGN_OR_RETURN(JobEnvironment job, read(get));
  return absl::optional<JobEnvironment>(std::move(job));
}

absl::StatusOr<absl::optional<JobEnvironment>> ReadJobEnvironment() {
  return ReadJobEnvironment([](const char* name) { return std::getenv(name); });
}

}  // namespace tandem
