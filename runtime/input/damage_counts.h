// DamageCounts: how many damaged places the sources of an iterator passed over, by file.
//
// Counts are per file and never fall, so that a place which is met again (in another iteration,
// after a restore) counts once.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_INPUT_DAMAGE_COUNTS_H_
#define TANDEM_RUNTIME_INPUT_DAMAGE_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace tandem {

class InputState;

namespace data {

class DamageCounts {
 public:
  // At least `count` places of the file are damaged.
  void Raise(const std::string& path, int64_t count);
  int64_t total() const;
  // For people, the files with most damage first: "a.tfrecord (2), b.tfrecord (1)".
  std::string Describe() const;

  // As an element that is added to `state`, or none when there is no damage; and back, into what is
  // already there. InvalidArgument: the element is no such thing.
  absl::Status Save(InputState* state) const;
  absl::Status Restore(const InputState& state);

 private:
  mutable Mutex mu_;
  std::map<std::string, int64_t> counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace data
}  // namespace tandem

#endif  // TANDEM_RUNTIME_INPUT_DAMAGE_COUNTS_H_
