// NextBatch and OpenEpoch: where a training gets its batches from.
//
// A data set (Epochs) can save its position, so that a training that was killed goes on with the
// very next batch. So can a source of one's own that brings functions for it. A plain function
// cannot: a training that is resumed calls it as often as before and passes over what it gives,
// which is right when it gives the same batches again.
#ifndef TANDEM_STRATEGIES_TRAINER_INPUT_H_
#define TANDEM_STRATEGIES_TRAINER_INPUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "runtime/input/dataset.h"

namespace tandem {

// The next global batch each time, or nothing at the end of an epoch. Copies share their position.
//
// Threads: one at a time.
class NextBatch {
 public:
  using Result = absl::StatusOr<absl::optional<std::vector<Tensor>>>;
  using Function = std::function<Result()>;
  // Where the source stands, as bytes: right after the batch that was given last.
  using Save = std::function<absl::StatusOr<std::string>()>;
  // Goes there, in this or another process, from wherever it stands.
  using Restore = std::function<absl::Status(absl::string_view position)>;

  // Empty: there is no source.
  NextBatch() = default;
  // A function, or whatever can be called like one.
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, NextBatch> &&
                                                    std::is_constructible_v<Function, F>>>
  NextBatch(F next) : next_(std::move(next)) {}  // NOLINT(google-explicit-constructor)
  // A source that can save its position.
  NextBatch(Function next, Save save, Restore restore)
      : next_(std::move(next)), save_(std::move(save)), restore_(std::move(restore)) {}
  explicit NextBatch(std::unique_ptr<data::Iterator> iterator);
  // `describe` tells what the iterator reads (data::Describe).
  NextBatch(std::unique_ptr<data::Iterator> iterator, std::function<std::string()> describe)
      : NextBatch(std::move(iterator)) {
    describe_ = std::move(describe);
  }

  explicit operator bool() const { return next_ != nullptr; }
  // REQUIRES: not empty.
  Result operator()() const { return next_(); }

  bool has_position() const { return save_ != nullptr && restore_ != nullptr; }
  // REQUIRES: has_position(). Errors are the source's.
  absl::StatusOr<std::string> SavePosition() const { return save_(); }
  absl::Status RestorePosition(absl::string_view position) const { return restore_(position); }
  // What the source reads, which two sources must share if one shall go on at a position of the
  // other; empty: it does not say.
  std::string Describe() const { return describe_ ? describe_() : std::string(); }
  // Damaged places of files that a data set passed over (data::Iterator::damaged), and where, for
  // people. Functions have none.
  int64_t damaged() const { return iterator_ ? iterator_->damaged() : 0; }
  std::string DescribeDamage() const {
    return iterator_ ? iterator_->DescribeDamage() : std::string();
  }

 private:
  Function next_;
  Save save_;
  Restore restore_;
  std::function<std::string()> describe_;
  std::shared_ptr<const data::Iterator> iterator_;  // Null: it is a function.
};

// Begins an epoch (counted from 0). With FitOptions::steps_per_epoch epochs may share what one call
// gives; the calls are counted then. A training that is resumed begins the epoch again in which it
// was, and before a training that has nothing left to do epoch 0 for a single batch, whose shapes
// it needs.
using OpenEpoch = std::function<absl::StatusOr<NextBatch>(int epoch)>;

// Epochs over a data set: epoch i is its iteration i.
OpenEpoch Epochs(data::Dataset dataset);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_INPUT_H_
