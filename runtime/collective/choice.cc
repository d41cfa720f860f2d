#include "runtime/collective/choice.h"

#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace tandem::collective {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduce,    Kind::kReduceScatter,
                           Kind::kAllGather, Kind::kBroadcast, Kind::kAllToAll,
                           Kind::kBarrier};

std::string NamesOfAlgorithms() {
  return absl::StrJoin(Algorithms(), ", ", [](std::string* out, const Algorithm* algorithm) {
    out->append(algorithm->name);
  });
}

}  // namespace

ChoiceTable ChoiceTable::Default(int size, const std::vector<int>& hosts) {
  ChoiceTable table;
  const std::set<int> distinct(hosts.begin(), hosts.end());
  const bool is_spread = distinct.size() > 1 && distinct.size() < hosts.size();
  // Where one member sends everything to one other, the fewest steps are also the fewest bytes; but
  // a large all-reduce in place would take memory of its own.
  if (size <= 2) {
    for (const Kind kind : kKinds) table.Set(kind, kAll, "one_shot");
    table.Set(Kind::kAllReduce, 128 << 10, "one_shot");
    table.Set(Kind::kAllReduce, kAll, "halving_doubling");
    return table;
  }
  table.Set(Kind::kAllReduce, 8 << 10, "one_shot");
  if (is_spread) {
    table.Set(Kind::kAllReduce, kAll, "hierarchical");
  } else {
    table.Set(Kind::kAllReduce, 1 << 20, "halving_doubling");
    table.Set(Kind::kAllReduce, kAll, "ring");
  }
  for (const Kind kind : {Kind::kBroadcast, Kind::kReduce}) {
    table.Set(kind, 64 << 10, "one_shot");
    table.Set(kind, kAll, "ring");
  }
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather}) {
    table.Set(kind, 256 << 10, "one_shot");
    table.Set(kind, kAll, "ring");
  }
  return table;
}

absl::StatusOr<ChoiceTable> ChoiceTable::Parse(absl::string_view text) {
  ChoiceTable table;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    if (words.size() != 3) {
      return errors::InvalidArgument("line ", number, " of the table of algorithms has ",
                                     words.size(), " words; kind, bytes and algorithm are three");
    }
    const Kind* kind = nullptr;
    for (const Kind& candidate : kKinds) {
      if (words[0] == KindName(candidate)) kind = &candidate;
    }
    if (kind == nullptr) {
      return errors::InvalidArgument("line ", number, " of the table of algorithms: '", words[0],
                                     "' is no kind of operation (all-reduce, broadcast, …)");
    }
    int64_t bytes = kAll;
    if (words[1] != "inf" && (!absl::SimpleAtoi(words[1], &bytes) || bytes < 0)) {
      return errors::InvalidArgument("line ", number, " of the table of algorithms: '", words[1],
                                     "' is no number of bytes, nor inf");
    }
    if (FindAlgorithm(words[2]) == nullptr) {
      return errors::InvalidArgument("line ", number, " of the table of algorithms: there is no '",
                                     words[2], "'; there are ", NamesOfAlgorithms());
    }
    table.Set(*kind, bytes, words[2]);
  }
  return table;
}

void ChoiceTable::Set(Kind kind, int64_t bytes, absl::string_view algorithm) {
  entries_[kind][bytes] = std::string(algorithm);
}

absl::Status ChoiceTable::Pin(absl::string_view algorithm) {
  if (FindAlgorithm(algorithm) == nullptr) {
    return errors::NotFound("there is no algorithm '", algorithm, "' for collectives; there are ",
                            NamesOfAlgorithms());
  }
  pinned_ = std::string(algorithm);
  return absl::OkStatus();
}

const Algorithm* ChoiceTable::Choose(const Problem& problem, int64_t bytes) const {
  const auto solving = [&problem](absl::string_view name) -> const Algorithm* {
    const Algorithm* const algorithm = FindAlgorithm(name);
    return algorithm != nullptr && algorithm->solves(problem) ? algorithm : nullptr;
  };
  if (!pinned_.empty() && problem.size > 1) {
    if (const Algorithm* const algorithm = solving(pinned_)) return algorithm;
  }
  const auto of_kind = entries_.find(problem.kind);
  if (of_kind != entries_.end() && problem.size > 1) {
    const auto entry = of_kind->second.lower_bound(bytes);
    if (entry != of_kind->second.end()) {
      if (const Algorithm* const algorithm = solving(entry->second)) return algorithm;
    }
  }
  if (!problem.replicas.empty()) return FindAlgorithm("fixed_tree");
  return FindAlgorithm(problem.kind == Kind::kBarrier ? "dissemination" : "one_shot");
}

std::string ChoiceTable::ToString() const {
  std::string text;
  for (const auto& [kind, limits] : entries_) {
    for (const auto& [bytes, algorithm] : limits) {
      absl::StrAppend(&text, KindName(kind), " ", bytes == kAll ? "inf" : absl::StrCat(bytes), " ",
                      algorithm, "\n");
    }
  }
  return text;
}

}  // namespace tandem::collective
