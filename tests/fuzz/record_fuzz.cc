// Record files, in all packings: whole files, and a record with any contents.
#include "core/io/coding.h"
#include "core/io/crc32c.h"
#include "core/io/record.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

// Reads to the end; returns the number of records.
int64_t ReadAll(absl::string_view bytes, const RecordReaderOptions& options) {
  const BytesFile file(bytes);
  RecordReader reader(&file, options);
  int64_t records = 0;
  for (;;) {
    const int64_t before = reader.position();
    absl::string_view record;
    const absl::Status status = reader.Read(&record);
    if (!status.ok()) {
      TANDEM_FUZZ_CHECK(absl::IsOutOfRange(status) || !options.skip_damaged ||
                            options.compression != Compression::kNone ||
                            absl::IsResourceExhausted(status),
                        status.ToString());
      break;
    }
    TANDEM_FUZZ_CHECK(reader.position() >= before + 16, "the position goes on");
    ++records;
    if (records == 5) {  // Back to a position that was there.
      TANDEM_FUZZ_CHECK(reader.Seek(before).ok(), "seek");
      const std::string first(record);
      TANDEM_FUZZ_CHECK(reader.Read(&record).ok() && record == first, "the same record again");
    }
  }
  return records;
}

void Fuzz(FuzzInput input) {
  RecordReaderOptions options;
  const uint8_t choice = input.Byte();
  options.compression = static_cast<Compression>(choice % 4);
  options.skip_damaged = (choice & 4) != 0;
  options.max_record_bytes = int64_t{1} << 24;
  options.buffer_bytes = (choice & 8) != 0 ? 64 : size_t{256} << 10;
  ReadAll(input.rest(), options);

  std::string whole;
  AppendFixed64(input.rest().size(), &whole);
  AppendFixed32(MaskCrc32c(Crc32c(whole)), &whole);
  whole.append(input.rest().data(), input.rest().size());
  AppendFixed32(MaskCrc32c(Crc32c(input.rest())), &whole);
  options.compression = Compression::kNone;
  // Damage before it and behind it is skipped.
  options.skip_damaged = true;
  TANDEM_FUZZ_CHECK(ReadAll(whole + "end", options) == 1, "one record");
  TANDEM_FUZZ_CHECK(ReadAll("start" + whole + whole, options) >= 1, "records behind damage");
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
