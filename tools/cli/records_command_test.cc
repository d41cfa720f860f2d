#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "core/io/example.h"
#include "core/io/file.h"
#include "core/io/record.h"
#include "nlohmann/json.hpp"
#include "tools/cli/command.h"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string WriteRecords(const std::string& name, const std::vector<std::string>& records,
                         Compression compression = Compression::kNone) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  RecordWriterOptions options;
  options.compression = compression;
  const auto writer = RecordWriter::Open(PosixFileSystem(), path, options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const std::string& record : records) EXPECT_TRUE((*writer)->Write(record).ok());
  EXPECT_TRUE((*writer)->Close().ok());
  return path;
}

// With a bit of the second of three records changed, and the third cut off.
std::string WriteDamaged() {
  const std::string path = WriteRecords("damaged", {"first", "second", "third", "fourth"});
  std::string contents = *ReadFile(PosixFileSystem(), path);
  contents[21 + 12] = static_cast<char>(contents[21 + 12] ^ 4);
  contents.pop_back();
  EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), path, contents).ok());
  return path;
}

std::string WriteExamples() {
  tensorflow::Example example;
  SetFeature("label", Int64Feature({3}), &example);
  SetFeature("image", BytesFeature({std::string("\x89PNG", 4), std::string(100, 'x')}), &example);
  SetFeature("weights", FloatFeature({1, 2, 3, 4, 5, 6, 7, 8, 9.5}), &example);
  tensorflow::SequenceExample sequences;
  SetContextFeature("id", Int64Feature({7}), &sequences);
  AddStep("words", BytesFeature({"a", "b"}), &sequences);
  AddStep("words", BytesFeature({}), &sequences);
  return WriteRecords("examples",
                      {*SerializeExample(example), *SerializeExample(sequences), "text"});
}

struct Result {
  absl::Status status;
  std::string output;
};

Result RunRecords(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  Result result;
  result.status = kRecordsCommand.run(words);
  result.output = testing::internal::GetCapturedStdout();
  return result;
}

TEST(TextTableTest, NumbersStandToTheRight) {
  TextTable table({"NAME", "SIZE", "NOTE"});
  table.AddRow({"äb", "7", ""});
  table.AddRow({"longer", "1234567", "x"});
  EXPECT_EQ(table.ToString(),
            "NAME       SIZE  NOTE\n"
            "äb            7\n"
            "longer  1234567  x\n");
  EXPECT_EQ(TextTable({"A", "B"}).ToString(), "A  B\n");
}

TEST(RecordsCommandTest, CountPrintsATable) {
  const std::string plain = WriteRecords("plain", {"one", "", "three"});
  const std::string packed = WriteRecords("packed", {"four"}, Compression::kGzip);
  const Result result = RunRecords({"count", plain, packed});
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output, AllOf(HasSubstr("RECORDS  BYTES  SMALLEST  LARGEST  COMPRESSION\n"),
                                   HasSubstr("3      8         0        5  none\n"),
                                   HasSubstr("1      4         4        4  gzip\n"),
                                   HasSubstr("2 files, 4 records, 12 bytes\n")));
}

TEST(RecordsCommandTest, CountPrintsJson) {
  const std::string packed = WriteRecords("packed", {"four", "x"}, Compression::kZlib);
  const Result result = RunRecords({"count", "--json", packed});
  ASSERT_TRUE(result.status.ok()) << result.status;
  const Json json = Json::parse(result.output);
  EXPECT_EQ(json, (Json{{"bytes", 5},
                        {"records", 2},
                        {"files", Json::array({{{"file", packed},
                                                {"compression", "zlib"},
                                                {"records", 2},
                                                {"bytes", 5},
                                                {"smallest", 1},
                                                {"largest", 4}}})}}));
}

TEST(RecordsCommandTest, CountStopsAtDamage) {
  const std::string path = WriteDamaged();
  const Result result = RunRecords({"count", path});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(HasSubstr(path), HasSubstr("the record at offset 21")));
}

TEST(RecordsCommandTest, HeadShowsFeaturesAndBytes) {
  const Result result = RunRecords({"head", WriteExamples()});
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("record 0, offset 0, "), HasSubstr("  image: string[2] \"\\x89PNG\" \"xxxx"),
            HasSubstr("x\"… (100 bytes)\n  label: int64[1] 3\n"),
            HasSubstr("  weights: float32[9] 1 2 3 4 5 6 7 8 …\n"), HasSubstr("record 1, ")));
  EXPECT_THAT(result.output,
              HasSubstr("  id: int64[1] 7\n  words: 2 steps\n    string[2] \"a\" \"b\"\n"
                        "    string[0]\n"));
  EXPECT_THAT(result.output, HasSubstr(", 4 bytes\n  \"text\"\n"));
  EXPECT_THAT(RunRecords({"head", "--records=1", WriteExamples()}).output,
              Not(HasSubstr("record 1")));
}

TEST(RecordsCommandTest, HeadPrintsJson) {
  const Result result = RunRecords({"head", "--json", WriteExamples()});
  ASSERT_TRUE(result.status.ok()) << result.status;
  const Json records = Json::parse(result.output)["files"][0]["records"];
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0]["kind"], "Example");
  EXPECT_EQ(records[0]["offset"], 0);
  EXPECT_EQ(records[0]["features"]["label"], (Json{{"type", "int64"}, {"values", {3}}}));
  EXPECT_EQ(records[0]["features"]["weights"]["values"][8], 9.5);
  EXPECT_EQ(records[0]["features"]["image"]["base64"][0], "iVBORw==");
  EXPECT_EQ(records[1]["kind"], "SequenceExample");
  EXPECT_EQ(records[1]["feature_lists"]["words"][0]["base64"], (Json{"YQ==", "Yg=="}));
  EXPECT_EQ(records[2]["kind"], "bytes");
  EXPECT_EQ(records[2]["base64"], "dGV4dA==");
}

TEST(RecordsCommandTest, VerifySaysWhatIsDamagedAndFails) {
  const std::string damaged = WriteDamaged();
  const std::string whole = WriteRecords("whole", {"one", "two"});
  Result result = RunRecords({"verify", whole, damaged});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(result.status.message(), "1 of 2 files are damaged or cut off");
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("2        0  good\n"), HasSubstr("2        1  DAMAGED, CUT OFF\n"),
                    HasSubstr(damaged + ": damaged from offset 21 to 43\n"),
                    HasSubstr(damaged + ": ends within the record at offset 64\n")));
  result = RunRecords({"verify", "--json", damaged});
  EXPECT_FALSE(result.status.ok());
  const Json json = Json::parse(result.output);
  EXPECT_EQ(json["good"], false);
  EXPECT_EQ(json["files"][0]["damage"],
            Json::array({{{"begin", 21}, {"end", 43}, {"cut_off", false}},
                         {{"begin", 64}, {"end", 64}, {"cut_off", true}}}));
  result = RunRecords({"verify", "--json", whole});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(Json::parse(result.output)["good"], true);
}

TEST(RecordsCommandTest, VerifyTellsAPackedFileThatIsCutFromADamagedOne) {
  // Random, so that the packed bytes are about as many.
  std::mt19937 random(1);
  std::vector<std::string> records(20, std::string(1000, '\0'));
  for (std::string& record : records) {
    for (char& c : record) c = static_cast<char>(random());
  }
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const std::string path = WriteRecords("cut", records, compression);
    std::string contents = *ReadFile(PosixFileSystem(), path);
    for (const size_t bytes : {contents.size() - 1, contents.size() / 2}) {
      ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, contents.substr(0, bytes)).ok());
      const Result result = RunRecords({"verify", path});
      EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(result.output, AllOf(HasSubstr("0  CUT OFF\n"), HasSubstr(" stream is cut off"),
                                       Not(HasSubstr("damaged"))));
    }
    contents[contents.size() / 2] = static_cast<char>(contents[contents.size() / 2] ^ 1);
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, contents).ok());
    EXPECT_THAT(RunRecords({"verify", path}).output, HasSubstr("DAMAGED\n"));
  }
}

TEST(RecordsCommandTest, HeadShowsTextAsText) {
  tensorflow::Example example;
  SetFeature("weights", FloatFeature({0.1f, 1.0f / 3}), &example);
  // The 60th byte is within a character.
  SetFeature("word", BytesFeature({absl::StrCat(std::string(59, 'x'), "ü")}), &example);
  SetFeature("wort", BytesFeature({"grün"}), &example);
  const Result result = RunRecords({"head", WriteRecords("text", {*SerializeExample(example)})});
  EXPECT_THAT(result.output, AllOf(HasSubstr("float32[2] 0.1 0.33333334\n"),
                                   HasSubstr("x\"… (61 bytes)\n"), HasSubstr("\"grün\"\n")));
}

TEST(RecordsCommandTest, WrongCallsSayWhatIsRight) {
  const auto message = [](const std::vector<std::string>& words) {
    const Result result = RunRecords(words);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status.message());
  };
  const std::string path = WriteRecords("whole", {"one"});
  EXPECT_THAT(message({}), HasSubstr("count, head or verify"));
  EXPECT_THAT(message({path}), HasSubstr("count, head or verify"));
  EXPECT_THAT(message({"head"}), HasSubstr("at least one file"));
  EXPECT_THAT(message({"head", "--records=x", path}), HasSubstr("--records=x: expected a number"));
  EXPECT_THAT(message({"count", "--compression=zip", path}),
              HasSubstr("expected none, zlib, gzip"));
  EXPECT_EQ(RunRecords({"count", path + ".missing"}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunRecords({"verify", "--compression=gzip", path}).status.code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(kRecordsCommand.help),
              AllOf(HasSubstr("Examples:"), HasSubstr("--json")));
}

}  // namespace
}  // namespace tandem::cli
