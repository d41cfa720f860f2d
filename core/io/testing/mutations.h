// Damage for tests of parsers: the same seed makes the same damage.
#ifndef TANDEM_CORE_IO_TESTING_MUTATIONS_H_
#define TANDEM_CORE_IO_TESTING_MUTATIONS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

namespace tandem {

// A copy of `bytes` with one to four changes: a bit or byte that differs, a part that is cut out,
// doubled or overwritten with one value, an end that is missing.
inline std::string Mutate(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = below(bytes.size());
    const size_t size = 1 + below(std::min<size_t>(bytes.size() - at, 16));
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, size);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 4:
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size,
                    static_cast<char>(below(2) == 0 ? 0x00 : 0xff));
        break;
      case 5:
        bytes.insert(at, size, static_cast<char>(random()));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace tandem

#endif  // TANDEM_CORE_IO_TESTING_MUTATIONS_H_
