// Event files: whole files, and an event with any contents.
#include <memory>

#include "core/io/coding.h"
#include "core/io/crc32c.h"
#include "core/io/event.h"
#include "core/io/histogram.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/tensor/tensor_proto.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

void ReadAll(const std::string& bytes) {
  FaultyFileSystem files;
  files.SetContents("/events", bytes);
  const auto reader = EventReader::Open(&files, "/events");
  TANDEM_FUZZ_CHECK(reader.ok(), reader.status().ToString());
  for (;;) {
    tensorflow::Event event;
    const absl::StatusOr<bool> found = (*reader)->Read(&event);
    if (!found.ok() || !*found) break;
    for (const tensorflow::Summary::Value& value : event.summary().value()) {
      if (value.has_histo()) (void)Histogram::FromProto(value.histo());
      if (value.has_tensor()) (void)TensorFromProto(value.tensor(), size_t{1} << 20);
    }
  }
}

void Fuzz(FuzzInput input) {
  const std::string all(input.rest());
  ReadAll(all);
  std::string record;
  AppendFixed64(all.size(), &record);
  AppendFixed32(MaskCrc32c(Crc32c(record)), &record);
  record += all;
  AppendFixed32(MaskCrc32c(Crc32c(all)), &record);
  ReadAll(record + record);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
