// .npy and .npz files.
#include <cstring>

#include "core/io/npy.h"
#include "core/io/npz.h"
#include "core/io/testing/faulty_file_system.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

void Fuzz(FuzzInput input) {
  const absl::string_view all = input.rest();
  const absl::StatusOr<Tensor> array = ParseNpy(all, "input");
  if (array.ok() && array->dtype() != kString) {
    const absl::StatusOr<std::string> written = SerializeNpy(*array);
    TANDEM_FUZZ_CHECK(written.ok(), written.status().ToString());
    const absl::StatusOr<Tensor> back = ParseNpy(*written, "written");
    TANDEM_FUZZ_CHECK(back.ok(), back.status().ToString());
    TANDEM_FUZZ_CHECK(back->dtype() == array->dtype() && back->shape() == array->shape() &&
                          (array->num_bytes() == 0 ||
                           std::memcmp(back->data(), array->data(), array->num_bytes()) == 0),
                      array->DebugString());
  }
  FaultyFileSystem files;
  files.SetContents("/arrays.npz", std::string(all));
  const absl::StatusOr<std::vector<NamedArray>> arrays = ReadNpz(&files, "/arrays.npz");
  TANDEM_FUZZ_CHECK(arrays.ok() || !arrays.status().message().empty(), "a message");
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
