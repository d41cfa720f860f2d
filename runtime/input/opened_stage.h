// What a kind of stage implements: OpenedStage, a checked stage with its data, and Pass, one walk
// over its sequence.
//
// A new kind is a file of its own that ends with
//
//   const bool registered = RegisterStage("Take", /*inputs=*/1, OpenTake);
//
// Rows. A source that holds its data in memory is also a RowSource: its elements are rows of a
// table. The passes of it, and of stages that only choose and order (Shuffle, Take, Shard, …), can
// then be asked for row numbers in place of elements, and Batch gathers the rows straight into the
// batch. No element is made on the way.
//
// Iterations. A data set is walked over many times, and the walks are numbered: Shuffle draws
// another order in each. The number comes from above (Iterator, Repeat), so that a pass is the same
// whenever and wherever it is run.
#ifndef TANDEM_RUNTIME_INPUT_OPENED_STAGE_H_
#define TANDEM_RUNTIME_INPUT_OPENED_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernel/cancellation.h"
#include "runtime/input/element.h"
#include "runtime/input/stage.h"

namespace tandem {

class InputElement;
class InputState;

namespace data {

class DamageCounts;

// A table in memory. Threads: any.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t size() const = 0;
  // REQUIRES, for both: 0 <= row < size().
  virtual absl::StatusOr<Element> Row(int64_t row) const = 0;
  // The rows stacked: each component has a first dimension more. ResourceExhausted: no memory.
  virtual absl::StatusOr<Element> Gather(absl::Span<const int64_t> rows) const = 0;
};

// Both pointers outlive the pass.
struct PassContext {
  CancellationManager* cancellation = nullptr;
  uint64_t iteration = 0;
  DamageCounts* damage = nullptr;
};

// Threads    One thread at a time.
// Tokens     The caller holds a run token (runtime/threads/run_tokens.h); a pass that waits for
//            another thread gives it up meanwhile.
// Waiting    ends, with Cancelled, when the context's cancellation says so.
// Lifetime   A pass outlives neither its OpenedStage nor its context's cancellation.
class Pass {
 public:
  virtual ~Pass() = default;

  // The next element, or nothing, again and again, at the end. After an error that belongs to an
  // element (a map function's) the next call goes on behind it.
  virtual absl::StatusOr<MaybeElement> Next() = 0;

  // Appends the numbers of the next `count` rows to `rows`; fewer at the end.
  // REQUIRES: the stage has rows(), and count >= 0.
  virtual absl::Status NextRows(int64_t count, std::vector<int64_t>* rows);

  // Writes where this pass stands: a new pass of the same iteration that restores it gives what
  // this one would have given.
  virtual absl::Status Save(InputState* state) = 0;
  // REQUIRES: nothing was asked of this pass yet. InvalidArgument: the state is another pipeline's
  // or makes no sense; the pass is then of no further use.
  virtual absl::Status Restore(const InputState& state) = 0;
};

// Threads: any. Lifetime: holds its inputs.
class OpenedStage {
 public:
  virtual ~OpenedStage() = default;
  // Does no work that a Restore would make useless.
  virtual absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const = 0;
  // The number of elements of a pass, kInfiniteCardinality or kUnknownCardinality.
  virtual int64_t cardinality() const = 0;
  // The table of which all passes give rows, or null.
  virtual const RowSource* rows() const { return nullptr; }
};
using OpenedStagePtr = std::shared_ptr<const OpenedStage>;

// Checks attributes and opens inputs (Stage::Open).
using OpenFunction = absl::StatusOr<OpenedStagePtr> (*)(const Stage& stage);

// REQUIRES: nobody registered `kind` before. Returns true. Before main() only.
bool RegisterStage(absl::string_view kind, int inputs, OpenFunction open);

// Opens a stage anew. InvalidArgument: an unknown kind, a wrong number of inputs.
absl::StatusOr<OpenedStagePtr> OpenNewStage(const Stage& stage);

// Helpers of Save and Restore.

// InvalidArgument unless `state` is of a stage of `kind` and has so many numbers and inputs.
absl::Status CheckState(const InputState& state, absl::string_view kind, int numbers, int inputs);
// What a stage that cannot make sense of a state's contents says.
absl::Status BadState(absl::string_view kind, absl::string_view what);
// An element, or an error in its place, as a message and back.
absl::Status SaveElement(const absl::StatusOr<Element>& element, InputElement* proto);
absl::Status LoadElement(const InputElement& proto, absl::StatusOr<Element>* element);

}  // namespace data
}  // namespace tandem

#endif  // TANDEM_RUNTIME_INPUT_OPENED_STAGE_H_
