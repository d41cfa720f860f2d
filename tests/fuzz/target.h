// What fuzz targets share. A target is a file with LLVMFuzzerTestOneInput, the entry that clang's
// fuzzer calls too. It ends the process (TANDEM_FUZZ_CHECK) where a promise is broken.
//
// Bytes under a checksum would hardly ever be reached by chance: targets of such formats try an
// input both as a whole file and as the contents of one that is well formed around it.
#ifndef TANDEM_TESTS_FUZZ_TARGET_H_
#define TANDEM_TESTS_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/io/file.h"

#define TANDEM_FUZZ_CHECK(condition, ...)                                               \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      std::fprintf(stderr, "%s:%d: %s is not so: %s\n", __FILE__, __LINE__, #condition, \
                   absl::StrCat(__VA_ARGS__).c_str());                                  \
      std::abort();                                                                     \
    }                                                                                   \
  } while (false)

namespace tandem {

// Takes bytes of an input from its front; zeros when there are no more.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  absl::string_view Bytes(size_t size) {
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view rest_;
};

// A file in memory.
class BytesFile : public RandomAccessFile {
 public:
  explicit BytesFile(absl::string_view bytes) : bytes_(bytes) {}

  const std::string& path() const override { return path_; }
  absl::StatusOr<size_t> Read(int64_t offset, absl::Span<char> bytes) const override {
    if (offset >= static_cast<int64_t>(bytes_.size())) return size_t{0};
    return bytes_.copy(bytes.data(), bytes.size(), static_cast<size_t>(offset));
  }
  absl::StatusOr<int64_t> Size() const override { return static_cast<int64_t>(bytes_.size()); }

 private:
  const std::string path_ = "input";
  const std::string bytes_;
};

}  // namespace tandem

#endif  // TANDEM_TESTS_FUZZ_TARGET_H_
