#include "strategies/trainer/input.h"

#include "absl/base/call_once.h"
#include "core/base/status.h"
#include "runtime/input/describe.h"

namespace tandem {

NextBatch::NextBatch(std::unique_ptr<data::Iterator> iterator) {
  // Functions are copied, iterators are not.
  const std::shared_ptr<data::Iterator> shared = std::move(iterator);
  next_ = [shared] { return shared->Next(); };
  save_ = [shared] { return shared->SaveState(); };
  iterator_ = shared;
  restore_ = [shared](absl::string_view position) { return shared->RestoreState(position); };
}

OpenEpoch Epochs(data::Dataset dataset) {
  // Made when it is first wanted, once for all epochs: tensors are read for it.
  struct Description {
    absl::once_flag once;
    std::string text;
  };
  const auto description = std::make_shared<Description>();
  return [dataset = std::move(dataset), description](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> iterator,
                            dataset.Open(static_cast<uint64_t>(epoch)));
    return NextBatch(std::move(iterator), [stage = dataset.stage(), description] {
      absl::call_once(description->once, [&] { description->text = data::Describe(*stage); });
      return description->text;
    });
  };
}

}  // namespace tandem
