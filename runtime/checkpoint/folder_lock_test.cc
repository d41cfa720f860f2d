#include "runtime/checkpoint/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FreshFolder(absl::string_view name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/folder_lock_", name, getpid());
  EXPECT_TRUE(PosixFileSystem()->MakeDirectories(folder).ok());
  return folder;
}

absl::Status TryToTake(const std::string& folder) {
  return FolderLock::Take(folder, absl::ZeroDuration()).status();
}

TEST(FolderLock, ASecondOneIsRefusedUntilTheFirstEnds) {
  const std::string folder = FreshFolder("second");
  {
    absl::StatusOr<FolderLock> first = FolderLock::Take(folder);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(first->is_held());
    const FolderLock moved = *std::move(first);
    EXPECT_TRUE(moved.is_held());
    const absl::Status second = TryToTake(folder);
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.message()),
                AllOf(HasSubstr(folder), HasSubstr(absl::StrCat("pid ", getpid()))));
  }
  EXPECT_TRUE(TryToTake(folder).ok());
}

TEST(FolderLock, EndsWithAProcessThatIsKilled) {
  const std::string folder = FreshFolder("killed");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<FolderLock> lock = FolderLock::Take(folder);
    const char held = lock.ok() && lock->is_held() ? 1 : 0;
    if (write(ready[1], &held, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char held = 0;
  EXPECT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 1);
  const absl::Status refused = TryToTake(folder);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("pid ", child)));
  kill(child, SIGKILL);
  // Without waiting for the process.
  EXPECT_TRUE(FolderLock::Take(folder, absl::Minutes(1)).ok());
  waitpid(child, nullptr, 0);
  close(ready[0]);
}

TEST(FolderLock, IsNotInheritedByProgramsThatAreStarted) {
  const std::string folder = FreshFolder("inherited");
  pid_t child = 0;
  int end[2];
  ASSERT_EQ(pipe(end), 0);
  {
    const absl::StatusOr<FolderLock> lock = FolderLock::Take(folder);
    ASSERT_TRUE(lock.ok()) << lock.status();
    child = fork();
    if (child == 0) {
      // Ends with the pipe.
      dup2(end[0], STDIN_FILENO);
      close(end[1]);
      execlp("cat", "cat", static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  // The child may not have come as far as the exec yet.
  EXPECT_TRUE(FolderLock::Take(folder, absl::Minutes(1)).ok());
  close(end[1]);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(end[0]);
}

TEST(FolderLock, WhereNoneCanBeHadThatIsLogged) {
  std::string warning;
  SetLogSink([&](LogSeverity severity, absl::string_view text) {
    if (severity == LogSeverity::kWarning) warning = std::string(text);
  });
  const absl::StatusOr<FolderLock> lock = FolderLock::Take("/dev/null/none");
  SetLogSink({});
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_FALSE(lock->is_held());
  EXPECT_THAT(warning, AllOf(HasSubstr("/dev/null/none"), HasSubstr("cannot be locked")));
}

}  // namespace
}  // namespace tandem
