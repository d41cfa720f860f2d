#include <memory>

#include "core/base/status.h"
#include "core/io/record.h"
#include "tests/clients/formats/command.h"

namespace tandem::formats {
namespace {

// FROM COMPRESSION TO COMPRESSION: the same records, packed in another way.
absl::Status CopyRecords(const std::vector<std::string>& words) {
  RecordReaderOptions reading;
  TANDEM_ASSIGN_OR_RETURN(reading.compression, ParseCompression(words[1]));
  RecordWriterOptions writing;
  TANDEM_ASSIGN_OR_RETURN(writing.compression, ParseCompression(words[3]));
  TANDEM_ASSIGN_OR_RETURN(const auto reader,
                          RecordReader::Open(PosixFileSystem(), words[0], reading));
  TANDEM_ASSIGN_OR_RETURN(const auto writer,
                          RecordWriter::Open(PosixFileSystem(), words[2], writing));
  for (;;) {
    absl::string_view record;
    const absl::Status status = reader->Read(&record);
    if (absl::IsOutOfRange(status)) return writer->Close();
    TANDEM_RETURN_IF_ERROR(status);
    TANDEM_RETURN_IF_ERROR(writer->Write(record));
  }
}

constexpr Command kCommands[] = {
    {"copy_records", "FROM COMPRESSION TO COMPRESSION", 4, CopyRecords},
};

}  // namespace

const absl::Span<const Command> kRecordCommands = kCommands;

}  // namespace tandem::formats
