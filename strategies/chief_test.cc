#include "strategies/chief.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "strategies/strategy.h"

namespace tandem {
namespace {

bool IsChiefIn(const std::string& cluster, const std::string& task) {
  const auto config =
      ParseClusterConfig(absl::StrCat("{\"cluster\": ", cluster, ", \"task\": ", task, "}"));
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() && IsChief(*config);
}

std::string Task(const std::string& type, int index) {
  return absl::StrCat("{\"type\": \"", type, "\", \"index\": ", index, "}");
}

TEST(Chief, IsTheChiefOrElseTheFirstWorker) {
  const std::string workers = R"({"worker": ["a:1", "b:1"], "ps": ["c:1"]})";
  EXPECT_TRUE(IsChiefIn(workers, Task("worker", 0)));
  EXPECT_FALSE(IsChiefIn(workers, Task("worker", 1)));
  EXPECT_FALSE(IsChiefIn(workers, Task("ps", 0)));
  EXPECT_TRUE(IsChiefIn(workers, Task("evaluator", 0)));
  const std::string with_chief = R"({"chief": ["d:1"], "worker": ["a:1", "b:1"]})";
  EXPECT_TRUE(IsChiefIn(with_chief, Task("chief", 0)));
  EXPECT_FALSE(IsChiefIn(with_chief, Task("worker", 0)));
  EXPECT_FALSE(IsChiefIn(R"({"master": ["d:1"], "worker": ["a:1"]})", Task("worker", 0)));
}

TEST(Chief, AnEvaluatorKnowsItself) {
  unsetenv("TF_CONFIG");
  EXPECT_FALSE(IsEvaluatorByEnvironment());
  setenv("TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})",
         1);
  EXPECT_FALSE(IsEvaluatorByEnvironment());
  setenv("TF_CONFIG",
         R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})", 1);
  EXPECT_TRUE(IsEvaluatorByEnvironment());
  unsetenv("TF_CONFIG");
}

TEST(Chief, OfAStrategyIsWhatTfConfigSays) {
  unsetenv("TF_CONFIG");
  const auto strategy = Strategy::OneDevice({});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_TRUE((*strategy)->is_chief());
  setenv("TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]},
                          "task": {"type": "worker", "index": 1}})",
         1);
  EXPECT_FALSE((*strategy)->is_chief());
  setenv("TF_CONFIG", "no JSON", 1);
  EXPECT_TRUE((*strategy)->is_chief());
  unsetenv("TF_CONFIG");
}

}  // namespace
}  // namespace tandem
