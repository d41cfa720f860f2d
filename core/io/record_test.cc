#include "core/io/record.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr char kPath[] = "/d/records";

std::string Bytes(absl::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits.push_back(c);
  }
  return absl::HexStringToBytes(digits);
}

std::vector<std::string> SomeRecords() {
  std::mt19937 random(3);
  std::vector<std::string> records = {"abc", "", std::string(1000, 'x')};
  for (const size_t size : {1, 30, 5000, 200000, 7}) {
    records.emplace_back(size, '\0');
    for (char& c : records.back()) c = static_cast<char>(random());
  }
  return records;
}

struct Outcome {
  std::vector<std::string> records;
  absl::Status end;  // What came after them.
  bool ended_in_record = false;
  int64_t damaged = 0;
};

Outcome ReadAll(RecordReader* reader) {
  Outcome outcome;
  for (;;) {
    absl::string_view record;
    outcome.end = reader->Read(&record);
    if (!outcome.end.ok()) break;
    outcome.records.emplace_back(record);
  }
  outcome.ended_in_record = reader->ended_in_record();
  outcome.damaged = reader->damaged();
  return outcome;
}

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  void Write(const std::vector<std::string>& records, const RecordWriterOptions& options = {}) {
    auto writer = RecordWriter::Open(&files_, kPath, options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& record : records) ASSERT_TRUE((*writer)->Write(record).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  std::string Contents() { return *ReadFile(&files_, kPath); }
  Outcome Read(const RecordReaderOptions& options = {}) {
    return ReadAll(RecordReader::Open(&files_, kPath, options)->get());
  }

  FaultyFileSystem files_;
};

TEST_F(RecordTest, HaveTheKnownBytes) {
  Write({"abc", ""});
  EXPECT_EQ(absl::BytesToHexString(Contents()),
            absl::BytesToHexString(Bytes("03 00 00 00 00 00 00 00 b0 99 49 0e 61 62 63 6e 57 f1 21"
                                         "00 00 00 00 00 00 00 00 29 03 98 07 d8 ea 82 a2")));
}

TEST_F(RecordTest, ComeBackInEveryCompressionAndBufferSize) {
  const std::vector<std::string> records = SomeRecords();
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kSnappy}) {
    Write(records, {.compression = compression});
    for (const size_t buffer : {size_t{1}, size_t{100}, size_t{4096}, size_t{1} << 20}) {
      const Outcome outcome = Read({.compression = compression, .buffer_bytes = buffer});
      EXPECT_EQ(outcome.end.code(), absl::StatusCode::kOutOfRange) << outcome.end;
      EXPECT_THAT(outcome.records, ElementsAreArray(records)) << CompressionName(compression);
      EXPECT_FALSE(outcome.ended_in_record);
    }
  }
}

TEST_F(RecordTest, ReadsWhatTensorFlowWrote) {
  std::string all_bytes;
  for (int i = 0; i < 512; ++i) all_bytes.push_back(static_cast<char>(i));
  std::string text;
  for (int i = 0; i < 100; ++i) text += "tandem ";
  for (const auto& [name, compression] :
       std::vector<std::pair<std::string, Compression>>{{"records", Compression::kNone},
                                                        {"records.zlib", Compression::kZlib},
                                                        {"records.gzip", Compression::kGzip}}) {
    const auto reader =
        RecordReader::Open(PosixFileSystem(), absl::StrCat("core/io/testdata/", name, ".tfrecord"),
                           {.compression = compression});
    ASSERT_TRUE(reader.ok()) << reader.status();
    const Outcome outcome = ReadAll(reader->get());
    EXPECT_EQ(outcome.end.code(), absl::StatusCode::kOutOfRange) << outcome.end;
    EXPECT_THAT(outcome.records, ElementsAre("abc", "", all_bytes, text));
  }
}

TEST_F(RecordTest, SeveralGzipMembersAreOneStream) {
  Write({"a"}, {.compression = Compression::kGzip});
  const std::string first = Contents();
  Write({"b"}, {.compression = Compression::kGzip});
  files_.SetContents(kPath, first + Contents());
  EXPECT_THAT(Read({.compression = Compression::kGzip}).records, ElementsAre("a", "b"));
}

TEST_F(RecordTest, APositionIsComeBackTo) {
  const std::vector<std::string> records = SomeRecords();
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kSnappy}) {
    Write(records, {.compression = compression});
    const auto reader = *RecordReader::Open(&files_, kPath, {.compression = compression});
    absl::string_view record;
    std::vector<int64_t> positions;
    for (size_t i = 0; i < records.size(); ++i) {
      positions.push_back(reader->position());
      ASSERT_TRUE(reader->Read(&record).ok());
    }
    for (size_t i = records.size(); i-- > 0;) {
      const auto other = *RecordReader::Open(&files_, kPath, {.compression = compression});
      for (RecordReader* one : {reader.get(), other.get()}) {
        ASSERT_TRUE(one->Seek(positions[i]).ok());
        ASSERT_TRUE(one->Read(&record).ok());
        EXPECT_EQ(record, records[i]);
      }
    }
    const absl::Status status = reader->Seek(1 << 30);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(kPath));
    EXPECT_FALSE(reader->Seek(-1).ok());
  }
}

TEST_F(RecordTest, ACutShowsAndThePositionIsThatOfTheCutRecord) {
  Write({"abc", "", "defg"});
  const std::string contents = Contents();
  const std::vector<size_t> starts = {0, 19, 35, contents.size()};
  for (size_t size = 0; size <= contents.size(); ++size) {
    files_.SetContents(kPath, contents.substr(0, size));
    const auto reader = *RecordReader::Open(&files_, kPath);
    const Outcome outcome = ReadAll(reader.get());
    size_t whole = 0;
    while (whole + 1 < starts.size() && starts[whole + 1] <= size) ++whole;
    EXPECT_EQ(outcome.records.size(), whole) << size;
    const bool at_boundary = starts[whole] == size;
    EXPECT_EQ(outcome.end.code(),
              at_boundary ? absl::StatusCode::kOutOfRange : absl::StatusCode::kDataLoss);
    EXPECT_EQ(outcome.ended_in_record, !at_boundary);
    EXPECT_EQ(reader->position(), static_cast<int64_t>(starts[whole]));
    EXPECT_THAT(std::string(outcome.end.message()), HasSubstr(kPath));
    EXPECT_THAT(std::string(outcome.end.message()),
                HasSubstr(absl::StrCat("offset ", starts[whole])));

    const Outcome skipping = Read({.skip_damaged = true});
    EXPECT_EQ(skipping.records.size(), whole);
    EXPECT_EQ(skipping.end.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(skipping.ended_in_record, !at_boundary);
    EXPECT_EQ(skipping.damaged, 0);
  }
}

// A file that is being appended to shows a bit more each time.
TEST_F(RecordTest, AGrowingFileIsFollowed) {
  const std::vector<std::string> records = SomeRecords();
  for (const Compression compression : {Compression::kNone, Compression::kZlib}) {
    Write(records, {.compression = compression});
    const std::string contents = Contents();
    files_.SetContents(kPath, "");
    const auto writer = *files_.OpenToWrite(kPath, WriteMode::kAppend);
    const auto reader = *RecordReader::Open(&files_, kPath, {.compression = compression});
    std::vector<std::string> found;
    bool cut_off = false;
    constexpr size_t kPiece = 7919;
    for (size_t at = 0; at < contents.size(); at += kPiece) {
      ASSERT_TRUE(writer->Append(contents.substr(at, kPiece)).ok());
      const Outcome outcome = ReadAll(reader.get());
      found.insert(found.end(), outcome.records.begin(), outcome.records.end());
      cut_off |= outcome.ended_in_record;
    }
    EXPECT_TRUE(cut_off);
    EXPECT_THAT(found, ElementsAreArray(records));
    EXPECT_FALSE(reader->ended_in_record());
  }
}

TEST_F(RecordTest, FlushedRecordsOfAPackedFileAreRead) {
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kSnappy}) {
    const auto writer = *RecordWriter::Open(&files_, kPath, {.compression = compression});
    ASSERT_TRUE(writer->Write("first").ok());
    ASSERT_TRUE(writer->Flush().ok());
    ASSERT_TRUE(writer->Write("second").ok());
    EXPECT_THAT(Read({.compression = compression}).records, ElementsAre("first"));
    ASSERT_TRUE(writer->Close().ok());
    EXPECT_THAT(Read({.compression = compression}).records, ElementsAre("first", "second"));
    EXPECT_EQ(writer->Write("third").code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(RecordTest, ADamagedRecordIsReportedOrSkipped) {
  Write({"abc", "defgh", "ij"});
  const std::string contents = Contents();
  const size_t second = 19;
  const size_t third = second + 21;
  for (size_t at = second; at < third; ++at) {
    std::string damaged = contents;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    files_.SetContents(kPath, damaged);
    const Outcome outcome = Read();
    EXPECT_THAT(outcome.records, ElementsAre("abc"));
    EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(outcome.ended_in_record);
    EXPECT_THAT(std::string(outcome.end.message()),
                HasSubstr("/d/records: the record at offset 19"));

    const Outcome skipping = Read({.skip_damaged = true, .buffer_bytes = 16});
    EXPECT_THAT(skipping.records, ElementsAre("abc", "ij")) << at;
    EXPECT_EQ(skipping.damaged, 1);
    EXPECT_EQ(skipping.end.code(), absl::StatusCode::kOutOfRange);
  }
}

TEST_F(RecordTest, TheSearchForTheNextRecordAsksWhetherToGoOn) {
  Write({"abc", "def"});
  const std::string contents = Contents();
  std::string damaged = contents.substr(0, contents.size() / 2);
  damaged.append(size_t{5} << 20, 'x');
  damaged += contents.substr(contents.size() / 2);
  files_.SetContents(kPath, damaged);
  int asked = 0;
  RecordReaderOptions options;
  options.skip_damaged = true;
  options.check_search = [&asked] {
    return ++asked == 4 ? errors::Cancelled("enough") : absl::OkStatus();
  };
  const auto reader = RecordReader::Open(&files_, kPath, options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  absl::string_view record;
  ASSERT_TRUE((*reader)->Read(&record).ok());
  EXPECT_EQ((*reader)->Read(&record).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 4);
  EXPECT_GT((*reader)->position(), int64_t{1} << 20);
  EXPECT_LT((*reader)->position(), int64_t{4} << 20);
  // It goes on where it was, and counts the place once.
  ASSERT_TRUE((*reader)->Read(&record).ok());
  EXPECT_EQ(record, "def");
  EXPECT_EQ((*reader)->damaged(), 1);
}

TEST_F(RecordTest, ZerosAtTheEndAreDamageAndNoRecords) {
  Write({"abc"});
  files_.SetContents(kPath, Contents() + std::string(5000, '\0'));
  const Outcome outcome = Read();
  EXPECT_THAT(outcome.records, ElementsAre("abc"));
  EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss);
  const Outcome skipping = Read({.skip_damaged = true});
  EXPECT_THAT(skipping.records, ElementsAre("abc"));
  EXPECT_EQ(skipping.damaged, 1);
}

TEST_F(RecordTest, DamageToPackedBytesIsAnErrorAndNeverAWrongRecord) {
  const std::vector<std::string> records = {"abc", std::string(3000, 'x'), "defgh",
                                            SomeRecords()[5]};
  std::mt19937 random(4);
  for (const Compression compression :
       {Compression::kZlib, Compression::kGzip, Compression::kSnappy}) {
    Write(records, {.compression = compression});
    const std::string contents = Contents();
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = contents;
      const size_t at = random() % damaged.size();
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
      files_.SetContents(kPath, damaged);
      const Outcome outcome = Read({.compression = compression});
      // Some bits of gzip's header, a name for example, mean nothing to us.
      if (outcome.end.code() == absl::StatusCode::kOutOfRange) {
        EXPECT_EQ(outcome.records, records) << at;
      } else {
        EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss) << outcome.end;
        EXPECT_THAT(std::string(outcome.end.message()), HasSubstr(kPath));
        ASSERT_LE(outcome.records.size(), records.size());
        for (size_t r = 0; r < outcome.records.size(); ++r) {
          EXPECT_EQ(outcome.records[r], records[r]);
        }
      }
      const Outcome skipping = Read({.compression = compression, .skip_damaged = true});
      EXPECT_EQ(skipping.end.code(), absl::StatusCode::kOutOfRange) << skipping.end;
      for (const std::string& record : skipping.records) {
        EXPECT_THAT(records, ::testing::Contains(record));
      }
    }
  }
}

TEST_F(RecordTest, AWrongChecksumAtTheEndIsDamageAndNoCut) {
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    Write({"one", "two"}, {.compression = compression});
    std::string contents = Contents();
    // gzip's length stands behind its checksum.
    char& checksum = contents[contents.size() - (compression == Compression::kGzip ? 5 : 1)];
    checksum = static_cast<char>(checksum ^ 1);
    files_.SetContents(kPath, contents);
    const Outcome outcome = Read({.compression = compression});
    EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss) << outcome.end;
    EXPECT_FALSE(outcome.ended_in_record) << outcome.end;
    EXPECT_EQ(Read({.compression = compression, .skip_damaged = true}).damaged, 1);
  }
}

TEST_F(RecordTest, AThousandFlippedBitsNeverGiveAWrongRecord) {
  const std::vector<std::string> records = SomeRecords();
  Write(records);
  const std::string contents = Contents();
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = contents;
    // Half of them near the beginning, where the small records are.
    const size_t at = random() % (i % 2 == 0 ? 1200 : damaged.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    files_.SetContents(kPath, damaged);
    const Outcome outcome = Read();
    EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss);
    ASSERT_LT(outcome.records.size(), records.size());
    for (size_t r = 0; r < outcome.records.size(); ++r) EXPECT_EQ(outcome.records[r], records[r]);
    const Outcome skipping = Read({.skip_damaged = true});
    EXPECT_EQ(skipping.records.size(), records.size() - 1);
    EXPECT_EQ(skipping.damaged, 1);
    for (const std::string& record : skipping.records) {
      EXPECT_THAT(records, ::testing::Contains(record));
    }
  }
}

TEST_F(RecordTest, ALengthThatTheFileDoesNotHaveTakesNoMemory) {
  // A sound checksum of a length of 2^40.
  std::string contents;
  AppendFixed64(uint64_t{1} << 40, &contents);
  AppendFixed32(MaskCrc32c(Crc32c(contents)), &contents);
  files_.SetContents(kPath, contents + "data");
  const Outcome outcome = Read({.max_record_bytes = int64_t{1} << 50});
  EXPECT_EQ(outcome.end.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(outcome.ended_in_record);
  EXPECT_EQ(Read().end.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RecordTest, ALargerRecordThanAllowedIsRefused) {
  Write({std::string(1000, 'x')});
  const Outcome outcome = Read({.max_record_bytes = 999});
  EXPECT_EQ(outcome.end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(outcome.end.message()), HasSubstr(kPath));
  EXPECT_EQ(Read({.max_record_bytes = 1000}).records.size(), 1u);
}

TEST_F(RecordTest, AWriteErrorStaysAndReachesClose) {
  const auto writer = *RecordWriter::Open(&files_, kPath);
  ASSERT_TRUE(writer->Write("abc").ok());
  files_.FailAt(0, errors::ResourceExhausted("full"));
  EXPECT_EQ(writer->Flush().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(writer->Write("def").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(writer->Close().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Compression, NamesAreTensorFlows) {
  EXPECT_EQ(*ParseCompression(""), Compression::kNone);
  EXPECT_EQ(*ParseCompression("ZLIB"), Compression::kZlib);
  EXPECT_EQ(*ParseCompression("GZIP"), Compression::kGzip);
  EXPECT_EQ(*ParseCompression("SNAPPY"), Compression::kSnappy);
  EXPECT_EQ(ParseCompression("gzip").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
