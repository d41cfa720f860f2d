#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::io {
namespace {

using ::tandem::testing::RunOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Tensor> Join(const std::vector<Tensor>& inputs, const std::string& separator = "",
                            bool constant = false) {
  const auto joined =
      RunOp("StringJoin", inputs,
            {{"N", static_cast<int64_t>(inputs.size())}, {"separator", separator}}, constant);
  if (!joined.ok()) return joined.status();
  return (*joined)[0];
}

Tensor Word(const std::string& text) { return Tensor::Scalar(text); }

TEST(StringJoin, JoinsScalars) {
  EXPECT_EQ(Join({Word("a"), Word("b"), Word("")}, "_")->ScalarValue<std::string>(), "a_b_");
  EXPECT_EQ(Join({Word("a")}, "_")->ScalarValue<std::string>(), "a");
}

TEST(StringJoin, WithoutInputsIsOneEmptyString) {
  const auto joined = Join({}, "_");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(joined->shape().IsScalar());
  EXPECT_EQ(joined->ScalarValue<std::string>(), "");
}

TEST(StringJoin, ScalarsStandAtEveryPlace) {
  const Tensor two = Tensor::Vector<std::string>({"x", "y"});
  const auto joined = Join({Word("a"), two, Word("b"), two}, "/");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->Elements<std::string>(), ElementsAre("a/x/b/x", "a/y/b/y"));
  const auto none = Join({Tensor(kString, Shape({0, 3})), Word("b")});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->shape(), Shape({0, 3}));
}

TEST(StringJoin, RefusesShapesThatDiffer) {
  const Tensor one = Tensor::Vector<std::string>({"x"});
  const Tensor two = Tensor::Vector<std::string>({"x", "y"});
  for (const bool constant : {false, true}) {
    EXPECT_EQ(Join({one, two}, "", constant).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Join({one, Word("a"), two}, "", constant).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

absl::StatusOr<Tensor> Match(const Tensor& input, const std::string& pattern) {
  const auto matches = RunOp("StaticRegexFullMatch", {input}, {{"pattern", pattern}});
  if (!matches.ok()) return matches.status();
  return (*matches)[0];
}

TEST(StaticRegexFullMatch, MatchesTheWholeString) {
  const Tensor paths =
      Tensor::FromValues<std::string>({2, 2}, {"s3://a", "/data/s3://", "s3://", ""});
  const auto matches = Match(paths, "^s3://.*");
  ASSERT_TRUE(matches.ok()) << matches.status();
  EXPECT_EQ(matches->shape(), Shape({2, 2}));
  EXPECT_THAT(matches->Elements<bool>(), ElementsAre(true, false, true, false));
  EXPECT_THAT(Match(Tensor::Vector<std::string>({"ab", "abc"}), "ab")->Elements<bool>(),
              ElementsAre(true, false));
}

TEST(StaticRegexFullMatch, SaysWhatIsWrongWithThePattern) {
  const absl::Status status = Match(Word("a"), "a(").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'a('"));
}

}  // namespace
}  // namespace tandem::io
