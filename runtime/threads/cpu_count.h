// How many cores this process may use.
#ifndef TANDEM_RUNTIME_THREADS_CPU_COUNT_H_
#define TANDEM_RUNTIME_THREADS_CPU_COUNT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

// The number that TANDEM_NUM_THREADS says, else the cores of the affinity mask or the whole cores
// of the control group's quota (what a container was given), whichever are fewer. At least 1. Read
// once; a value of TANDEM_NUM_THREADS that is no number from 1 to 4096 is logged and ignored.
int CpuCount();

// The processor quota, in cores, of the control group that the process is in; 0 when there is none.
// `proc_cgroup` is the text of /proc/self/cgroup, `mount` where the control groups are mounted
// (/sys/fs/cgroup). Knows both versions of the file system, and takes the least of a group and its
// ancestors.
double CgroupCpuQuota(absl::string_view proc_cgroup, const std::string& mount);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_CPU_COUNT_H_
