#include "core/kernel/rendezvous_key.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace tandem {
namespace {

absl::Status Malformed(absl::string_view key, absl::string_view what) {
  return errors::InvalidArgument(
      "rendezvous key '", key, "': ", what,
      "; a key is 'source device;16 hexadecimal digits;destination device;edge;frame:iteration'");
}

bool IsHex(char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); }

}  // namespace

absl::StatusOr<RendezvousKey> RendezvousKey::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  if (parts.size() != 5) return Malformed(text, absl::StrCat("it has ", parts.size(), " parts"));
  for (const absl::string_view part : parts) {
    if (part.empty()) return Malformed(text, "a part is empty");
  }
  RendezvousKey key;
  key.source_device = std::string(parts[0]);
  if (parts[1].size() != 16 || !absl::c_all_of(parts[1], IsHex)) {
    return Malformed(text, absl::StrCat("the incarnation '", parts[1], "' is wrong"));
  }
  for (const char c : parts[1]) {
    key.source_incarnation = key.source_incarnation << 4 |
                             static_cast<uint64_t>(absl::ascii_isdigit(c) ? c - '0' : c - 'a' + 10);
  }
  key.destination_device = std::string(parts[2]);
  key.edge = std::string(parts[3]);
  const std::vector<absl::string_view> numbers = absl::StrSplit(parts[4], ':');
  if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &key.frame) ||
      !absl::SimpleAtoi(numbers[1], &key.iteration) || key.iteration < 0) {
    return Malformed(text, absl::StrCat("frame and iteration '", parts[4], "' are wrong"));
  }
  return key;
}

std::string RendezvousKey::Prefix() const {
  return absl::StrCat(source_device, ";", absl::Hex(source_incarnation, absl::kZeroPad16), ";",
                      destination_device, ";", edge, ";");
}

std::string RendezvousKey::Join(absl::string_view prefix, uint64_t frame, int64_t iteration) {
  return absl::StrCat(prefix, frame, ":", iteration);
}

std::string RendezvousKey::ToString() const { return Join(Prefix(), frame, iteration); }

}  // namespace tandem
