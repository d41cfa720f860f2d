#include "runtime/checkpoint/load.h"

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() { Write(1); }

  void Write(int step) {
    const auto value = static_cast<float>(step);
    ASSERT_TRUE(WriteCheckpoint(&files_, absl::StrCat("/run/c-", step),
                                {{"w", Tensor::Vector<float>({value, value})},
                                 {"b", Tensor::Scalar<int64_t>(step)},
                                 {"_tandem/note", Tensor::Scalar<int64_t>(0)}})
                    .ok());
  }
  absl::StatusOr<LoadedTensors> Load(const std::vector<WantedTensor>& wanted,
                                     LoadOptions options = {}) {
    options.files = &files_;
    return LoadCheckpoint("/run", wanted, options);
  }

  const WantedTensor w_ = {"w", kFloat32, Shape({2})};
  const WantedTensor b_ = {"b", kInt64, Shape()};
  FaultyFileSystem files_;
};

TEST_F(LoadTest, GivesWhatIsWantedInOrder) {
  const auto loaded = Load({w_, b_});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->prefix, "/run/c-1");
  ASSERT_EQ(loaded->tensors.size(), 2u);
  EXPECT_EQ(loaded->tensors[0].first, "w");
  EXPECT_THAT(loaded->tensors[0].second.Elements<float>(), ElementsAre(1, 1));
  EXPECT_EQ(loaded->tensors[1].second.ScalarValue<int64_t>(), 1);
  EXPECT_THAT(loaded->unused, IsEmpty());
}

TEST_F(LoadTest, ListsWhatIsMissingAndWhatNobodyWants) {
  const std::vector<WantedTensor> wanted = {w_, {"x", kFloat32, Shape()}, {"y", kFloat32, Shape()}};
  const absl::Status status = Load(wanted).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("2 of the 3"), HasSubstr("x, y"), HasSubstr("nobody wants: b")));
  LoadOptions options;
  options.partial = true;
  const auto loaded = Load(wanted, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tensors.size(), 1u);
  EXPECT_THAT(loaded->missing, ElementsAre("x", "y"));
  EXPECT_THAT(loaded->unused, ElementsAre("b"));
}

TEST_F(LoadTest, NamesCanBeMapped) {
  LoadOptions options;
  options.names = {{"layer/kernel", "w"}};
  const auto loaded = Load({{"layer/kernel", kFloat32, Shape({2})}}, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tensors[0].first, "layer/kernel");
  options.names = {{"layer/kernl", "w"}};
  const absl::Status slip = Load({{"layer/kernel", kFloat32, Shape({2})}}, options).status();
  EXPECT_EQ(slip.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(slip.message(), HasSubstr("Did you mean 'layer/kernel'"));
}

TEST_F(LoadTest, WhatDoesNotFitIsNamedWithBothShapesAndTypes) {
  LoadOptions options;
  options.partial = true;  // Makes no difference.
  const absl::Status status =
      Load({{"w", kFloat32, Shape({3})}, {"b", kInt32, Shape()}}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("'w' is float32[3] in the program and float32[2] in the checkpoint"),
                    HasSubstr("'b' is int32[] in the program and int64[] in the checkpoint")));
}

TEST_F(LoadTest, TakesTheNewestThatIsGood) {
  Write(2);
  Write(3);
  EXPECT_EQ(Load({b_})->tensors[0].second.ScalarValue<int64_t>(), 3);
  const std::string path = "/run/c-3.data-00000-of-00001";
  std::string bytes = *ReadFile(&files_, path);
  for (char& byte : bytes) byte = static_cast<char>(byte ^ 0x10);
  files_.SetContents(path, bytes);
  SetLogSink([](LogSeverity, absl::string_view) {});
  const auto loaded = Load({b_, w_});
  SetLogSink({});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->prefix, "/run/c-2");
  EXPECT_EQ(loaded->tensors[0].second.ScalarValue<int64_t>(), 2);
}

TEST_F(LoadTest, WhatDoesNotFitTheNewestIsNoReasonToTakeAnOlderOne) {
  ASSERT_TRUE(WriteCheckpoint(&files_, "/run/c-2", {{"b", Tensor::Scalar<float>(1)}}).ok());
  EXPECT_EQ(Load({b_}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Load({w_}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem
