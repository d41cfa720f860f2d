// Reductions: the nodes through which values of several replicas become one, for the builder of
// strategies whose replicas are devices (replica_builder.h).
//
// Sums follow one fixed binary tree over the replicas, on the host and in collectives
// (kernels/collective), so that their bits do not depend on the number of devices.
//
// Where replicas of other processes take part, all reductions are collectives. Each is an operation
// with a number that follows from the program alone, however many replicas this process has.
#ifndef TANDEM_STRATEGIES_LOCAL_REDUCTIONS_H_
#define TANDEM_STRATEGIES_LOCAL_REDUCTIONS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/scope.h"
#include "core/kernel/collective.h"
#include "strategies/builder.h"

namespace tandem {

// Where replicas run and variables live.
struct ReplicaLayout {
  std::vector<std::string> devices;  // Of the replicas.
  std::string central_device;        // Of the variables; empty: a copy on each of `devices`.
  int virtual_replicas = 0;          // 0: one replica a device.

  int num_devices() const { return static_cast<int>(devices.size()); }
  int num_replicas() const { return virtual_replicas > 0 ? virtual_replicas : num_devices(); }
  int num_copies() const { return central_device.empty() ? num_devices() : 1; }
  // Replica i of V belongs to device floor(i·N/V): each device has a contiguous range.
  int device_of(int replica) const { return replica * num_devices() / num_replicas(); }
  int copy_of(int replica) const { return central_device.empty() ? device_of(replica) : 0; }
  const std::string& device_of_replica(int replica) const {
    return devices[static_cast<size_t>(device_of(replica))];
  }
  const std::string& device_of_copy(int copy) const {
    return central_device.empty() ? devices[static_cast<size_t>(copy)] : central_device;
  }
};

// Where nodes run that belong to no replica.
inline constexpr char kHostDevice[] = "/device:CPU:0";

// See ReplicaBuilderOptions.
struct ReductionOptions {
  int64_t bucket_bytes = 0;
  int64_t first_bucket_bytes = 0;
  bool spans_processes = false;
  std::string compression;
  int64_t least_compressed_bytes = 0;
};

// What this process keeps of compressed gradients until the next step
// (kernels/collective/gradient_codec.h).
class Residuals {
 public:
  virtual ~Residuals() = default;
  // The handle of a new variable on the host, float32 zeros at first.
  virtual absl::StatusOr<Output> New(const Shape& shape) = 0;
  // The variable gets this value at the end of the step.
  virtual void Keep(Output handle, Output value) = 0;
};

// Threads: one. Errors of nodes are kept by the scope that they are added to.
class Reductions {
 public:
  // Is called with the nodes that have run when the result of a collective is there.
  using Arrived = absl::FunctionRef<void(std::initializer_list<Node*>)>;

  // Nodes without a scope of their own are added to `root`.
  Reductions(ReplicaLayout layout, Scope root, ReductionOptions options)
      : layout_(std::move(layout)), root_(std::move(root)), options_(options) {}

  // InvalidArgument: not one valid value of each replica.
  absl::Status CheckPerReplica(const PerReplica& values) const;

  // See StrategyBuilder. `scope` says where the nodes run.
  absl::StatusOr<std::vector<Output>> ReduceAll(const Scope& scope, Reduction reduction,
                                                const std::vector<PerReplica>& values,
                                                Arrived arrived);
  absl::StatusOr<Output> Gather(const Scope& scope, const PerReplica& values, int axis,
                                Arrived arrived);
  // The values of the first replica of all processes. REQUIRES: they are valid.
  absl::StatusOr<std::vector<Output>> OfFirstReplica(const Scope& scope,
                                                     const std::vector<PerReplica>& values,
                                                     Arrived arrived);

  // The number of a new operation that every replica takes part in.
  int64_t NewOperation();
  // What one replica adds for its part in an operation. Empty after an error of the scope.
  std::vector<Output> AllReduce(const Scope& scope, int replica, int64_t operation,
                                Reduction reduction, const std::vector<Output>& values) const;

  // See StrategyBuilder. `residuals`: of gradients that are compressed.
  absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients, Arrived arrived, Residuals& residuals);

 private:
  // Between devices of one process.
  absl::StatusOr<Output> Reduce(const Scope& scope, Reduction reduction, const PerReplica& values);
  // What the replicas of all processes make of `values`, [value][replica], as nodes of `scope`.
  absl::StatusOr<std::vector<Output>> AllReduceToHost(const Scope& scope, Reduction reduction,
                                                      const std::vector<PerReplica>& values,
                                                      Arrived arrived);
  // Joins the rows of all processes. Empty after an error of the scope.
  std::vector<Output> AllGatherRows(const Scope& scope, const std::vector<Output>& values,
                                    Arrived arrived);
  // Brings `axis` to the front, or back from there.
  absl::StatusOr<Output> MoveAxis(const Scope& scope, const Output& value, int axis, bool to_front);

  absl::Status CheckGradient(size_t number, const PerReplicaGradient& gradient) const;
  // Reduces the gradients of a bucket in one operation a replica, and empties the bucket.
  void Flush(const std::vector<PerReplicaGradient>& gradients, std::vector<size_t>& bucket,
             std::vector<std::vector<Gradient>>& reduced, Arrived arrived);
  // Whether a gradient of this kind is compressed.
  bool IsCompressed(const Gradient& gradient) const;
  // As Flush, of compressed gradients: those of this process's replicas are summed, and their sum
  // is sent to all.
  absl::Status FlushCompressed(const std::vector<PerReplicaGradient>& gradients,
                               std::vector<size_t>& bucket,
                               std::vector<std::vector<Gradient>>& reduced, Arrived arrived,
                               Residuals& residuals);
  absl::Status JoinSparse(const PerReplicaGradient& gradient, std::vector<Gradient>& copies,
                          Arrived arrived);

  const ReplicaLayout layout_;
  const Scope root_;
  const ReductionOptions options_;
  int64_t num_operations_ = 0;
  int64_t num_buckets_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_LOCAL_REDUCTIONS_H_
