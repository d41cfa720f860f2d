#include "tools/flags/program_flags.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(int, number, 7, "a number");
ABSL_FLAG(bool, sound, false, "whether there is sound");
ABSL_FLAG(std::string, word, "", "a word");
ABSL_FLAG(std::string, folder, "", "folder for the results");
ABSL_FLAG(absl::Duration, wait, absl::Seconds(1), "how long to wait");

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Result {
  absl::optional<int> code;
  std::string out;
  std::string err;
};

Result Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "/somewhere/program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result result;
  result.code =
      ParseProgramFlags({"program", "does things.", "flags/program_flags_test.cc", {"folder"}},
                        static_cast<int>(argv.size()), argv.data());
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

TEST(ProgramFlags, SetsFlagsOfEveryForm) {
  const Result result = Parse({"--number=3", "--word", "a b", "--sound", "-wait=20ms"});
  EXPECT_FALSE(result.code.has_value()) << result.err;
  EXPECT_EQ(absl::GetFlag(FLAGS_number), 3);
  EXPECT_EQ(absl::GetFlag(FLAGS_word), "a b");
  EXPECT_TRUE(absl::GetFlag(FLAGS_sound));
  EXPECT_EQ(absl::GetFlag(FLAGS_wait), absl::Milliseconds(20));
  EXPECT_FALSE(Parse({"--nosound", "--word="}).code.has_value());
  EXPECT_FALSE(absl::GetFlag(FLAGS_sound));
  EXPECT_EQ(absl::GetFlag(FLAGS_word), "");
  EXPECT_FALSE(Parse({}).code.has_value());
}

TEST(ProgramFlags, WrongOnesAreCodeTwoAndNameTheProgram) {
  const auto refused = [](const std::vector<std::string>& words) {
    const Result result = Parse(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_EQ(result.err.rfind("program: ", 0), 0u) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({"--numbre=1"}), HasSubstr("no flag --numbre. Did you mean 'number'?"));
  EXPECT_THAT(refused({"--number=x"}), AllOf(HasSubstr("--number=x"), HasSubstr("a number")));
  EXPECT_THAT(refused({"--wait=5"}), HasSubstr("how long to wait"));
  EXPECT_THAT(refused({"--number"}), HasSubstr("wants a value"));
  EXPECT_THAT(refused({"--nonumber"}), HasSubstr("no flag --nonumber"));
  EXPECT_THAT(refused({"--folder="}), AllOf(HasSubstr("--folder= is empty"), HasSubstr("results")));
  EXPECT_THAT(refused({"--folder", ""}), HasSubstr("--folder= is empty"));
  EXPECT_THAT(refused({"word"}), HasSubstr("'word' is no flag"));
}

TEST(ProgramFlags, HelpAndVersionAreNoErrors) {
  const Result help = Parse({"--number=x", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("program does things.\n"), HasSubstr("--number \n"),
                              HasSubstr("a number (default: 7)"), Not(HasSubstr("gtest"))));
  const Result version = Parse({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("program 0."));
}

}  // namespace
}  // namespace tandem
