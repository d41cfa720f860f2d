#include "runtime/cluster/membership/folder_arbiter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/io/file.h"

namespace tandem::membership {
namespace {

constexpr char kFolder[] = ".membership";
constexpr char kPrefix[] = "generation-";
constexpr char kBeat[] = "beat";
// A reader that has just listed the folder still finds the file.
constexpr uint64_t kKept = 4;
constexpr int64_t kMostBytes = int64_t{16} << 20;

// The number in "generation-12"; 0: it is another file.
uint64_t NumberOf(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, kPrefix) || !absl::SimpleAtoi(name, &number)) return 0;
  return absl::StrCat(number) == name ? number : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderArbiter>> FolderArbiter::Open(const std::string& folder) {
  const std::string path = JoinPath(folder, kFolder);
  TANDEM_RETURN_IF_ERROR(PosixFileSystem()->MakeDirectories(path));
  return std::unique_ptr<FolderArbiter>(new FolderArbiter(path));
}

absl::StatusOr<uint64_t> FolderArbiter::Newest() const {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          PosixFileSystem()->ListDirectory(folder_));
  uint64_t newest = 0;
  for (const std::string& name : names) newest = std::max(newest, NumberOf(name));
  return newest;
}

absl::StatusOr<ArbiterState> FolderArbiter::Read() {
  FileSystem* const files = PosixFileSystem();
  ArbiterState state;
  // Whoever is so slow that the file was removed after the folder was listed looks again.
  constexpr int kTries = 10;
  for (int i = 0;; ++i) {
    TANDEM_ASSIGN_OR_RETURN(const uint64_t newest, Newest());
    if (newest == 0) return state;
    const std::string path = JoinPath(folder_, absl::StrCat(kPrefix, newest));
    const auto bytes = ReadRegularFile(files, path, kMostBytes);
    if (absl::IsNotFound(bytes.status()) && i < kTries) continue;
    TANDEM_RETURN_IF_ERROR(bytes.status());
    if (!state.mutable_generation()->ParseFromString(*bytes) ||
        state.generation().number() != newest || state.generation().members_size() == 0) {
      return errors::DataLoss("the file '", path,
                              "' does not say who the members of the job are; if no job uses the "
                              "folder, remove it");
    }
    break;
  }
  const auto beat = ReadRegularFile(files, JoinPath(folder_, kBeat), /*max_bytes=*/256);
  if (absl::IsNotFound(beat.status())) return state;
  TANDEM_RETURN_IF_ERROR(beat.status());
  const std::vector<std::string> words = absl::StrSplit(*beat, ' ');
  uint64_t number = 0;
  uint64_t count = 0;
  if (words.size() == 2 && absl::SimpleAtoi(words[0], &number) &&
      absl::SimpleAtoi(words[1], &count) && number == state.generation().number()) {
    state.set_beat(count);
  }
  return state;
}

absl::StatusOr<ArbiterState> FolderArbiter::Renew(uint64_t number, uint64_t beat) {
  TANDEM_ASSIGN_OR_RETURN(ArbiterState state, Read());
  if (state.generation().number() != number) return state;
  // Not synced: after a crash of the machine its chief is gone, too. If a newer generation came
  // meanwhile, its readers see another number here, which means no beat.
  const std::string path = JoinPath(folder_, kBeat);
  const std::string temporary = TemporaryPath(path);
  FileSystem* const files = PosixFileSystem();
  {
    TANDEM_ASSIGN_OR_RETURN(const auto file, files->OpenToWrite(temporary, WriteMode::kNew));
    TANDEM_RETURN_IF_ERROR(file->Append(absl::StrCat(number, " ", beat)));
    TANDEM_RETURN_IF_ERROR(file->Close());
  }
  TANDEM_RETURN_IF_ERROR(files->Rename(temporary, path));
  state.set_beat(beat);
  return state;
}

absl::StatusOr<ClaimResponse> FolderArbiter::Claim(const Generation& generation, uint64_t base) {
  ClaimResponse response;
  TANDEM_ASSIGN_OR_RETURN(const uint64_t newest, Newest());
  if (newest < generation.number() && newest <= base) {
    FileSystem* const files = PosixFileSystem();
    const std::string path = JoinPath(folder_, absl::StrCat(kPrefix, generation.number()));
    const std::string temporary = TemporaryPath(path);
    {
      TANDEM_ASSIGN_OR_RETURN(const auto file, files->OpenToWrite(temporary, WriteMode::kNew));
      TANDEM_RETURN_IF_ERROR(file->Append(generation.SerializeAsString()));
      TANDEM_RETURN_IF_ERROR(file->Sync());
      TANDEM_RETURN_IF_ERROR(file->Close());
    }
    const bool linked = link(temporary.c_str(), path.c_str()) == 0;
    const int error = errno;
    files->Remove(temporary).IgnoreError();
    if (!linked && error != EEXIST) {
      return errors::Unavailable("cannot make a link '", path, "': ", std::strerror(error));
    }
    TANDEM_RETURN_IF_ERROR(files->SyncDirectory(folder_));
    TANDEM_ASSIGN_OR_RETURN(const uint64_t now_newest, Newest());
    response.set_won(linked && now_newest == generation.number());
    if (response.won()) RemoveOld(now_newest);
  }
  TANDEM_ASSIGN_OR_RETURN(*response.mutable_state(), Read());
  if (response.won()) *response.mutable_state()->mutable_generation() = generation;
  return response;
}

void FolderArbiter::RemoveOld(uint64_t newest) const {
  const auto names = PosixFileSystem()->ListDirectory(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const uint64_t number = NumberOf(name);
    if (number == 0 || number + kKept >= newest) continue;
    PosixFileSystem()->Remove(JoinPath(folder_, name)).IgnoreError();
  }
}

}  // namespace tandem::membership
