#include "core/io/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string FreshFolder(absl::string_view name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/file_test_", name, "_", getpid());
  EXPECT_TRUE(PosixFileSystem()->MakeDirectories(folder).ok());
  return folder;
}

absl::Status WriteAll(FileSystem* files, const std::string& path, WriteMode mode,
                      std::vector<absl::string_view> pieces) {
  TANDEM_ASSIGN_OR_RETURN(const auto file, files->OpenToWrite(path, mode));
  TANDEM_RETURN_IF_ERROR(file->AppendPieces(pieces));
  TANDEM_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

// Both file systems answer the same questions.
class FileSystemTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(GetParam() ? "memory" : "posix");
    ASSERT_TRUE(memory_.MakeDirectories(folder_).ok());
  }
  FileSystem* files() { return GetParam() ? &memory_ : PosixFileSystem(); }
  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }

  FaultyFileSystem memory_;
  std::string folder_;
};

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InMemory" : "Posix"; });

TEST_P(FileSystemTest, PiecesAreWrittenInOrderAndReadBack) {
  std::vector<std::string> words;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    words.push_back(i % 7 == 0 ? "" : absl::StrCat("word", i, " "));
    expected += words.back();
  }
  ASSERT_TRUE(WriteAll(files(), Path("a"), WriteMode::kReplace,
                       std::vector<absl::string_view>(words.begin(), words.end()))
                  .ok());
  EXPECT_EQ(*ReadFile(files(), Path("a")), expected);
  EXPECT_EQ(files()->Stat(Path("a"))->size, static_cast<int64_t>(expected.size()));

  const auto file = *files()->OpenToRead(Path("a"));
  EXPECT_EQ(*file->Size(), static_cast<int64_t>(expected.size()));
  std::string bytes(10, '?');
  EXPECT_EQ(*file->Read(5, absl::MakeSpan(bytes)), 10u);
  EXPECT_EQ(bytes, expected.substr(5, 10));
  EXPECT_EQ(*file->Read(static_cast<int64_t>(expected.size()) - 3, absl::MakeSpan(bytes)), 3u);
  EXPECT_EQ(*file->Read(1 << 30, absl::MakeSpan(bytes)), 0u);
  const absl::Status status =
      file->ReadExactly(static_cast<int64_t>(expected.size()) - 3, absl::MakeSpan(bytes));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), StartsWith(Path("a")));
}

TEST_P(FileSystemTest, ModesReplaceAppendAndRefuse) {
  ASSERT_TRUE(WriteAll(files(), Path("b"), WriteMode::kReplace, {"12345"}).ok());
  ASSERT_TRUE(WriteAll(files(), Path("b"), WriteMode::kAppend, {"67"}).ok());
  EXPECT_EQ(*ReadFile(files(), Path("b")), "1234567");
  ASSERT_TRUE(WriteAll(files(), Path("b"), WriteMode::kReplace, {"8"}).ok());
  EXPECT_EQ(*ReadFile(files(), Path("b")), "8");
  const absl::Status status = WriteAll(files(), Path("b"), WriteMode::kNew, {"9"});
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), HasSubstr(Path("b")));
  EXPECT_EQ(*ReadFile(files(), Path("b")), "8");
}

TEST_P(FileSystemTest, WhatIsMissingIsNotFoundAndNamed) {
  for (const absl::Status& status :
       {files()->OpenToRead(Path("no")).status(), files()->OpenSequential(Path("no")).status(),
        files()->Stat(Path("no")).status(), files()->Remove(Path("no")),
        files()->Rename(Path("no"), Path("x")), files()->ListDirectory(Path("no")).status(),
        files()->OpenToWrite(Path("no/file"), WriteMode::kReplace).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(status.message(), HasSubstr(Path("no")));
  }
}

TEST_P(FileSystemTest, FoldersAreMadeListedAndRemoved) {
  ASSERT_TRUE(files()->MakeDirectories(Path("x/y")).ok());
  ASSERT_TRUE(files()->MakeDirectories(Path("x/y")).ok());
  EXPECT_TRUE(files()->Stat(Path("x/y"))->is_directory);
  ASSERT_TRUE(WriteAll(files(), Path("x/b"), WriteMode::kReplace, {"1"}).ok());
  ASSERT_TRUE(WriteAll(files(), Path("x/a"), WriteMode::kReplace, {"1"}).ok());
  EXPECT_THAT(*files()->ListDirectory(Path("x")), ElementsAre("a", "b", "y"));
  EXPECT_EQ(files()->RemoveDirectory(Path("x")).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(files()->Remove(Path("x/a")).ok());
  ASSERT_TRUE(files()->Remove(Path("x/b")).ok());
  ASSERT_TRUE(files()->RemoveDirectory(Path("x/y")).ok());
  ASSERT_TRUE(files()->RemoveDirectory(Path("x")).ok());
  EXPECT_EQ(files()->Stat(Path("x")).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(FileSystemTest, AnAtomicWriteReplacesAndLeavesNothingElse) {
  ASSERT_TRUE(files()->MakeDirectories(Path("atomic")).ok());
  ASSERT_TRUE(WriteFileAtomically(files(), Path("atomic/f"), "old").ok());
  ASSERT_TRUE(WriteFileAtomically(files(), Path("atomic/f"), "new").ok());
  EXPECT_EQ(*ReadFile(files(), Path("atomic/f")), "new");
  EXPECT_THAT(*files()->ListDirectory(Path("atomic")), ElementsAre("f"));
}

TEST_P(FileSystemTest, ReadFileRefusesMoreThanItsLimit) {
  ASSERT_TRUE(WriteAll(files(), Path("large"), WriteMode::kReplace, {std::string(100, 'x')}).ok());
  EXPECT_EQ(ReadFile(files(), Path("large"), 100)->size(), 100u);
  EXPECT_EQ(ReadFile(files(), Path("large"), 99).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PosixFileSystem, AFolderIsNoFileAndAFileNoFolder) {
  FileSystem* const files = PosixFileSystem();
  const std::string folder = FreshFolder("kinds");
  const absl::Status status = files->OpenToRead(folder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("Is a directory"));
  ASSERT_TRUE(WriteAll(files, folder + "/f", WriteMode::kReplace, {"1"}).ok());
  EXPECT_EQ(files->OpenToRead(folder + "/f/g").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files->MakeDirectories(folder + "/f/g").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files->MakeDirectories(folder + "/f").code(), absl::StatusCode::kFailedPrecondition);
}

// They are written out while they grow.
TEST(PosixFileSystem, ALargeNewFileHasAllItsBytes) {
  const std::string path = JoinPath(FreshFolder("large"), "file");
  std::string expected;
  const auto file = PosixFileSystem()->OpenToWrite(path, WriteMode::kNew);
  ASSERT_TRUE(file.ok()) << file.status();
  for (char c = 'a'; c < 'g'; ++c) {
    const std::string piece((size_t{5} << 20) + static_cast<size_t>(c), c);
    ASSERT_TRUE((*file)->AppendPieces({"<", piece, ">"}).ok());
    absl::StrAppend(&expected, "<", piece, ">");
  }
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(*ReadFile(PosixFileSystem(), path) == expected);
  ASSERT_TRUE(PosixFileSystem()->Remove(path).ok());
}

TEST(PosixFileSystem, AFullDiskIsResourceExhausted) {
  FileSystem* const files = PosixFileSystem();
  const absl::Status status = WriteAll(files, "/dev/full", WriteMode::kReplace, {"1"});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("/dev/full"));
  EXPECT_THAT(status.message(), HasSubstr("free space"));
}

TEST(PosixFileSystem, WithoutTheRightToItIsPermissionDenied) {
  if (geteuid() == 0) {
    // Root may read everything, but nobody may write into /proc/self.
    EXPECT_FALSE(PosixFileSystem()->OpenToWrite("/proc/self/new", WriteMode::kNew).ok());
    return;
  }
  const std::string path = FreshFolder("rights") + "/f";
  ASSERT_TRUE(WriteAll(PosixFileSystem(), path, WriteMode::kReplace, {"1"}).ok());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  EXPECT_EQ(PosixFileSystem()->OpenToRead(path).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// A pipe gives what is in it at the moment, and signals interrupt who waits for more.
TEST(PosixFileSystem, ReadsFromPipesInPiecesAndThroughSignals) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);  // Without SA_RESTART.
  const std::string path = FreshFolder("pipe") + "/pipe";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const pthread_t reader = pthread_self();
  std::thread writer([&] {
    const auto file = PosixFileSystem()->OpenToWrite(path, WriteMode::kAppend);
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE((*file)->Append("0123456789").ok());
      pthread_kill(reader, SIGUSR1);
    }
  });
  const absl::StatusOr<std::string> contents = ReadFile(PosixFileSystem(), path);
  writer.join();
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->size(), 1000u);
}

// Nobody writes to this pipe: who opened it as usual would wait for ever.
TEST(PosixFileSystem, PipesAndDevicesAreRefusedWhereAFileIsExpected) {
  const std::string path = FreshFolder("no_file") + "/pipe";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const absl::Status& status : {PosixFileSystem()->OpenToRead(path).status(),
                                     PosixFileSystem()->OpenToRead("/dev/zero").status(),
                                     ReadRegularFile(PosixFileSystem(), path).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), HasSubstr("a regular file is expected"));
  }
  EXPECT_FALSE(PosixFileSystem()->Stat(path)->is_regular);
  const absl::Status endless = ReadFile(PosixFileSystem(), "/dev/zero").status();
  EXPECT_EQ(endless.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(endless.message(), HasSubstr("a file or a pipe is expected"));
}

TEST(PosixFileSystem, LinksAreToldFromWhatTheyLeadTo) {
  const std::string folder = FreshFolder("links");
  const std::string link = folder + "/link";
  for (const char* const target : {".", "nowhere"}) {
    unlink(link.c_str());
    ASSERT_EQ(symlink(target, link.c_str()), 0);
    EXPECT_TRUE(*PosixFileSystem()->IsLink(link)) << target;
  }
  EXPECT_FALSE(*PosixFileSystem()->IsLink(folder));
  EXPECT_EQ(PosixFileSystem()->IsLink(folder + "/no").status().code(), absl::StatusCode::kNotFound);
}

// What a process does that may write files of 1000 bytes and no larger ones. 0: as it should.
int WriteBeyondTheLimit(const std::string& path) {
  const rlimit limit = {1000, 1000};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
  FileSystem* const files = PosixFileSystem();
  const std::string half(600, 'x');
  const absl::Status status = WriteAll(files, path, WriteMode::kReplace, {half, half});
  if (status.ok() || status.message().find("File too large") == std::string::npos) return 3;
  if (status.message().find("ulimit -f") == std::string::npos) return 4;
  // What fits is written, and the signal is as free to come as before.
  if (!WriteAll(files, path, WriteMode::kReplace, {half}).ok()) return 5;
  sigset_t blocked;
  sigset_t pending;
  if (pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0 || sigpending(&pending) != 0) return 6;
  return sigismember(&blocked, SIGXFSZ) || sigismember(&pending, SIGXFSZ) ? 7 : 0;
}

TEST(PosixFileSystem, AFileThatOutgrowsTheLimitIsAnErrorNotTheEndOfTheProcess) {
  const std::string path = FreshFolder("limit") + "/f";
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    _exit(WriteBeyondTheLimit(path));
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(FileSystemTest, RegularFilesAreReadUpToALimit) {
  ASSERT_TRUE(WriteAll(files(), Path("r"), WriteMode::kReplace, {"12345"}).ok());
  EXPECT_EQ(*ReadRegularFile(files(), Path("r")), "12345");
  EXPECT_EQ(ReadRegularFile(files(), Path("r"), 4).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(files()->Stat(Path("r"))->is_regular);
  EXPECT_FALSE(files()->Stat(folder_)->is_regular);
  EXPECT_FALSE(*files()->IsLink(Path("r")));
}

TEST(Paths, AreTakenApartAndJoined) {
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf("/c"), "/");
  EXPECT_EQ(DirectoryOf("c"), ".");
  EXPECT_EQ(FileNameOf("a/b/c"), "c");
  EXPECT_EQ(FileNameOf("c"), "c");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("a", "/b"), "/b");
  EXPECT_NE(TemporaryPath("a"), TemporaryPath("a"));
  EXPECT_THAT(TemporaryPath("a"), StartsWith("a.tempstate"));
}

TEST(FaultyFileSystem, UnsyncedBytesAndNamesAreLostOrKept) {
  for (const bool lost : {true, false}) {
    FaultyFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/d").ok());
    ASSERT_TRUE(WriteAll(&files, "/d/synced", WriteMode::kReplace, {"1"}).ok());
    ASSERT_TRUE(files.SyncDirectory("/d").ok());
    const auto file = *files.OpenToWrite("/d/synced", WriteMode::kAppend);
    ASSERT_TRUE(file->Append("2").ok());
    ASSERT_TRUE(WriteAll(&files, "/d/name", WriteMode::kReplace, {"3"}).ok());
    files.CrashAt(0);
    EXPECT_EQ(files.Rename("/d/name", "/d/other").code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(files.fired());
    EXPECT_EQ(files.Stat("/d/name").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(file->Sync().code(), absl::StatusCode::kUnavailable);
    files.Restart(lost ? FaultyFileSystem::Unsynced::kLost : FaultyFileSystem::Unsynced::kKept);
    EXPECT_EQ(*ReadFile(&files, "/d/synced"), lost ? "1" : "12");
    EXPECT_EQ(files.Stat("/d/name").ok(), !lost);
    EXPECT_FALSE(files.Stat("/d/other").ok());
    EXPECT_EQ(file->Sync().code(), absl::StatusCode::kUnavailable);
  }
}

TEST(FaultyFileSystem, AFailingWriteHasWrittenAHalf) {
  FaultyFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/d").ok());
  files.FailAt(1, errors::ResourceExhausted("full"));
  EXPECT_EQ(WriteAll(&files, "/d/f", WriteMode::kReplace, {"1234"}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(files.fired());
  EXPECT_EQ(*ReadFile(&files, "/d/f"), "12");
  EXPECT_TRUE(WriteAll(&files, "/d/f", WriteMode::kReplace, {"1234"}).ok());
  EXPECT_THAT(files.log(), ElementsAre("make /d", "create /d/f", "append /d/f 4", "create /d/f",
                                       "append /d/f 4", "sync /d/f", "close /d/f"));
}

TEST(WriteFileAtomically, InterruptedAnywhereTheOldOrTheNewContentsAreThere) {
  using Unsynced = FaultyFileSystem::Unsynced;
  for (const Unsynced unsynced : {Unsynced::kKept, Unsynced::kLost, Unsynced::kMixed}) {
    for (int64_t n = 0;; ++n) {
      FaultyFileSystem files;
      ASSERT_TRUE(files.MakeDirectories("/d").ok());
      ASSERT_TRUE(WriteFileAtomically(&files, "/d/f", "old contents").ok());
      files.CrashAt(n);
      const absl::Status status = WriteFileAtomically(&files, "/d/f", "new contents");
      const bool fired = files.fired();
      EXPECT_EQ(status.ok(), !fired);
      files.Restart(unsynced, static_cast<uint32_t>(n));
      const absl::StatusOr<std::string> contents = ReadFile(&files, "/d/f");
      ASSERT_TRUE(contents.ok()) << contents.status();
      EXPECT_TRUE(*contents == "new contents" || (fired && *contents == "old contents"))
          << *contents;
      if (!fired) {
        EXPECT_EQ(n, 6);  // create, append, sync, close, rename, sync the folder
        break;
      }
    }
  }
}

TEST(WriteFileAtomically, AfterAnErrorTheOldContentsStayAndNothingElse) {
  for (int64_t n = 0; n < 5; ++n) {
    FaultyFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/d").ok());
    ASSERT_TRUE(WriteFileAtomically(&files, "/d/f", "old contents").ok());
    files.FailAt(n, errors::ResourceExhausted("full"));
    EXPECT_EQ(WriteFileAtomically(&files, "/d/f", "new contents").code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(*ReadFile(&files, "/d/f"), "old contents");
    EXPECT_THAT(*files.ListDirectory("/d"), ElementsAre("f"));
  }
}

}  // namespace
}  // namespace tandem
