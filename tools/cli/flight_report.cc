#include "tools/cli/flight_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using Key = std::tuple<int64_t, int64_t, int64_t>;  // Step, instance, phase.

struct Entry {
  Key key;
  std::string name;
  std::string kind;
  std::string what;
  std::string state;
  std::string status;
  std::string missing;
  double begun = 0;
  double ended = 0;
};

struct Member {
  std::string file;
  std::string group;
  int64_t generation = 0;
  int64_t rank = 0;
  int64_t size = 0;
  std::string name;
  std::string why;
  std::map<Key, Entry> entries;
  std::vector<Key> order;  // As they began.
  // The record reaches back to the first operation of all.
  bool is_complete = false;
};

template <typename T>
T Field(const nlohmann::json& json, const char* name, T otherwise) {
  const auto found = json.find(name);
  if (found == json.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : otherwise;
  } else {
    return found->is_number() ? found->get<T>() : otherwise;
  }
}

absl::StatusOr<Member> Read(const FlightFile& file) {
  Member member;
  member.file = file.name;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(file.text, '\n', absl::SkipEmpty())) {
    ++number;
    const nlohmann::json json =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    const bool is_head = number == 1;
    if (!json.is_object() || (is_head ? json.find("group") : json.find("seq")) == json.end()) {
      return errors::InvalidArgument("'", file.name, "' line ", number,
                                     " is not of a flight record");
    }
    if (is_head) {
      member.group = Field<std::string>(json, "group", "");
      member.generation = Field<int64_t>(json, "generation", 0);
      member.rank = Field<int64_t>(json, "rank", 0);
      member.size = Field<int64_t>(json, "size", 0);
      member.name = Field<std::string>(json, "member", "");
      member.why = Field<std::string>(json, "why", "");
      continue;
    }
    Entry entry;
    entry.key = {Field<int64_t>(json, "step", 0), Field<int64_t>(json, "instance", 0),
                 Field<int64_t>(json, "phase", 0)};
    entry.name = Field<std::string>(json, "name", "");
    entry.kind = Field<std::string>(json, "kind", "");
    entry.what = Field<std::string>(json, "what", "");
    entry.state = Field<std::string>(json, "state", "");
    entry.status = Field<std::string>(json, "status", "");
    entry.missing = Field<std::string>(json, "missing", "");
    entry.begun = Field<double>(json, "begun", 0);
    entry.ended = Field<double>(json, "ended", 0);
    if (Field<int64_t>(json, "seq", -1) == 0) member.is_complete = true;
    member.order.push_back(entry.key);
    member.entries[entry.key] = std::move(entry);
  }
  if (number == 0) return errors::InvalidArgument("'", file.name, "' is empty");
  return member;
}

std::string Describe(const Entry& entry) {
  return absl::StrCat(entry.kind, entry.name.empty() ? "" : absl::StrCat(" '", entry.name, "'"),
                      " (instance ", std::get<1>(entry.key), ", step ", std::get<0>(entry.key),
                      ")");
}

// What a member knows of an operation that others have.
std::string StateAt(const Member& member, const Key& key, bool is_before_record) {
  const auto found = member.entries.find(key);
  if (found == member.entries.end()) {
    return is_before_record ? "older than its record" : "never began it";
  }
  const Entry& entry = found->second;
  if (entry.state == "done") {
    return absl::StrFormat("done in %.3f ms", (entry.ended - entry.begun) * 1e3);
  }
  std::string text = entry.state;
  if (!entry.missing.empty()) absl::StrAppend(&text, ", waited for ", entry.missing);
  if (!entry.status.empty()) absl::StrAppend(&text, ": ", entry.status);
  return text;
}

}  // namespace

absl::StatusOr<std::string> FlightReport(const std::vector<FlightFile>& files) {
  std::vector<Member> members;
  for (const FlightFile& file : files) {
    TANDEM_ASSIGN_OR_RETURN(Member member, Read(file));
    members.push_back(std::move(member));
  }
  if (members.empty()) return errors::InvalidArgument("no flight records");
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < members.size(); ++i) {
    const Member& a = members[0];
    const Member& b = members[i];
    if (a.group != b.group || a.generation != b.generation) {
      return errors::InvalidArgument("'", a.file, "' is of group '", a.group, "' generation ",
                                     a.generation, ", '", b.file, "' of '", b.group,
                                     "' generation ", b.generation,
                                     ": only records of one generation can be compared");
    }
    if (members[i - 1].rank == b.rank) {
      return errors::InvalidArgument("'", members[i - 1].file, "' and '", b.file,
                                     "' are both of member ", b.rank);
    }
  }

  std::string text =
      absl::StrCat("group '", members[0].group, "' generation ", members[0].generation,
                   ": records of ", members.size(), " of ", members[0].size, " members\n\n");
  TextTable table({"MEMBER", "LAST DONE", "THEN", "WRITTEN BECAUSE"});
  for (const Member& member : members) {
    std::string done = "-";
    std::string then = "-";
    for (const Key& key : member.order) {
      const Entry& entry = member.entries.at(key);
      if (entry.state == "done") {
        done = Describe(entry);
      } else if (then == "-") {
        then = absl::StrCat(Describe(entry), " ", entry.state);
      }
    }
    table.AddRow({member.name, done, then, member.why});
  }
  text += table.ToString();

  // All operations, as the first member that has them began them.
  std::vector<std::pair<double, Key>> keys;
  std::set<Key> seen;
  for (const Member& member : members) {
    for (const Key& key : member.order) {
      if (!seen.insert(key).second) continue;
      double begun = member.entries.at(key).begun;
      for (const Member& other : members) {
        const auto found = other.entries.find(key);
        if (found != other.entries.end()) begun = std::min(begun, found->second.begun);
      }
      keys.emplace_back(begun, key);
    }
  }
  std::sort(keys.begin(), keys.end());

  for (const auto& [begun, key] : keys) {
    const Entry* first = nullptr;
    bool parted = false;
    std::vector<std::string> absent;
    std::map<std::string, std::vector<std::string>> by_form;
    for (const Member& member : members) {
      const auto found = member.entries.find(key);
      if (found == member.entries.end()) {
        const bool is_before_record =
            !member.is_complete &&
            (member.order.empty() || member.entries.at(member.order[0]).begun > begun);
        if (!is_before_record) absent.push_back(member.name);
        continue;
      }
      if (first == nullptr) first = &found->second;
      by_form[found->second.what].push_back(member.name);
      if (found->second.state != "done") parted = true;
    }
    if (first == nullptr || (!parted && absent.empty() && by_form.size() <= 1)) continue;
    absl::StrAppend(&text, "\nThey parted at ", Describe(*first), ":\n");
    for (const Member& member : members) {
      const bool is_before_record =
          !member.is_complete &&
          (member.order.empty() || member.entries.at(member.order[0]).begun > begun);
      absl::StrAppend(&text, "  ", member.name, ": ", StateAt(member, key, is_before_record), "\n");
    }
    if (by_form.size() > 1) {
      for (const auto& [form, names] : by_form) {
        absl::StrAppend(&text, "  ", absl::StrJoin(names, ", "), " called ", form, "\n");
      }
      text += "Members called different operations under one key.\n";
    } else if (!absent.empty()) {
      absl::StrAppend(&text, absl::StrJoin(absent, ", "),
                      " did not call it; look at what they did instead.\n");
    } else if (static_cast<int64_t>(members.size()) < members[0].size) {
      text += "All members whose records are here called it; look for those without one.\n";
    } else {
      text += "All members called it, and it did not end well everywhere.\n";
    }
    return text;
  }
  text += "\nThey agree on everything that is on record.\n";
  return text;
}

}  // namespace tandem::cli
