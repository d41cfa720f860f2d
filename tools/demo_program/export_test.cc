#include "tools/demo_program/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/io/file.h"

namespace tandem::demo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string TestFolder() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = JoinPath(testing::TempDir(), test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(CheckExportFolderTest, FoldersThatAreSharedAreRefused) {
  const std::string folder = TestFolder();
  const auto at = [&](const std::string& name) { return JoinPath(folder, name); };
  std::filesystem::create_directory(at("run"));
  std::filesystem::create_directory_symlink("run", at("link"));
  for (const auto& [exported, other] :
       std::vector<std::pair<std::string, std::string>>{{"run", "run"},
                                                        {"new", "new/"},
                                                        {"run", "run/log"},
                                                        {"run/model", "run"},
                                                        {"x/../run/model", "./run"},
                                                        {"run/model", "link"},
                                                        {"link/model", "run"}}) {
    const absl::Status status =
        CheckExportFolder(at(exported), {{"--checkpoint_dir", ""}, {"--log_dir", at(other)}});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("--export=" + at(exported)), HasSubstr("--log_dir=" + at(other))));
  }
  const absl::Status apart = CheckExportFolder(
      at("run/model"), {{"--checkpoint_dir", at("run/mod")}, {"--log_dir", at("run/model_log")}});
  EXPECT_TRUE(apart.ok()) << apart;
  EXPECT_FALSE(std::filesystem::exists(at("run/model")));
}

TEST(CheckExportFolderTest, WhatCannotBeWrittenOrWouldBeLostIsRefused) {
  const std::string folder = TestFolder();
  const std::string file = JoinPath(folder, "notes");
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), file, "x").ok());
  EXPECT_THAT(
      std::string(CheckExportFolder(folder, {}).message()),
      AllOf(HasSubstr("--export"), HasSubstr("something else than a SavedModel ('notes')")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckExportFolder(".", {})));
  EXPECT_FALSE(CheckExportFolder(JoinPath(file, "model"), {}).ok());
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace tandem::demo
