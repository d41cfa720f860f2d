// What lender and borrower say to each other over their Unix socket. Both are processes of one
// host, so numbers are as the processor has them. Whoever changes this changes kVersion.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_MESSAGES_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::shared_memory {

inline constexpr int kVersion = 2;

// What a lender that offers values may have made at once, and how many segments: whoever accepts
// offers maps no more.
inline constexpr size_t kMostOfferedBytes = size_t{4} << 30;
inline constexpr size_t kMostOfferedSegments = 4096;

// Random bytes that are known to whoever was told.
inline constexpr size_t kSecretBytes = 16;
using Secret = std::array<char, kSecretBytes>;

inline Secret NewSecret() {
  std::random_device random;
  Secret secret;
  for (size_t i = 0; i < kSecretBytes; i += sizeof(uint32_t)) {
    const uint32_t word = random();
    std::memcpy(&secret[i], &word, sizeof(word));
  }
  return secret;
}

inline absl::string_view View(const Secret& secret) { return {secret.data(), secret.size()}; }

// Takes as long whatever they have in common.
inline bool Equal(const Secret& secret, absl::string_view other) {
  if (other.size() != kSecretBytes) return false;
  int difference = 0;
  for (size_t i = 0; i < kSecretBytes; ++i) difference |= secret[i] ^ other[i];
  return difference == 0;
}

// Whoever connects speaks first: a borrower, to whom the lender's process answers with the board,
// or a lender that offers values, and sends the board itself.
enum class Kind : uint32_t {
  kHello = 1,     // Borrower: the first message; `secret` is the one of the lender's process.
  kBoard = 2,     // Lender: brings the board; `secret` is the connection's.
  kSegment = 3,   // Lender: brings the segment `segment` of `bytes` bytes.
  kForget = 4,    // Lender: the segment `segment` will not be used again.
  kOffers = 5,    // Lender: the first message; `secret` is the one of the borrower's process.
  kAccepted = 6,  // Borrower: the answer, once the board has come.
};

struct Message {
  Kind kind = Kind::kHello;
  uint32_t unused = 0;
  uint64_t segment = 0;
  uint64_t bytes = 0;
  Secret secret = {};
};

inline absl::Span<const char> Bytes(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}
inline absl::Span<char> Room(Message* message) {
  return {reinterpret_cast<char*>(message), sizeof(*message)};
}

}  // namespace tandem::shared_memory

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_MESSAGES_H_
