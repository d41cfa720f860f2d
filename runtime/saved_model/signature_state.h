// What a SavedModel keeps for each signature.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_STATE_H_
#define TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_STATE_H_

#include <memory>

#include "core/base/mutex.h"
#include "runtime/saved_model/saved_model.h"

namespace tandem {

struct ModelSignature::State {
  // Fixed once the model is loaded.
  SignatureInfo info;
  absl::Status status;         // Why it cannot be used.
  Session* session = nullptr;  // Owned by the model.

  Mutex mu;
  std::unique_ptr<Session::Callable> callable ABSL_GUARDED_BY(mu);  // Made by the first run.

  // The inputs in the order of `info`.
  absl::StatusOr<std::vector<Tensor>> Arrange(const Session::Feeds& inputs) const;
  absl::StatusOr<Session::Callable*> GetCallable();
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_STATE_H_
