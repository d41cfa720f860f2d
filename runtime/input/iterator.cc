#include "runtime/input/iterator.h"

#include <cstdint>

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/threads/run_tokens.h"

namespace tandem::data {
namespace {

constexpr char kKind[] = "Iterator";

}  // namespace

Iterator::Iterator(OpenedStagePtr stage, uint64_t iteration)
    : stage_(std::move(stage)), iteration_(iteration) {}

Iterator::~Iterator() {
  Cancel();
  pass_.reset();
}

absl::StatusOr<std::unique_ptr<Iterator>> Iterator::Begin(OpenedStagePtr stage,
                                                          uint64_t iteration) {
  std::unique_ptr<Iterator> result(new Iterator(std::move(stage), iteration));
  TANDEM_ASSIGN_OR_RETURN(
      result->pass_, CatchOutOfMemory([&] {
        return result->stage_->Begin({&result->cancellation_, iteration, &result->damage_});
      }));
  return result;
}

absl::StatusOr<absl::optional<Element>> Iterator::Next() {
  if (cancellation_.IsCancelled()) return cancellation_.status();
  ScopedRunToken token;
  return CatchOutOfMemory([&] { return pass_->Next(); });
}

absl::StatusOr<std::string> Iterator::SaveState() {
  if (cancellation_.IsCancelled()) return cancellation_.status();
  ScopedRunToken token;
  return CatchOutOfMemory([&] { return Save(); });
}

absl::StatusOr<std::string> Iterator::Save() {
  InputState state;
  state.set_kind(kKind);
  state.add_numbers(static_cast<int64_t>(iteration_));
  TANDEM_RETURN_IF_ERROR(pass_->Save(state.add_inputs()));
  TANDEM_RETURN_IF_ERROR(damage_.Save(&state));
  std::string bytes;
  if (!state.SerializeToString(&bytes)) {
    return errors::InvalidArgument(
        "the state of the pipeline is larger than a message can be (2 GiB); a smaller Shuffle "
        "buffer or Prefetch before Batch helps");
  }
  return bytes;
}

absl::Status Iterator::RestoreState(absl::string_view bytes) {
  if (cancellation_.IsCancelled()) return cancellation_.status();
  ScopedRunToken token;
  return CatchOutOfMemory([&] { return Restore(bytes); });
}

absl::Status Iterator::Restore(absl::string_view bytes) {
  InputState state;
  if (bytes.size() > size_t{INT32_MAX} ||
      !state.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::InvalidArgument("the ", bytes.size(), " bytes are not the state of an iterator");
  }
  TANDEM_RETURN_IF_ERROR(CheckState(state, kKind, 1, 1));
  const uint64_t iteration = static_cast<uint64_t>(state.numbers(0));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Pass> pass,
                          stage_->Begin({&cancellation_, iteration, &damage_}));
  TANDEM_RETURN_IF_ERROR(pass->Restore(state.inputs(0)));
  TANDEM_RETURN_IF_ERROR(damage_.Restore(state));
  iteration_ = iteration;
  pass_ = std::move(pass);
  return absl::OkStatus();
}

void Iterator::Cancel() {
  cancellation_.Cancel(errors::Cancelled("the input iterator was cancelled"));
}

}  // namespace tandem::data
