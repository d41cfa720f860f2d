#include "runtime/cluster/membership/status_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace tandem::membership {
namespace {

std::string State(const MemberStatus& member) {
  if (member.is_gone()) return "gone";
  if (!member.has_entered()) return "not there yet";
  std::string state = "in the group";
  if (member.waits_at_size() > 0) state = absl::StrCat("waits at ", member.waits_at(0));
  if (member.wants_to_leave()) absl::StrAppend(&state, ", wants to leave");
  return state;
}

// As a label's value.
std::string Quoted(const std::string& text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

void Metric(std::string* out, const char* name, const char* help, double value) {
  absl::StrAppendFormat(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.9g\n", name, help, name, name,
                        value);
}

}  // namespace

std::string StatusTable(const JobStatus& status) {
  const Generation& generation = status.generation();
  if (generation.number() == 0) {
    return absl::StrCat(status.self().name(), " is in no generation yet: ", status.waits_for(),
                        "\n");
  }
  std::string text =
      absl::StrCat("generation ", generation.number(), ": ", generation.members_size(), " of ",
                   status.min_members(), " to ", status.max_members(), " workers");
  if (!status.from_chief()) {
    if (generation.members_size() > 0) {
      absl::StrAppend(&text, "; ask its chief, ", generation.members(0).name(), " at ",
                      generation.members(0).address());
    }
    if (!status.waits_for().empty()) absl::StrAppend(&text, "\n", status.waits_for());
    return absl::StrCat(text, "\n");
  }
  absl::StrAppend(&text, status.started() ? ", working" : ", being formed");
  if (status.committed_step() >= 0) {
    absl::StrAppendFormat(&text, ", step %d, %.3g steps a second", status.committed_step(),
                          status.steps_per_second());
  }
  absl::StrAppend(&text, "\n");
  if (!status.broken().empty()) absl::StrAppend(&text, "it ends: ", status.broken(), "\n");
  if (status.has_sync()) {
    absl::StrAppend(&text, "after step ", status.sync().step(), " all ",
                    status.sync().save() ? "save, and " : "", "form another one\n");
  }
  std::map<std::string, std::set<std::string>> came;
  absl::StrAppendFormat(&text, "%4s  %-12s %-24s %-16s %8s %8s  %s\n", "rank", "member", "address",
                        "host", "step", "heard", "state");
  for (int rank = 0; rank < status.members_size(); ++rank) {
    const MemberStatus& member = status.members(rank);
    for (const std::string& barrier : member.waits_at()) {
      came[barrier].insert(member.member().name());
    }
    absl::StrAppendFormat(&text, "%4d  %-12s %-24s %-16s %8d %7.1fs  %s\n", rank,
                          member.member().name(), member.member().address(), member.member().host(),
                          member.completed_step(), member.silent_seconds(), State(member));
  }
  for (const auto& [barrier, names] : came) {
    std::vector<std::string> missing;
    for (const MemberStatus& member : status.members()) {
      if (names.count(member.member().name()) == 0) missing.push_back(member.member().name());
    }
    if (missing.empty()) continue;
    absl::StrAppend(&text, "barrier ", barrier, ": ", absl::StrJoin(names, ", "), " wait",
                    names.size() == 1 ? "s" : "", " for ", absl::StrJoin(missing, ", "), "\n");
  }
  for (const MemberInfo& joiner : status.joiners()) {
    absl::StrAppend(&text, joiner.name(), " at ", joiner.address(), " wants to join\n");
  }
  return text;
}

std::string StatusMetrics(const JobStatus& status) {
  std::string text;
  Metric(&text, "tandem_job_generation", "Number of the newest generation that is known here.",
         static_cast<double>(status.generation().number()));
  Metric(&text, "tandem_job_members", "Members of that generation.",
         status.generation().members_size());
  Metric(&text, "tandem_job_working", "1 while the group works, 0 while it is formed.",
         status.started() ? 1 : 0);
  // A chief that is new does not know it yet.
  if (status.committed_step() >= 0) {
    Metric(&text, "tandem_job_committed_step", "The last step that all members have completed.",
           static_cast<double>(status.committed_step()));
  }
  if (!status.from_chief()) return text;
  Metric(&text, "tandem_job_steps_per_second", "Over the last ten seconds.",
         status.steps_per_second());
  Metric(&text, "tandem_job_joiners", "Processes that want to be members.", status.joiners_size());
  const auto each = [&](const char* name, const char* help, auto value) {
    absl::StrAppendFormat(&text, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    for (const MemberStatus& member : status.members()) {
      absl::StrAppendFormat(&text, "%s{member=%s,host=%s} %.9g\n", name,
                            Quoted(member.member().name()), Quoted(member.member().host()),
                            static_cast<double>(value(member)));
    }
  };
  each("tandem_member_completed_step", "The last step that the member has completed.",
       [](const MemberStatus& member) { return member.completed_step(); });
  each("tandem_member_silent_seconds", "Time since the member was heard.",
       [](const MemberStatus& member) { return member.silent_seconds(); });
  each("tandem_member_waiting", "1 while the member waits at a barrier.",
       [](const MemberStatus& member) { return member.waits_at_size() > 0 ? 1 : 0; });
  return text;
}

}  // namespace tandem::membership
