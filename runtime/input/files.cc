// Files: the paths that match patterns. Attributes: patterns.
#include <glob.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/paths_table.h"

namespace tandem::data {
namespace {

// Frees what glob() gave.
class Matches {
 public:
  explicit Matches(const std::string& pattern)
      : result_(glob(pattern.c_str(), GLOB_MARK | GLOB_NOSORT, nullptr, &glob_)) {}
  ~Matches() { globfree(&glob_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;

  int result() const { return result_; }
  size_t size() const { return glob_.gl_pathc; }
  const char* operator[](size_t i) const { return glob_.gl_pathv[i]; }

 private:
  glob_t glob_ = {};
  const int result_;
};

absl::Status AddMatches(const std::string& pattern, std::vector<std::string>* paths) {
  if (pattern.find('\0') != std::string::npos) {
    return errors::InvalidArgument("Files: a pattern of ", pattern.size(),
                                   " bytes has a zero in it; no path has");
  }
  // A file's own name is a pattern for it, also when it has brackets in it.
  const absl::StatusOr<FileInfo> info = PosixFileSystem()->Stat(pattern);
  if (info.ok() && !info->is_directory) {
    paths->push_back(pattern);
    return absl::OkStatus();
  }
  const Matches matches(pattern);
  if (matches.result() != 0 && matches.result() != GLOB_NOMATCH) {
    return errors::ResourceExhausted(
        "Files: '", pattern, "' could not be matched: ",
        matches.result() == GLOB_NOSPACE ? "no memory" : "reading failed");
  }
  const size_t before = paths->size();
  for (size_t i = 0; matches.result() == 0 && i < matches.size(); ++i) {
    const absl::string_view path = matches[i];
    if (path.back() != '/') paths->emplace_back(path);  // Folders are marked.
  }
  if (paths->size() == before) {
    return errors::NotFound("Files: no file matches '", pattern,
                            "'; check the pattern (*, ? and [a-z] stand for parts of one name)");
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedStagePtr> OpenFiles(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const patterns, stage.List("patterns"));
  if (patterns->strings.empty()) {
    return errors::InvalidArgument("Files: the data set is empty: no pattern was given");
  }
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns->strings) {
    TANDEM_RETURN_IF_ERROR(AddMatches(pattern, &paths));
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return MakePathsStage("Files", std::move(paths), absl::nullopt);
}

const bool registered = RegisterStage("Files", /*inputs=*/0, OpenFiles);

}  // namespace
}  // namespace tandem::data
