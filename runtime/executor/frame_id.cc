#include "runtime/executor/frame_id.h"

#include <cstddef>
#include <cstring>

namespace tandem {
namespace {

constexpr uint64_t kSeed = 0xDECAFCAFFE;

uint64_t Combine(uint64_t a, uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + (a >> 4));
}

}  // namespace

uint64_t HashOfText(absl::string_view text) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = kSeed ^ (text.size() * kMultiplier);
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof(word));
    word *= kMultiplier;
    word ^= word >> kShift;
    word *= kMultiplier;
    hash = (hash ^ word) * kMultiplier;
  }
  if (at < text.size()) {
    uint64_t rest = 0;
    std::memcpy(&rest, text.data() + at, text.size() - at);
    hash = (hash ^ rest) * kMultiplier;
  }
  hash ^= hash >> kShift;
  hash *= kMultiplier;
  return hash ^ (hash >> kShift);
}

uint64_t ChildFrameId(uint64_t parent, int64_t parent_iteration, absl::string_view name) {
  return Combine(parent, Combine(static_cast<uint64_t>(parent_iteration), HashOfText(name)));
}

}  // namespace tandem
