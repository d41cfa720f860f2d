#include "strategies/trainer/input.h"

#include "core/base/status.h"

namespace tandem {

NextBatch::NextBatch(std::unique_ptr<data::Iterator> iterator) {
  // Functions are copied, iterators are not.
  const std::shared_ptr<data::Iterator> shared = std::move(iterator);
  next_ = [shared] { return shared->Next(); };
  save_ = [shared] { return shared->SaveState(); };
  restore_ = [shared](absl::string_view position) { return shared->RestoreState(position); };
}

OpenEpoch Epochs(data::Dataset dataset) {
  return [dataset = std::move(dataset)](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> iterator,
                            dataset.Open(static_cast<uint64_t>(epoch)));
    return NextBatch(std::move(iterator));
  };
}

}  // namespace tandem
