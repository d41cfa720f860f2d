// tandem bench collectives: how quick collectives are between processes of this machine.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/collective/group.h"
#include "runtime/collective/key_value_store.h"
#include "tools/cli/command.h"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using collective::Group;
using collective::GroupOptions;
using collective::Kind;

constexpr char kHelp[] =
    "tandem bench collectives [OPTION…]\n\n"
    "Measures collective operations of float32 values between processes on this machine. All of\n"
    "them meet at a barrier before each operation; the median time of the first process counts.\n"
    "Algorithm bandwidth is the size over the time; bus bandwidth, as nccl-tests define it, is "
    "what\n"
    "each link would have to carry: 2(n-1)/n times as much for an all-reduce, (n-1)/n for\n"
    "reduce-scatter, all-gather and all-to-all. 1 GB is 10^9 bytes.\n\n"
    "  --members=2,4           numbers of processes (default: 2,4)\n"
    "  --sizes=1K,256K,4M      bytes (default: 1K,16K,256K,4M,16M,64M)\n"
    "  --transport=auto        auto (shared memory), shm, tcp\n"
    "  --algorithms=ring,…     algorithms, or all (default: the one that the group would choose)\n"
    "  --operation=all-reduce  all-reduce, reduce, reduce-scatter, all-gather, broadcast,\n"
    "                          all-to-all or barrier\n"
    "  --rounds=N              operations of each size (default: 200 below 4M, else 20)\n"
    "  --measure               measure the group's table of algorithms first, and print it\n"
    "  --json                  a JSON object for each line\n\n"
    "Examples:\n"
    "  tandem bench collectives\n"
    "  tandem bench collectives --transport=tcp --algorithms=all --sizes=1K,1M\n";

struct Plan {
  std::vector<int> members = {2, 4};
  std::vector<int64_t> sizes;
  std::vector<std::string> algorithms = {""};
  std::string transport = "auto";
  Kind kind = Kind::kAllReduce;
  int rounds = 0;
  bool measures = false;
  bool json = false;
};

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  int64_t unit = 1;
  if (!text.empty()) {
    const size_t suffix = absl::string_view("KMG").find(text.back());
    if (suffix != absl::string_view::npos) {
      unit = int64_t{1} << (10 * (suffix + 1));
      text.remove_suffix(1);
    }
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > (int64_t{1} << 34) / unit) {
    return errors::InvalidArgument("--sizes: '", text, "' is no number of bytes up to 16G");
  }
  return value * unit;
}

absl::StatusOr<Plan> ParsePlan(const Arguments& arguments) {
  Plan plan;
  if (arguments.Has("members")) {
    plan.members.clear();
    for (const absl::string_view text : absl::StrSplit(arguments.Last("members"), ',')) {
      int members = 0;
      if (!absl::SimpleAtoi(text, &members) || members < 1 || members > 64) {
        return errors::InvalidArgument("--members: '", text, "' is no number from 1 to 64");
      }
      plan.members.push_back(members);
    }
  }
  const std::string sizes = arguments.Last("sizes", "1K,16K,256K,4M,16M,64M");
  for (const absl::string_view text : absl::StrSplit(sizes, ',')) {
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, ParseSize(text));
    plan.sizes.push_back(size);
  }
  plan.transport = arguments.Last("transport", "auto");
  TANDEM_RETURN_IF_ERROR(collective::ParseTransportKind(plan.transport).status());
  if (plan.transport == "inprocess") {
    return errors::InvalidArgument("--transport: processes are measured; auto, shm or tcp");
  }
  const std::string algorithms = arguments.Last("algorithms");
  if (!algorithms.empty()) plan.algorithms.clear();
  if (algorithms == "all") {
    for (const collective::Algorithm* algorithm : collective::Algorithms()) {
      plan.algorithms.push_back(algorithm->name);
    }
  } else if (!algorithms.empty()) {
    for (const absl::string_view name : absl::StrSplit(algorithms, ',')) {
      TANDEM_RETURN_IF_ERROR(collective::ChoiceTable().Pin(name));
      plan.algorithms.emplace_back(name);
    }
  }
  const std::string operation = arguments.Last("operation", "all-reduce");
  bool found = false;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter, Kind::kAllGather,
                          Kind::kBroadcast, Kind::kAllToAll, Kind::kBarrier}) {
    if (operation != collective::KindName(kind)) continue;
    plan.kind = kind;
    found = true;
  }
  if (!found) return errors::InvalidArgument("--operation: there is no '", operation, "'");
  if (plan.kind == Kind::kBarrier) plan.sizes = {0};
  if (arguments.Has("rounds") &&
      (!absl::SimpleAtoi(arguments.Last("rounds"), &plan.rounds) || plan.rounds < 1)) {
    return errors::InvalidArgument("--rounds: '", arguments.Last("rounds"),
                                   "' is no number from 1 on");
  }
  plan.measures = arguments.Has("measure");
  plan.json = arguments.Has("json");
  return plan;
}

double BusFactor(Kind kind, int members) {
  const double n = members;
  switch (kind) {
    case Kind::kAllReduce:
      return 2 * (n - 1) / n;
    case Kind::kReduceScatter:
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return (n - 1) / n;
    default:
      return 1;
  }
}

// The median of one form of operation, in seconds.
absl::StatusOr<double> Measure(Group& group, const Plan& plan, int64_t bytes, int64_t* step) {
  constexpr int kWarmUp = 5;
  const int64_t size = group.size();
  const bool has_shares = plan.kind == Kind::kAllGather || plan.kind == Kind::kReduceScatter ||
                          plan.kind == Kind::kAllToAll;
  const int64_t values = bytes / static_cast<int64_t>(sizeof(float));
  const int64_t count = has_shares ? values / size : values;
  std::vector<float> input(static_cast<size_t>(values) + 1, 1.f);
  std::vector<float> output(has_shares ? input.size() : 0);
  const int rounds = plan.rounds > 0 ? plan.rounds : bytes < (4 << 20) ? 200 : 20;
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + rounds; ++i) {
    TANDEM_RETURN_IF_ERROR(group.Barrier(1, ++*step));
    collective::Request request;
    request.kind = plan.kind;
    request.count = count;
    request.input = input.data();
    request.output = has_shares ? output.data() : input.data();
    request.instance = 2;
    request.step = *step;
    request.name = "bench";
    const auto begin = std::chrono::steady_clock::now();
    TANDEM_RETURN_IF_ERROR(group.Run(std::move(request)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i >= kWarmUp) seconds.push_back(took.count());
    if (i % 16 == 15) std::fill(input.begin(), input.end(), 1.f);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<size_t>(rounds / 2)];
}

// One process. The first writes its results to `out`: bytes, seconds and algorithm, a line each.
absl::Status RunMember(const Plan& plan, GroupOptions options, const std::string& folder,
                       std::FILE* out) {
  collective::FolderStore store(folder);
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Group> group, Group::Form(options, &store));
  if (options.rank == 0 && plan.measures) {
    std::fprintf(out, "table\n%send\n", group->choices().ToString().c_str());
  }
  int64_t step = 0;
  for (const int64_t bytes : plan.sizes) {
    collective::Problem problem;
    problem.kind = plan.kind;
    problem.size = group->size();
    problem.count = bytes / static_cast<int64_t>(sizeof(float));
    problem.counts.assign(static_cast<size_t>(group->size() * group->size()), 0);
    problem.hosts = group->hosts();
    const collective::Algorithm* const algorithm = group->choices().Choose(problem, bytes);
    // Another one than was asked for: it does not solve this.
    if (!options.algorithm.empty() && options.algorithm != algorithm->name) continue;
    TANDEM_ASSIGN_OR_RETURN(const double seconds, Measure(*group, plan, bytes, &step));
    if (options.rank == 0) {
      std::fprintf(
          out, "%lld %.9f %s %s\n", static_cast<long long>(bytes), seconds, algorithm->name,
          group->size() > 1 ? absl::StrReplaceAll(group->TransportTo(1), {{" ", "_"}}).c_str()
                            : "none");
      std::fflush(out);
    }
  }
  return group->Barrier(1, ++step);
}

void PrintLine(const Plan& plan, int members, const std::string& line, TextTable* table) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  int64_t bytes = 0;
  double seconds = 0;
  if (words.size() != 4 || !absl::SimpleAtoi(words[0], &bytes) ||
      !absl::SimpleAtod(words[1], &seconds) || seconds <= 0) {
    return;
  }
  const double algorithm_bandwidth = static_cast<double>(bytes) / seconds / 1e9;
  const double bus_bandwidth = algorithm_bandwidth * BusFactor(plan.kind, members);
  if (plan.json) {
    nlohmann::ordered_json json;
    json["operation"] = collective::KindName(plan.kind);
    json["members"] = members;
    json["bytes"] = bytes;
    json["transport"] = words[3];
    json["algorithm"] = words[2];
    json["microseconds"] = seconds * 1e6;
    json["algorithm_gb_per_s"] = algorithm_bandwidth;
    json["bus_gb_per_s"] = bus_bandwidth;
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
    return;
  }
  table->AddRow({absl::StrCat(members), absl::StrCat(bytes), words[3], words[2],
                 absl::StrFormat("%.1f", seconds * 1e6),
                 absl::StrFormat("%.3f", algorithm_bandwidth),
                 absl::StrFormat("%.3f", bus_bandwidth)});
}

// Starts the processes of one group and waits for them.
absl::Status RunGroup(const Plan& plan, int members, const std::string& algorithm,
                      TextTable* table) {
  std::string folder = "/tmp/tandem-bench.XXXXXX";
  int results[2] = {-1, -1};
  if (mkdtemp(&folder[0]) == nullptr || pipe(results) != 0) {
    return absl::ErrnoToStatus(errno, "a folder or a pipe for the measurement cannot be made");
  }
  GroupOptions options;
  options.key = "bench";
  options.algorithm = algorithm;
  options.measures = plan.measures;
  options.transport = *collective::ParseTransportKind(plan.transport);
  for (int i = 0; i < members; ++i) {
    options.members.push_back({absl::StrCat("worker:", i), "127.0.0.1", 0});
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < members; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      close(results[0]);
      options.rank = rank;
      std::FILE* const out = fdopen(results[1], "w");
      const absl::Status status = RunMember(plan, options, folder, out);
      std::fflush(out);
      if (!status.ok()) {
        std::fprintf(stderr, "worker:%d: %s\n", rank, std::string(status.message()).c_str());
      }
      _exit(status.ok() ? 0 : 1);
    }
    if (child > 0) children.push_back(child);
  }
  close(results[1]);
  std::FILE* const in = fdopen(results[0], "r");
  char line[512];
  bool in_table = false;
  while (std::fgets(line, sizeof(line), in) != nullptr) {
    const std::string text(absl::StripTrailingAsciiWhitespace(line));
    if (text == "table" || text == "end") {
      in_table = text == "table";
    } else if (in_table) {
      std::fprintf(plan.json ? stderr : stdout, "# %d members: %s\n", members, text.c_str());
    } else {
      PrintLine(plan, members, text, table);
    }
  }
  std::fclose(in);
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) == child && status != 0) ++failed;
  }
  std::error_code not_removed;
  std::filesystem::remove_all(folder, not_removed);
  if (not_removed) std::fprintf(stderr, "%s is left over\n", folder.c_str());
  if (failed > 0 || children.size() < static_cast<size_t>(members)) {
    return errors::Internal(failed, " of ", members, " processes failed");
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse(words,
                       {"members", "sizes", "transport", "algorithms", "operation", "rounds"},
                       {"measure", "json"}));
  if (arguments.positional() != std::vector<std::string>{"collectives"}) {
    return errors::InvalidArgument("what is to be measured? tandem bench collectives");
  }
  TANDEM_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(arguments));
  TextTable table(
      {"MEMBERS", "BYTES", "TRANSPORT", "ALGORITHM", "MICROSECONDS", "ALG GB/S", "BUS GB/S"});
  for (const int members : plan.members) {
    for (const std::string& algorithm : plan.algorithms) {
      TANDEM_RETURN_IF_ERROR(RunGroup(plan, members, algorithm, &table));
    }
  }
  if (!plan.json) std::printf("%s", table.ToString().c_str());
  return absl::OkStatus();
}

}  // namespace

const Command kBenchCommand = {"bench", "measures collectives between processes", kHelp, Run};

}  // namespace tandem::cli
