// Sorted tables: whole files, and a block with any contents, plain and packed with Snappy.
#include <utility>
#include <vector>

#include "core/io/table.h"
#include "core/io/testing/raw_table.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

void ReadAll(absl::string_view bytes) {
  const BytesFile file(bytes);
  std::string last;
  bool any = false;
  size_t total = 0;
  const absl::Status status =
      ReadTable(file, [&](absl::string_view key, absl::string_view value) -> absl::Status {
        TANDEM_FUZZ_CHECK(!any || key > last, "keys increase");
        any = true;
        last = std::string(key);
        total += value.size();
        // A block of zeros packs well, but not without end.
        TANDEM_FUZZ_CHECK(total <= (bytes.size() + 1) * 100, "values have bytes");
        return absl::OkStatus();
      });
  TANDEM_FUZZ_CHECK(status.ok() || !status.message().empty(), "a message");
}

void Fuzz(FuzzInput input) {
  const absl::string_view all = input.rest();
  ReadAll(all);
  ReadAll(RawTable(all, 0, "\xff"));
  ReadAll(RawTable(all, 1, "\xff"));
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
