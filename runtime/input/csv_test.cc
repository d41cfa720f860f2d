// Csv: columns, defaults and quotes. What each value may look like is in text_files_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "core/io/testing/mutations.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(CsvColumnsTest, AreFoundByTheirNamesInEachFile) {
  const std::string one = WriteFile("one.csv", "a,\"b \"\"x\"\"\",c\n1,2,3\n4,5,6\n");
  const std::string two = WriteFile("two.csv", "c,a,d,\"b \"\"x\"\"\"\n7,8,9,10\n");
  const Dataset dataset =
      Dataset::Csv({one, two}, {.types = {kInt64, kString}, .columns = {"c", "b \"x\""}});
  EXPECT_THAT(All(dataset),
              ElementsAre("int64[] = 3; string[] = \"2\"", "int64[] = 6; string[] = \"5\"",
                          "int64[] = 7; string[] = \"10\""));
  ExpectSameAfterRestoreEverywhere(dataset);
  ExpectSameAfterRestoreEverywhere(dataset.Batch(2));
}

TEST(CsvColumnsTest, HaveNumbersWithoutAHeader) {
  const std::string path = WriteFile("bare.csv", "1,2,3\n4,5\n6\n");
  const Dataset dataset =
      Dataset::Csv({path}, {.types = {kInt64, kInt64}, .header = false, .columns = {"1", "0"}});
  EXPECT_THAT(All(dataset), ElementsAre("int64[] = 2; int64[] = 1", "int64[] = 5; int64[] = 4",
                                        HasSubstr("line 3: found 1 fields, expected a column 1")));
}

TEST(CsvColumnsTest, OneThatIsMissingIsAnErrorAgainAndAgain) {
  const std::string path = WriteFile("missing.csv", "a,b\n1,2\n");
  const auto iterator =
      Dataset::Csv({path}, {.types = {kInt64, kInt64}, .columns = {"a", "x"}}).Open();
  ASSERT_TRUE(iterator.ok());
  const auto error = AllOf(HasSubstr("missing.csv, line 1: there is no column 'x'"),
                           HasSubstr("the header has a, b"));
  EXPECT_THAT(Rest(**iterator), ElementsAre(error));
  EXPECT_THAT(Rest(**iterator), ElementsAre(error));
}

TEST(CsvColumnsTest, ARecordOfAnotherLengthIsAnError) {
  const std::string path = WriteFile("short.csv", "a,b,c\n1,2\n");
  EXPECT_THAT(
      std::string(
          FirstError(Dataset::Csv({path}, {.types = {kInt64}, .columns = {"a"}})).message()),
      HasSubstr("line 2: found 2 fields, expected 3"));
}

TEST(CsvDefaultsTest, StandInForFieldsThatAreEmptyOrMissing) {
  const std::string path = WriteFile("holes.csv", "a,b,c\n,NA,\n1,,x\nNA,2.5,\"\"\n");
  const Dataset dataset =
      Dataset::Csv({path}, {.types = {kInt64, kFloat32, kString},
                            .defaults = {Tensor::Scalar<int64_t>(-1), Tensor::Scalar<float>(0.5f),
                                         Tensor::Scalar<std::string>("none")},
                            .missing = "NA"});
  EXPECT_THAT(All(dataset), ElementsAre("int64[] = -1; float32[] = 0.5; string[] = \"none\"",
                                        "int64[] = 1; float32[] = 0.5; string[] = \"x\"",
                                        "int64[] = -1; float32[] = 2.5; string[] = \"none\""));
  ExpectSameAfterRestoreEverywhere(dataset);
}

TEST(CsvDefaultsTest, AFieldWithoutOneMustHaveAValue) {
  const std::string path = WriteFile("hole.csv", "a,b\n,\n");
  EXPECT_THAT(All(Dataset::Csv({path}, {.types = {kInt64, kString},
                                        .defaults = {Tensor::Scalar<int64_t>(7), Tensor()}})),
              ElementsAre("int64[] = 7; string[] = \"\""));
  EXPECT_THAT(
      All(Dataset::Csv({path}, {.types = {kString, kInt64}, .defaults = {Tensor(), Tensor()}})),
      ElementsAre(AllOf(HasSubstr("line 2, field 2: found ''"),
                        HasSubstr("a default would stand in for it"))));
}

TEST(CsvTextTest, QuotesCanBeOrdinaryCharacters) {
  const std::string path = WriteFile("inches.csv", "5\" disk,\"x\n");
  EXPECT_THAT(
      All(Dataset::Csv({path}, {.types = {kString, kString}, .header = false, .quotes = false})),
      ElementsAre(testing::MatchesRegex(".*5.*disk.*x.*")));
}

TEST(CsvTextTest, AByteOrderMarkIsNoPartOfTheFirstField) {
  const std::string path = WriteFile("mark.csv",
                                     "\xef\xbb\xbf"
                                     "a,b\n1,2\n");
  EXPECT_THAT(All(Dataset::Csv({path}, {.types = {kInt64}, .columns = {"a"}})),
              ElementsAre("int64[] = 1"));
  EXPECT_THAT(All(Dataset::Csv({WriteFile("mark2.csv",
                                          "\xef\xbb\xbf"
                                          "7\n")},
                               {.types = {kInt64}, .header = false})),
              ElementsAre("int64[] = 7"));
}

TEST(CsvOptionsTest, ImpossibleOnesAreRefused) {
  const std::string path = WriteFile("one.csv", "h\n1\n");
  const auto error = [&](CsvOptions options) {
    const absl::Status status = OpenStatus(Dataset::Csv({path}, std::move(options)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.types = {kInt64}, .columns = {"a", "b"}}),
              HasSubstr("1 types for 2 columns"));
  EXPECT_THAT(error({.types = {kInt64}, .header = false, .columns = {"a"}}),
              HasSubstr("the column 'a' is no number"));
  EXPECT_THAT(error({.types = {kInt64}, .defaults = {Tensor(), Tensor()}}),
              HasSubstr("2 defaults for 1 types"));
  EXPECT_THAT(error({.types = {kInt64}, .defaults = {Tensor::Scalar<float>(1)}}),
              HasSubstr("the default of field 1 is float32[]; expected one int64"));
}

TEST(CsvTextTest, DamagedFilesAndPipelinesNeverCrash) {
  std::mt19937_64 random(1);
  const std::string contents = "a,b,c\n1,\"x\"\"y\nz\",2.5\n,,\n3,w,4\n";
  const CsvOptions options = {.types = {kFloat32, kString, kInt64},
                              .columns = {"c", "b", "a"},
                              .defaults = {Tensor(), Tensor(), Tensor::Scalar<int64_t>(3)}};
  for (int i = 0; i < 300; ++i) {
    All(Dataset::Csv({WriteFile("mutated.csv", Mutate(contents, random))}, options));
  }
  const std::string pipeline =
      *Dataset::Csv({WriteFile("sound.csv", contents)}, options).Serialize();
  for (int i = 0; i < 300; ++i) {
    const auto dataset = Dataset::Parse(Mutate(pipeline, random));
    if (dataset.ok()) All(*dataset);
  }
}

}  // namespace
}  // namespace tandem::data
