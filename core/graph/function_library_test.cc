#include "core/graph/function_library.h"

#include "gtest/gtest.h"
#include "proto/function.pb.h"

namespace tandem {
namespace {

// Functions with equal names differ when their descriptions do.
tensorflow::FunctionDef Function(const std::string& name, const std::string& description = "") {
  tensorflow::FunctionDef function;
  function.mutable_signature()->set_name(name);
  function.mutable_signature()->set_description(description);
  return function;
}

TEST(FunctionLibrary, TakesAnEqualFunctionAgainAndNoOtherOne) {
  FunctionLibrary library;
  ASSERT_TRUE(library.Add(Function("f")).ok());
  EXPECT_TRUE(library.Add(Function("f")).ok());
  EXPECT_EQ(library.Add(Function("f", "another")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(library.Add(Function("")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(library.Names(), (std::vector<std::string>{"f"}));
}

TEST(FunctionLibrary, ACopyGoesItsOwnWay) {
  FunctionLibrary library;
  ASSERT_TRUE(library.Add(Function("f")).ok());
  ASSERT_TRUE(library.SetGradient("f", "df").ok());
  const auto copy = library.Clone();
  EXPECT_EQ(copy->FindGradient("f"), "df");
  ASSERT_TRUE(copy->Add(Function("g")).ok());
  ASSERT_TRUE(library.Add(Function("h")).ok());
  EXPECT_EQ(copy->Names(), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(library.Names(), (std::vector<std::string>{"f", "h"}));
}

TEST(FunctionLibrary, MergesAllOrNothing) {
  FunctionLibrary library;
  ASSERT_TRUE(library.Add(Function("f")).ok());
  ASSERT_TRUE(library.SetGradient("f", "df").ok());

  FunctionLibrary more;
  ASSERT_TRUE(more.Add(Function("e")).ok());
  ASSERT_TRUE(more.Add(Function("f")).ok());
  ASSERT_TRUE(more.SetGradient("e", "de").ok());
  ASSERT_TRUE(library.Merge(more).ok());
  EXPECT_EQ(library.Names(), (std::vector<std::string>{"e", "f"}));
  EXPECT_EQ(library.FindGradient("e"), "de");

  FunctionLibrary other_body;
  ASSERT_TRUE(other_body.Add(Function("a")).ok());
  ASSERT_TRUE(other_body.Add(Function("f", "another")).ok());
  EXPECT_EQ(library.Merge(other_body).code(), absl::StatusCode::kInvalidArgument);

  FunctionLibrary other_gradient;
  ASSERT_TRUE(other_gradient.Add(Function("a")).ok());
  ASSERT_TRUE(other_gradient.SetGradient("f", "another").ok());
  EXPECT_EQ(library.Merge(other_gradient).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(library.Names(), (std::vector<std::string>{"e", "f"}));
}

}  // namespace
}  // namespace tandem
