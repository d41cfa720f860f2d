// The ends of the edges between a step and whoever feeds and fetches bit by bit (a RunSignature
// that is partial): a _HostRecv for each feed, a _HostSend for each fetch. What they exchange goes
// through the rendezvous of the step, under these keys.
#ifndef TANDEM_CORE_PASSES_PARTIAL_ENDS_H_
#define TANDEM_CORE_PASSES_PARTIAL_ENDS_H_

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/kernel/rendezvous_key.h"

namespace tandem {

// Stands where other keys have a device; no device has such a name.
inline constexpr char kPartialClient[] = "_client";

inline std::string PartialFeedEdge(size_t i) { return absl::StrCat("feed_", i); }
inline std::string PartialFetchEdge(size_t i) { return absl::StrCat("fetch_", i); }

// The key of such an edge.
inline std::string PartialKey(const std::string& edge) {
  RendezvousKey key;
  key.source_device = kPartialClient;
  key.destination_device = kPartialClient;
  key.edge = edge;
  return key.ToString();
}
inline bool IsPartialKey(absl::string_view key) {
  return absl::StartsWith(key, kPartialClient) && key.substr(sizeof(kPartialClient) - 1, 1) == ";";
}

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_PARTIAL_ENDS_H_
