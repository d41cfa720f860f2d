// Iterator: a walk over a data set, made by Dataset::Open.
//
// Threads   One thread at a time; Cancel and damaged from any.
// Lifetime  Independent of the Dataset. Destroying it ends what its stages do in the background.
#ifndef TANDEM_RUNTIME_INPUT_ITERATOR_H_
#define TANDEM_RUNTIME_INPUT_ITERATOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernel/cancellation.h"
#include "runtime/input/damage_counts.h"
#include "runtime/input/element.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

class Iterator {
 public:
  // Use Dataset::Open.
  static absl::StatusOr<std::unique_ptr<Iterator>> Begin(OpenedStagePtr stage, uint64_t iteration);
  ~Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // The next element; nothing at the end, and from then on. Errors of sources (a file that is
  // damaged) come again with each call; after an error of a map function, whose message has the
  // element's index, the next call gives the next element. Cancelled: Cancel was called.
  // ResourceExhausted: the system grants no memory, in whichever thread of the pipeline; what was
  // asked for then is lost, and the data set is of no further use unless a map function asked.
  absl::StatusOr<absl::optional<Element>> Next();

  // Where this iterator stands, as bytes (a tandem.InputState). An iterator over an equal data set,
  // in this or another process, that restores them continues bit for bit as this one does.
  // InvalidArgument: a stage holds elements that no message can hold.
  absl::StatusOr<std::string> SaveState();
  // InvalidArgument: the bytes are no state, or another pipeline's; the iterator then stays where
  // it was.
  absl::Status RestoreState(absl::string_view state);

  // Damaged places in files that were passed over because a source was asked to (skip_damaged), in
  // what was read so far, ahead of need included. From any thread.
  int64_t damaged() const { return damage_.total(); }
  // The same by file, for people: "a.tfrecord (2), b.tfrecord (1)".
  std::string DescribeDamage() const { return damage_.Describe(); }

  // Ends the iterator for good: a Next that waits, and each later one, returns Cancelled. A map
  // function that is running is not interrupted.
  void Cancel();

 private:
  Iterator(OpenedStagePtr stage, uint64_t iteration);

  absl::StatusOr<std::string> Save();
  absl::Status Restore(absl::string_view bytes);

  const OpenedStagePtr stage_;
  uint64_t iteration_;
  CancellationManager cancellation_;
  DamageCounts damage_;
  std::unique_ptr<Pass> pass_;  // Uses the members above.
};

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_ITERATOR_H_
