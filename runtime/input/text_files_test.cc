// TextLines and Csv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Line(absl::string_view text) { return absl::StrCat("string[] = \"", text, "\""); }

TEST(TextLinesTest, ReadsPlainAndGzippedFiles) {
  const std::string plain = WriteFile("plain.txt", "one\ntwo\r\n\nlast");
  const std::string packed = WriteFile("packed.txt", Gzip("a\nb\n"));
  const std::string empty = WriteFile("empty.txt", "");
  EXPECT_THAT(All(Dataset::TextLines({plain, empty, packed})),
              ElementsAre(Line("one"), Line("two"), Line(""), Line("last"), Line("a"), Line("b")));
  EXPECT_THAT(All(Dataset::TextLines({empty})), IsEmpty());
}

TEST(TextLinesTest, ALineMayBeLongAndContainZeros) {
  const std::string text = std::string(10000, 'x') + std::string("\0y", 2);
  const auto iterator = Dataset::TextLines({WriteFile("long.txt", text + "\nz\n")}).Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_EQ((**(*iterator)->Next())[0].ScalarValue<std::string>(), text);
  EXPECT_EQ((**(*iterator)->Next())[0].ScalarValue<std::string>(), "z");
}

TEST(TextLinesTest, EveryPositionCanBeRestored) {
  const std::string plain = WriteFile("plain.txt", "one\ntwo\n\nlast");
  const std::string packed = WriteFile("packed.txt", Gzip("a\nb\n"));
  ExpectSameAfterRestoreEverywhere(Dataset::TextLines({plain, packed, plain}));
}

TEST(TextLinesTest, AMissingFileIsNamedBeforeAnythingIsRead) {
  const std::string missing = testing::TempDir() + "/missing.txt";
  const absl::Status status = OpenStatus(Dataset::TextLines({missing}));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            absl::StrCat("TextLines: ", missing, ": there is no such file; check the path"));
  EXPECT_EQ(OpenStatus(Dataset::TextLines({})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(OpenStatus(Dataset::TextLines({testing::TempDir()})).message()),
              HasSubstr("is a directory"));
}

TEST(TextLinesTest, ADamagedGzipFileIsAnErrorAgainAndAgain) {
  std::string contents;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&contents, i * 7919 % 10007, "\n");
  std::string packed = Gzip(contents);
  packed.resize(packed.size() / 2);
  const auto iterator = Dataset::TextLines({WriteFile("cut.txt.gz", packed)}).Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_THAT(Rest(**iterator).back(),
              AllOf(HasSubstr("error: DATA_LOSS: TextLines: "), HasSubstr("cut.txt.gz, offset ")));
  EXPECT_THAT(Rest(**iterator), ElementsAre(HasSubstr("DATA_LOSS")));
}

CsvOptions Types(std::vector<DataType> types) { return {.types = std::move(types)}; }

TEST(CsvTest, ParsesTheTypes) {
  const std::string path =
      WriteFile("all.csv", "a,b,c,d,e,f\n1,-2,0.5,1e3,true,x y\n\n2,3,4,5,0,\n");
  EXPECT_THAT(
      All(Dataset::Csv({path}, Types({kInt32, kInt64, kFloat32, kFloat64, kBool, kString}))),
      ElementsAre("int32[] = 1; int64[] = -2; float32[] = 0.5; float64[] = 1000; bool[] = true; "
                  "string[] = \"x y\"",
                  "int32[] = 2; int64[] = 3; float32[] = 4; float64[] = 5; bool[] = false; "
                  "string[] = \"\""));
}

TEST(CsvTest, QuotedFieldsMayContainDelimitersQuotesAndLineEnds) {
  const std::string path =
      WriteFile("quoted.csv", "\"a;b\";\"say \"\"hi\"\"\"\n\"two\nlines\";z\n");
  const auto iterator =
      Dataset::Csv({path}, {.types = {kString, kString}, .header = false, .delimiter = ';'}).Open();
  ASSERT_TRUE(iterator.ok());
  const Element first = **(*iterator)->Next();
  EXPECT_EQ(first[0].ScalarValue<std::string>(), "a;b");
  EXPECT_EQ(first[1].ScalarValue<std::string>(), "say \"hi\"");
  const Element second = **(*iterator)->Next();
  EXPECT_EQ(second[0].ScalarValue<std::string>(), "two\nlines");
  EXPECT_EQ(second[1].ScalarValue<std::string>(), "z");
}

TEST(CsvTest, EveryPositionCanBeRestored) {
  const std::string one = WriteFile("one.csv", "h\n1\n2\n\n3\n");
  const std::string two = WriteFile("two.csv", Gzip("h\n4\n5"));
  EXPECT_THAT(Ints(Dataset::Csv({one, two}, Types({kInt64}))), ElementsAre(1, 2, 3, 4, 5));
  ExpectSameAfterRestoreEverywhere(Dataset::Csv({one, two}, Types({kInt64})));
}

TEST(CsvTest, ErrorsHaveFileLineAndField) {
  const auto error = [](absl::string_view contents) {
    const absl::Status status =
        FirstError(Dataset::Csv({WriteFile("bad.csv", contents)}, Types({kInt32, kFloat32})));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error("a,b\n1,2\n3,x\n"),
              HasSubstr("bad.csv, line 3, field 2: found 'x', expected a value of type float32"));
  EXPECT_THAT(error("a,b\n1.5,2\n"), HasSubstr("line 2, field 1: found '1.5'"));
  EXPECT_THAT(error("a,b\n1\n"), HasSubstr("line 2: found 1 fields, expected 2"));
  EXPECT_THAT(error("a,b\n1,\"2\n3\n"),
              HasSubstr("line 2, field 2: the file ends inside a quoted field"));
  EXPECT_THAT(error("a,b\n1,\"2\"x\n"), HasSubstr("behind the closing quote"));
  EXPECT_THAT(error("a,b\n1,2\"x\n"), HasSubstr("inside a field"));
  EXPECT_THAT(error("a,b\n99999999999,2\n"), HasSubstr("found '99999999999'"));
}

TEST(CsvTest, ImpossibleOptionsAreRefused) {
  const std::string path = WriteFile("one.csv", "h\n1\n");
  const auto error = [&](CsvOptions options) {
    const absl::Status status = OpenStatus(Dataset::Csv({path}, std::move(options)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({}), HasSubstr("no types were given"));
  EXPECT_THAT(error(Types({kComplex64})), HasSubstr("the type of field 1 is complex64"));
  EXPECT_THAT(error({.types = {kInt32}, .delimiter = '"'}), HasSubstr("the delimiter is"));
}

}  // namespace
}  // namespace tandem::data
