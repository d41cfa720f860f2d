#include "runtime/input/file_reader.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"

namespace tandem::data {
namespace {

constexpr unsigned kBufferBytes = 1 << 17;
constexpr size_t kChunk = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<FileReader>> FileReader::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return errors::InvalidArgument(path, ": is a directory, expected a file");
  }
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    const std::string why = errno != 0 ? std::strerror(errno) : "no memory";
    if (errno == ENOENT || errno == ENOTDIR) {
      return errors::NotFound(path, ": there is no such file; check the path");
    }
    if (errno == EACCES || errno == EPERM) {
      return errors::PermissionDenied(path, ": cannot be read: ", why,
                                      "; give this user the right to");
    }
    return errors::Unavailable(path, ": cannot be opened: ", why);
  }
  gzbuffer(file, kBufferBytes);
  return std::unique_ptr<FileReader>(new FileReader(path, file));
}

FileReader::~FileReader() { gzclose_r(file_); }

absl::Status FileReader::Damaged(const char* what) const {
  int code = Z_OK;
  const char* const message = gzerror(file_, &code);
  const char* const why = code == Z_ERRNO ? std::strerror(errno) : message;
  return errors::DataLoss(path_, ", offset ", offset_, ": ", what, " (", why,
                          "); the file is damaged or was not copied to its end");
}

absl::Status FileReader::Read(size_t count, std::string* bytes) {
  // In chunks, so that memory grows with what the file has, not with what somebody says it has.
  while (count > 0) {
    const size_t chunk = std::min(count, kChunk);
    const size_t before = bytes->size();
    bytes->resize(before + chunk);
    const int got = gzread(file_, bytes->data() + before, static_cast<unsigned>(chunk));
    bytes->resize(before + static_cast<size_t>(std::max(got, 0)));
    offset_ += std::max(got, 0);
    if (got < 0) return Damaged("cannot be read on");
    if (static_cast<size_t>(got) < chunk) {
      int code = Z_OK;
      gzerror(file_, &code);
      if (code != Z_OK && code != Z_STREAM_END) return Damaged("the contents end too early");
      return absl::OkStatus();
    }
    count -= chunk;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FileReader::ReadLine(std::string* line) {
  line->clear();
  char piece[4096];
  for (;;) {
    if (gzgets(file_, piece, sizeof piece) == nullptr) {
      int code = Z_OK;
      gzerror(file_, &code);
      if (code != Z_OK && code != Z_STREAM_END) return Damaged("cannot be read on");
      return !line->empty();
    }
    // gzgets does not say how much it wrote, and a line may contain zeros.
    const int64_t end = gztell(file_);
    const size_t length = static_cast<size_t>(end - offset_);
    offset_ = end;
    line->append(piece, length);
    if (!line->empty() && line->back() == '\n') {
      line->pop_back();
      if (!line->empty() && line->back() == '\r') line->pop_back();
      return true;
    }
    if (line->size() > kMaxLine) return Damaged("a line is longer than 256 MiB");
  }
}

absl::Status FileReader::Seek(int64_t offset) {
  // Forward in a gzipped file zlib only notes the wish, so the end shows when a byte is read.
  std::string last;
  const bool moved = offset >= 0 && gzseek(file_, std::max<int64_t>(offset - 1, 0), SEEK_SET) >= 0;
  offset_ = std::max<int64_t>(offset - 1, 0);
  if (moved && offset > 0) TANDEM_RETURN_IF_ERROR(Read(1, &last));
  if (!moved || offset_ != offset) {
    return errors::InvalidArgument(path_, ": has no offset ", offset,
                                   "; is it the file that was read when the state was saved?");
  }
  return absl::OkStatus();
}

absl::Status CheckFilesExist(const std::string& kind, const std::vector<std::string>& paths) {
  if (paths.empty()) {
    return errors::InvalidArgument(kind, ": the data set is empty: no files were given");
  }
  for (const std::string& path : paths) {
    TANDEM_RETURN_IF_ERROR(WithContext(FileReader::Open(path).status(), kind));
  }
  return absl::OkStatus();
}

}  // namespace tandem::data
