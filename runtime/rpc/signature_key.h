// A text that stands for a run's signature.
#ifndef TANDEM_RUNTIME_RPC_SIGNATURE_KEY_H_
#define TANDEM_RUNTIME_RPC_SIGNATURE_KEY_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "core/passes/prune.h"

namespace tandem {

// Equal for equal signatures only.
inline std::string SignatureKey(const RunSignature& signature) {
  std::string key;
  for (const auto* names : {&signature.feeds, &signature.fetches, &signature.targets}) {
    // With lengths, so that no name can look like two.
    for (const std::string& name : *names) absl::StrAppend(&key, name.size(), ":", name);
    key += ';';
  }
  if (signature.is_partial) key += "partial";
  return key;
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SIGNATURE_KEY_H_
