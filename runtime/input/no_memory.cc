#include "runtime/input/no_memory.h"

#include "core/base/status.h"

namespace tandem::data {
namespace {

const absl::Status& Made() {
  static const auto* const status = new absl::Status(
      errors::ResourceExhausted("the system grants the input pipeline no memory; smaller batches, "
                                "Shuffle buffers or fewer threads help"));
  return *status;
}

const absl::Status& made_ahead = Made();

}  // namespace

const absl::Status& NoMemory() { return Made(); }

}  // namespace tandem::data
