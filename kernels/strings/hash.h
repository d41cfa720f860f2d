// Hashes of strings whose values are part of TensorFlow's interface: models are trained with the
// buckets that they lead to.
#ifndef TANDEM_KERNELS_STRINGS_HASH_H_
#define TANDEM_KERNELS_STRINGS_HASH_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tandem::strings {

// MurmurHash64A (A. Appleby, 2008, in the public domain).
uint64_t MurmurHash64(absl::string_view bytes, uint64_t seed);

// SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein, 2012): keyed, so that nobody who does not know the
// key can choose strings that meet.
uint64_t SipHash(absl::string_view bytes, const std::array<uint64_t, 2>& key);

}  // namespace tandem::strings

#endif  // TANDEM_KERNELS_STRINGS_HASH_H_
