#include "runtime/cluster/cluster_config.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"
#include "proto/server.pb.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr int kMaxTasks = 1 << 20;

bool IsJobName(const std::string& name) {
  return !name.empty() && absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         absl::c_all_of(name, [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// A value as it stands in the document, not too much of it.
std::string Show(const Json& value) {
  constexpr size_t kShown = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShown) text = absl::StrCat(text.substr(0, kShown), "…");
  return text;
}

template <typename... Args>
absl::Status Wrong(const std::string& path, const Args&... args) {
  return errors::InvalidArgument("cluster configuration: ", path, ": ", args...);
}

absl::StatusOr<int> ParseIndex(const std::string& path, const std::string& text) {
  int index = 0;
  if (!absl::SimpleAtoi(text, &index) || index < 0 || index >= kMaxTasks ||
      absl::StrCat(index) != text) {
    return Wrong(path, "'", text, "' is no index of a task; 0 to ", kMaxTasks - 1, " are possible");
  }
  return index;
}

class Reader {
 public:
  absl::Status AddTask(const std::string& path, const std::string& job, int index,
                       const std::string& address) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
    if (!parsed.ok()) return Wrong(path, parsed.status().message());
    // Port 0 is chosen by each task for itself, so that equal addresses differ.
    const auto [other, added] = paths_.emplace(address, path);
    if (!added && parsed->port != 0) {
      return Wrong(path, "'", address, "' is the address of ", other->second, ", too");
    }
    if (!config_.jobs[job].emplace(index, address).second) {
      return Wrong(path, "task ", index, " of job '", job, "' is there twice");
    }
    return absl::OkStatus();
  }

  absl::Status CheckJob(const std::string& path, const std::string& job) const {
    if (IsJobName(job)) return absl::OkStatus();
    return Wrong(path, "'", job,
                 "' is no name of a job; letters, digits and '_' are allowed, a letter first");
  }

  absl::Status ReadCluster(const std::string& path, const Json& cluster) {
    if (!cluster.is_object()) {
      return Wrong(path, "found ", Show(cluster), "; a map from jobs to addresses is wanted");
    }
    for (const auto& [job, tasks] : cluster.items()) {
      const std::string job_path = absl::StrCat(path, ".", job);
      TANDEM_RETURN_IF_ERROR(CheckJob(job_path, job));
      config_.jobs[job];
      if (tasks.is_array()) {
        for (size_t i = 0; i < tasks.size(); ++i) {
          const std::string task_path = absl::StrCat(job_path, "[", i, "]");
          TANDEM_RETURN_IF_ERROR(AddJsonTask(task_path, job, static_cast<int>(i), tasks[i]));
        }
      } else if (tasks.is_object()) {
        for (const auto& [key, address] : tasks.items()) {
          const std::string task_path = absl::StrCat(job_path, ".", key);
          TANDEM_ASSIGN_OR_RETURN(const int index, ParseIndex(task_path, key));
          TANDEM_RETURN_IF_ERROR(AddJsonTask(task_path, job, index, address));
        }
      } else {
        return Wrong(job_path, "found ", Show(tasks),
                     "; a list of addresses, or a map from index to address, is wanted");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadTask(const Json& task) {
    if (!task.is_object()) {
      return Wrong("task", "found ", Show(task), R"(; {"type": "worker", "index": 0} is wanted)");
    }
    if (!task.contains("type") && !task.contains("index")) return absl::OkStatus();
    TaskId id;
    if (!task.contains("type") || !task["type"].is_string()) {
      return Wrong("task.type", "found ",
                   task.contains("type") ? Show(task["type"]) : std::string("nothing"),
                   "; the name of a job is wanted");
    }
    id.job = task["type"].get<std::string>();
    if (!task.contains("index")) {
      return Wrong("task.index", "found nothing; the number of this task is wanted");
    }
    const Json& index = task["index"];
    if (index.is_string()) {
      TANDEM_ASSIGN_OR_RETURN(id.index, ParseIndex("task.index", index.get<std::string>()));
    } else if (index.is_number_integer()) {
      TANDEM_ASSIGN_OR_RETURN(id.index, ParseIndex("task.index", Show(index)));
    } else {
      return Wrong("task.index", "found ", Show(index), "; a whole number is wanted");
    }
    config_.task = id;
    return absl::OkStatus();
  }

  absl::Status ReadJson(const Json& document) {
    if (!document.is_object()) {
      return Wrong("document", "found ", Show(document), "; an object is wanted");
    }
    if (document.contains("cluster") || document.contains("task")) {
      if (document.contains("cluster")) {
        TANDEM_RETURN_IF_ERROR(ReadCluster("cluster", document["cluster"]));
      }
      if (document.contains("task")) TANDEM_RETURN_IF_ERROR(ReadTask(document["task"]));
      return absl::OkStatus();
    }
    return ReadCluster("cluster", document);
  }

  absl::Status ReadMessage(const tensorflow::ClusterDef& cluster) {
    for (const tensorflow::JobDef& job : cluster.job()) {
      const std::string path = absl::StrCat("job '", job.name(), "'");
      TANDEM_RETURN_IF_ERROR(CheckJob(path, job.name()));
      if (config_.jobs.count(job.name()) > 0) return Wrong(path, "the job is there twice");
      config_.jobs[job.name()];
      // In order, so that an error does not depend on the map's.
      const std::map<int, std::string> tasks(job.tasks().begin(), job.tasks().end());
      for (const auto& [index, address] : tasks) {
        const std::string task_path = absl::StrCat(path, ", task ", index);
        TANDEM_RETURN_IF_ERROR(ParseIndex(task_path, absl::StrCat(index)).status());
        TANDEM_RETURN_IF_ERROR(AddTask(task_path, job.name(), index, address));
      }
    }
    return absl::OkStatus();
  }

  void SetTask(TaskId task) { config_.task = std::move(task); }

  absl::StatusOr<ClusterConfig> Finish() {
    for (const char* job : {"chief", "master", "evaluator"}) {
      const auto found = config_.jobs.find(job);
      if (found != config_.jobs.end() && found->second.size() > 1) {
        return Wrong(absl::StrCat("cluster.", job), "there are ", found->second.size(),
                     " tasks; one is possible");
      }
    }
    if (config_.jobs.count("chief") > 0 && config_.jobs.count("master") > 0) {
      return Wrong("cluster", "there is a chief and a master, which is its older name");
    }
    if (config_.task.has_value() && !config_.jobs.empty() &&
        config_.Address(*config_.task) == nullptr && config_.task->job != "evaluator") {
      const auto job = config_.jobs.find(config_.task->job);
      if (job == config_.jobs.end()) {
        return Wrong(
            "task.type", "there is no job '", config_.task->job, "' in the cluster; it has ",
            absl::StrJoin(config_.jobs, ", ",
                          [](std::string* out, const auto& entry) { out->append(entry.first); }));
      }
      return Wrong("task.index", "job '", config_.task->job, "' has no task ", config_.task->index,
                   "; it has ",
                   absl::StrJoin(job->second, ", ", [](std::string* out, const auto& entry) {
                     absl::StrAppend(out, entry.first);
                   }));
    }
    return std::move(config_);
  }

 private:
  absl::Status AddJsonTask(const std::string& path, const std::string& job, int index,
                           const Json& address) {
    if (!address.is_string()) {
      return Wrong(path, "found ", Show(address), R"(; "host:port" is wanted)");
    }
    return AddTask(path, job, index, address.get<std::string>());
  }

  ClusterConfig config_;
  std::map<std::string, std::string> paths_;  // Where each address stands.
};

// Text format, with nothing printed where it does not fit.
template <typename Message>
bool ParseText(const std::string& text, Message* message) {
  class Silent final : public google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  };
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(text, message);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon == absl::string_view::npos) {
    return errors::InvalidArgument("'", address, "' has no port; host:port is wanted");
  }
  absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  if (!absl::SimpleAtoi(port, &result.port) || result.port < 0 || result.port > 65535 ||
      absl::StrCat(result.port) != port) {
    return errors::InvalidArgument("'", address, "' has the port '", port,
                                   "'; a number from 0 to 65535 is wanted");
  }
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) {
      return errors::InvalidArgument("'", address, "' has a bracket that is not closed");
    }
  } else if (absl::StrContains(host, ':')) {
    return errors::InvalidArgument("'", address,
                                   "' is an IPv6 address without brackets; [host]:port is wanted");
  }
  if (host.empty() || absl::c_any_of(host, [](unsigned char c) {
        return absl::ascii_isspace(c) || absl::ascii_iscntrl(c) || c == '/' || c == ',';
      })) {
    return errors::InvalidArgument("'", address, "' has no valid host; host:port is wanted");
  }
  result.host = std::string(host);
  return result;
}

std::string TaskId::ToString() const {
  return absl::StrCat("/job:", job, "/replica:0/task:", index);
}

int ClusterConfig::num_tasks() const {
  size_t count = 0;
  for (const auto& [job, tasks] : jobs) count += tasks.size();
  return static_cast<int>(count);
}

const std::string* ClusterConfig::Address(const TaskId& task) const {
  const auto job = jobs.find(task.job);
  if (job == jobs.end()) return nullptr;
  const auto address = job->second.find(task.index);
  return address == job->second.end() ? nullptr : &address->second;
}

absl::StatusOr<ClusterConfig> FromServerDef(const tensorflow::ServerDef& def) {
  Reader reader;
  TANDEM_RETURN_IF_ERROR(reader.ReadMessage(def.cluster()));
  if (!def.job_name().empty()) reader.SetTask({def.job_name(), def.task_index()});
  return reader.Finish();
}

absl::StatusOr<ClusterConfig> ParseClusterConfig(absl::string_view document) {
  const std::string text(document);
  const absl::string_view trimmed = absl::StripLeadingAsciiWhitespace(document);
  if (trimmed.empty()) {
    return errors::InvalidArgument("cluster configuration: the document is empty");
  }
  if (trimmed[0] == '{') {
    try {
      Reader reader;
      TANDEM_RETURN_IF_ERROR(reader.ReadJson(Json::parse(text)));
      return reader.Finish();
    } catch (const Json::exception& error) {
      return errors::InvalidArgument("cluster configuration: the JSON does not parse: ",
                                     error.what());
    }
  }
  tensorflow::ServerDef server;
  if (ParseText(text, &server)) return FromServerDef(server);
  tensorflow::ClusterDef cluster;
  const bool is_cluster = ParseText(text, &cluster);
  // Of the binary forms: a ServerDef's first field is a ClusterDef, so that only one of the two
  // gives jobs with names.
  const auto names_jobs = [](const tensorflow::ClusterDef& def) {
    return def.job_size() > 0 && absl::c_all_of(def.job(), [](const tensorflow::JobDef& job) {
             return IsJobName(job.name());
           });
  };
  if (!is_cluster) {
    if (server.ParseFromString(text) && names_jobs(server.cluster())) return FromServerDef(server);
    if (!cluster.ParseFromString(text) || !names_jobs(cluster)) {
      return errors::InvalidArgument(
          "cluster configuration: it is neither JSON (which begins with '{') nor a ServerDef or "
          "ClusterDef");
    }
  }
  Reader reader;
  TANDEM_RETURN_IF_ERROR(reader.ReadMessage(cluster));
  return reader.Finish();
}

tensorflow::ServerDef ToServerDef(const ClusterConfig& config, const TaskId& task) {
  tensorflow::ServerDef def;
  for (const auto& [name, tasks] : config.jobs) {
    tensorflow::JobDef* const job = def.mutable_cluster()->add_job();
    job->set_name(name);
    for (const auto& [index, address] : tasks) (*job->mutable_tasks())[index] = address;
  }
  def.set_job_name(task.job);
  def.set_task_index(task.index);
  def.set_protocol("grpc");
  return def;
}

}  // namespace tandem
