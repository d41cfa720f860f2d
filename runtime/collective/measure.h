// How a group comes to its table of algorithms.
#ifndef TANDEM_RUNTIME_COLLECTIVE_MEASURE_H_
#define TANDEM_RUNTIME_COLLECTIVE_MEASURE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/collective/choice.h"
#include "runtime/collective/group.h"

namespace tandem::collective {

// Called by all members of a group that was just formed: uses member 0's table
// (GroupOptions::table), or what it measures (GroupOptions::measures), or the built-in one.
absl::Status AgreeOnChoices(Group& group, absl::Duration timeout);

// All-reduces of several sizes by every algorithm that solves them; the quickest becomes the entry
// of its size, as member 0 saw it. Takes about a second. Called by all members.
absl::StatusOr<ChoiceTable> MeasureChoices(Group& group, absl::Duration timeout);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_MEASURE_H_
