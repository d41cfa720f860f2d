#include "core/io/file.h"

#include <algorithm>
#include <cstdint>

#include "absl/random/random.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"

namespace tandem {

absl::Status RandomAccessFile::ReadExactly(int64_t offset, absl::Span<char> bytes) const {
  TANDEM_ASSIGN_OR_RETURN(const size_t got, Read(offset, bytes));
  if (got == bytes.size()) return absl::OkStatus();
  return errors::DataLoss(path(), ": offset ", offset, ": expected ", bytes.size(),
                          " bytes, found ", got,
                          " until the end of the file; it is damaged or was not copied to its end");
}

absl::StatusOr<bool> FileSystem::IsLink(const std::string& path) {
  TANDEM_RETURN_IF_ERROR(Stat(path).status());
  return false;
}

absl::StatusOr<std::string> ReadFile(FileSystem* files, const std::string& path,
                                     int64_t max_bytes) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<SequentialFile> file, files->OpenSequential(path));
  std::string contents;
  size_t size = 0;
  for (;;) {
    // Grows with what arrives, since the size of a pipe is not known.
    contents.resize(std::max(2 * size, size_t{64} << 10));
    TANDEM_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(contents).subspan(size)));
    size += got;
    if (size > static_cast<uint64_t>(max_bytes)) {
      return errors::ResourceExhausted(path, ": is larger than the ", max_bytes,
                                       " bytes that are expected at most");
    }
    if (size < contents.size()) break;
  }
  contents.resize(size);
  contents.shrink_to_fit();
  return contents;
}

absl::StatusOr<std::string> ReadRegularFile(FileSystem* files, const std::string& path,
                                            int64_t max_bytes) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files->OpenToRead(path));
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  if (size > max_bytes) {
    return errors::ResourceExhausted(path, ": is larger than the ", max_bytes,
                                     " bytes that are expected at most");
  }
  std::string contents(static_cast<size_t>(size), '\0');
  TANDEM_ASSIGN_OR_RETURN(const size_t got, file->Read(0, absl::MakeSpan(contents)));
  contents.resize(got);
  return contents;
}

absl::Status WriteFileAtomically(FileSystem* files, const std::string& path,
                                 absl::string_view contents) {
  const std::string temporary = TemporaryPath(path);
  const auto write = [&]() -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                            files->OpenToWrite(temporary, WriteMode::kNew));
    TANDEM_RETURN_IF_ERROR(file->Append(contents));
    TANDEM_RETURN_IF_ERROR(file->Sync());
    TANDEM_RETURN_IF_ERROR(file->Close());
    return files->Rename(temporary, path);
  };
  const absl::Status status = write();
  if (!status.ok()) {
    // Of no consequence when it is not there; the first error is the one that matters.
    files->Remove(temporary).IgnoreError();
    return status;
  }
  return files->SyncDirectory(DirectoryOf(path));
}

std::string TemporaryPath(absl::string_view path) {
  absl::BitGen random;
  return absl::StrFormat("%s.tempstate%016x", path, absl::Uniform<uint64_t>(random));
}

std::string DirectoryOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

absl::string_view FileNameOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  if (directory.empty() || absl::StartsWith(name, "/")) return std::string(name);
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/", name);
}

}  // namespace tandem
