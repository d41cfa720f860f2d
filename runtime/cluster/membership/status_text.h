// How a job is, as text: a table for people, and metrics for Prometheus.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_STATUS_TEXT_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_STATUS_TEXT_H_

#include <string>

#include "proto/membership.pb.h"

namespace tandem::membership {

// Several lines: the generation, what it does, its members, and who waits for whom. Of a member
// that is not the chief: where that one is.
std::string StatusTable(const JobStatus& status);

// In Prometheus' text format, with names that begin with tandem_job_ and tandem_member_.
std::string StatusMetrics(const JobStatus& status);

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_STATUS_TEXT_H_
