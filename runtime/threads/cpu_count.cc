#include "runtime/threads/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr int kMost = 4096;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Cores of one group; 0 when it has no limit or no such file.
double QuotaOfGroup(const std::string& folder, bool version_2) {
  double quota = 0, period = 0;
  if (version_2) {
    // "max 100000" or "150000 100000", in microseconds.
    const std::vector<std::string> words =
        absl::StrSplit(ReadFile(absl::StrCat(folder, "/cpu.max")), absl::ByAnyChar(" \n"));
    if (words.size() < 2 || !absl::SimpleAtod(words[0], &quota) ||
        !absl::SimpleAtod(words[1], &period)) {
      return 0;
    }
  } else if (!absl::SimpleAtod(ReadFile(absl::StrCat(folder, "/cpu.cfs_quota_us")), &quota) ||
             !absl::SimpleAtod(ReadFile(absl::StrCat(folder, "/cpu.cfs_period_us")), &period)) {
    return 0;
  }
  return quota > 0 && period > 0 ? quota / period : 0;  // Version 1 says -1 for "no limit".
}

int AffinityCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  // More than 1024 cores do not fit into the set.
  return static_cast<int>(std::thread::hardware_concurrency());
}

int ReadCpuCount() {
  if (const char* text = std::getenv("TANDEM_NUM_THREADS"); text != nullptr && *text != '\0') {
    int count = 0;
    if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= kMost) return count;
    TANDEM_LOG(Warning) << "TANDEM_NUM_THREADS is '" << text << "'; expected a number from 1 to "
                        << kMost << ". Going on with the cores that there are";
  }
  int count = AffinityCount();
  const double quota = CgroupCpuQuota(ReadFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  // Rounded down: a gang of threads that outgrows its quota is stopped as a whole, in its barriers.
  if (quota > 0) count = std::min(count, static_cast<int>(std::min<double>(quota, kMost)));
  return std::clamp(count, 1, kMost);
}

}  // namespace

double CgroupCpuQuota(absl::string_view proc_cgroup, const std::string& mount) {
  double least = 0;
  // Lines are "hierarchy:controllers:path"; version 2 has the one line "0::path".
  for (absl::string_view line : absl::StrSplit(proc_cgroup, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool version_2 = parts[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (!version_2 &&
        std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) {
      continue;
    }
    const std::string base = version_2 ? mount : absl::StrCat(mount, "/", parts[1]);
    // Upwards to the mount, which inside a container is the container's own group.
    std::string path(parts[2] == "/" ? "" : parts[2]);
    while (true) {
      const double quota = QuotaOfGroup(absl::StrCat(base, path), version_2);
      if (quota > 0 && (least == 0 || quota < least)) least = quota;
      if (path.empty()) break;
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return least;
}

int CpuCount() {
  static const int count = ReadCpuCount();
  return count;
}

}  // namespace tandem
