#include "core/io/confined_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using absl::StatusCode;

class ConfinedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/confined_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    for (const char* folder : {"in", "in/deep", "other", "inner"}) {
      ASSERT_EQ(mkdir(At(folder).c_str(), 0700), 0) << folder;
    }
    for (const char* file : {"in/file", "in/deep/file", "other/file", "inner/file", "secret"}) {
      ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), At(file), file).ok()) << file;
    }
    Confine({At("in"), At("other")});
  }

  std::string At(const std::string& name) const { return absl::StrCat(root_, "/", name); }
  void Link(const std::string& target, const std::string& name) {
    ASSERT_EQ(symlink(target.c_str(), At(name).c_str()), 0) << name;
  }
  void Confine(const std::vector<std::string>& folders) {
    auto files = ConfinedFileSystem(folders, "ask the operator");
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  StatusCode Reading(const std::string& name) {
    return ReadFile(files_.get(), At(name)).status().code();
  }
  StatusCode Writing(const std::string& name) {
    return files_->OpenToWrite(At(name), WriteMode::kReplace).status().code();
  }

  std::string root_;
  std::unique_ptr<FileSystem> files_;
};

TEST_F(ConfinedFilesTest, FilesBelowTheFoldersAreAsWithoutThem) {
  EXPECT_EQ(*ReadFile(files_.get(), At("in/file")), "in/file");
  EXPECT_EQ(*ReadFile(files_.get(), At("in/deep/file")), "in/deep/file");
  EXPECT_EQ(*ReadFile(files_.get(), At("other/file")), "other/file");
  EXPECT_EQ(*ReadFile(files_.get(), At("in/../other/./file")), "other/file");
  EXPECT_EQ(Reading("in/nothing"), StatusCode::kNotFound);
  EXPECT_EQ(Reading("in/no/folder"), StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(files_.get(), At("in/new"), "new").ok());
  EXPECT_EQ(*ReadFile(files_.get(), At("in/new")), "new");
  EXPECT_TRUE(files_->MakeDirectories(At("in/a/b/c")).ok());
  EXPECT_TRUE(files_->MakeDirectories(At("in")).ok());
  EXPECT_TRUE(files_->RemoveDirectory(At("in/a/b/c")).ok());
  EXPECT_TRUE(files_->Rename(At("in/new"), At("other/moved")).ok());
  EXPECT_TRUE(files_->Remove(At("other/moved")).ok());
  EXPECT_TRUE(files_->ListDirectory(At("in")).ok());
  EXPECT_TRUE(files_->SyncDirectory(At("in/")).ok());
}

TEST_F(ConfinedFilesTest, AllElseIsRefused) {
  for (const char* name :
       {"secret", "nothing", "inner/file", "in/../secret", "in/deep/../../secret",
        "in/../inner/file", "no/folder", "in/no/../../secret"}) {
    EXPECT_EQ(Reading(name), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(Writing(name), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(files_->Stat(At(name)).status().code(), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(files_->OpenSequential(At(name)).status().code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(files_->IsLink(At(name)).status().code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(files_->Remove(At(name)).code(), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(files_->MakeDirectories(At(name)).code(), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(files_->RemoveDirectory(At(name)).code(), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(files_->Rename(At("in/file"), At(name)).code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(files_->Rename(At(name), At("in/taken")).code(), StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(files_->ListDirectory(root_).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(files_->SyncDirectory("/").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(files_->OpenToRead("").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(files_->OpenToRead("/etc/passwd").status().code(), StatusCode::kPermissionDenied);
  const absl::Status status = files_->OpenToRead("/etc/passwd").status();
  EXPECT_TRUE(absl::StrContains(status.message(), "'/etc/passwd'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "ask the operator")) << status;
  EXPECT_EQ(*ReadFile(PosixFileSystem(), At("in/file")), "in/file");
}

TEST_F(ConfinedFilesTest, LinksLeadFromOneFolderToAnotherAndNotOut) {
  Link("../other/file", "in/to_other");
  Link("../secret", "in/out");
  Link("..", "in/up");
  Link("/", "in/root");
  Link(At("to_be_made"), "in/dangling");
  Link("loop", "in/loop");
  Link(At("in"), "door");
  EXPECT_EQ(Reading("in/to_other"), StatusCode::kOk);
  EXPECT_EQ(Reading("door/file"), StatusCode::kOk);
  for (const char* name :
       {"in/out", "in/up/secret", "in/root/etc/passwd", "in/dangling", "in/loop"}) {
    EXPECT_EQ(Reading(name), StatusCode::kPermissionDenied) << name;
    EXPECT_EQ(Writing(name), StatusCode::kPermissionDenied) << name;
  }
  EXPECT_EQ(files_->ListDirectory(At("in/root")).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(files_->MakeDirectories(At("in/up/made")).code(), StatusCode::kPermissionDenied);
  EXPECT_FALSE(PosixFileSystem()->Stat(At("to_be_made")).ok());
  // The link itself lies inside.
  EXPECT_TRUE(*files_->IsLink(At("in/out")));
  EXPECT_TRUE(files_->Remove(At("in/out")).ok());
  EXPECT_EQ(*ReadFile(PosixFileSystem(), At("secret")), "secret");
}

TEST_F(ConfinedFilesTest, TheRootAllowsEverythingAndNothingNothing) {
  Confine({"/"});
  EXPECT_EQ(Reading("secret"), StatusCode::kOk);
  EXPECT_EQ(Writing("new"), StatusCode::kOk);
  Confine({});
  EXPECT_EQ(Reading("in/file"), StatusCode::kPermissionDenied);
}

TEST_F(ConfinedFilesTest, FoldersHaveToBeThere) {
  EXPECT_EQ(ConfinedFileSystem({At("nowhere")}, "").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ConfinedFileSystem({At("secret")}, "").status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem
