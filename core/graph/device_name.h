// DeviceName: TensorFlow's names of devices, whole or in part.
//
//   /job:worker/replica:0/task:1/device:CPU:0    whole
//   /job:ps/task:1, /device:GPU:*, /cpu:0        partial; "*" and what is left out are unset
//   CPU:0                                        the local form: type and id
//
// The parts may stand in any order; when one is repeated the last one counts. "" and "/" set
// nothing. Types are case sensitive, but for the old forms "/cpu:0", "/gpu:0" and "/sim:0", which
// stand for CPU, GPU and SIM.
//
// A partial name is a pattern: it constrains the parts that are set. Where two meet, on nested
// scopes or colocated nodes, they are merged.
#ifndef TANDEM_CORE_GRAPH_DEVICE_NAME_H_
#define TANDEM_CORE_GRAPH_DEVICE_NAME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tandem {

struct DeviceName {
  absl::optional<std::string> job;
  absl::optional<int> replica;
  absl::optional<int> task;
  absl::optional<std::string> type;
  absl::optional<int> id;

  // InvalidArgument shows the name, the piece that is wrong and the form that is wanted.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);

  // The canonical text: the parts that are set, in the order job, replica, task, device. A type
  // without an id is "/device:CPU:*", an id without a type "/device:*:0", nothing at all "".
  std::string ToString() const;
  // "/job:worker/replica:0/task:1", as far as it is set.
  std::string TaskName() const;
  // "CPU:0". REQUIRES: type and id are set.
  std::string LocalName() const;

  bool IsComplete() const { return job && replica && task && type && id; }
  bool IsEmpty() const { return !job && !replica && !task && !type && !id; }

  friend bool operator==(const DeviceName& a, const DeviceName& b) {
    return a.job == b.job && a.replica == b.replica && a.task == b.task && a.type == b.type &&
           a.id == b.id;
  }
  friend bool operator!=(const DeviceName& a, const DeviceName& b) { return !(a == b); }
};

// Every part that `less` sets is set and equal in `more`.
bool IsSpecification(const DeviceName& less, const DeviceName& more);
// No part is set in both with different values.
bool AreCompatible(const DeviceName& a, const DeviceName& b);
// `name` is complete, and what `pattern` sets is equal in it.
bool Matches(const DeviceName& pattern, const DeviceName& name);
// Both name a task, and the same one.
bool IsSameTask(const DeviceName& a, const DeviceName& b);

// What to do when two names set the type or the id differently. Different jobs, replicas or tasks
// are an error with each of them.
enum class DeviceMerge {
  kStrict,         // An error.
  kSoftPlacement,  // A part that differs is unset, and with the type the id.
  kOverride,       // The other's part counts.
};

// Adds the parts of `other` to `target`. InvalidArgument: the two contradict each other; `target`
// is then unchanged.
absl::Status MergeDevice(const DeviceName& other, DeviceMerge how, DeviceName* target);

// Fills the parts that are unset in `target`.
void FillUnset(const DeviceName& defaults, DeviceName* target);

// What a device scope inside another one means: part by part, the inner one counts.
DeviceName NestDevice(const DeviceName& outer, const DeviceName& inner);

// The whole name that `text` stands for in the task or device `base`. InvalidArgument: it does not
// parse, or parts are unset in both.
absl::StatusOr<DeviceName> CompleteDeviceName(absl::string_view text, const DeviceName& base);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_DEVICE_NAME_H_
