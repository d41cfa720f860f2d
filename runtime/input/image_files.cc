// ImageFiles: the images below the sub-folders of a folder, each with its sub-folder's number.
// Attributes: directory.
#include "runtime/input/image_files.h"

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/paths_table.h"

namespace tandem::data {
namespace {

// A link may lead back up.
constexpr int kMaxDepth = 16;

bool IsHidden(const std::string& name) { return absl::StartsWith(name, "."); }

bool IsImage(absl::string_view name) {
  for (const absl::string_view ending : {".png", ".jpg", ".jpeg"}) {
    if (absl::EndsWithIgnoreCase(name, ending)) return true;
  }
  return false;
}

absl::Status AddImages(const std::string& directory, int depth, std::vector<std::string>* paths) {
  if (depth > kMaxDepth) {
    return errors::InvalidArgument(directory, ": lies more than ", kMaxDepth,
                                   " folders deep; does a link lead back to a folder above it?");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          PosixFileSystem()->ListDirectory(directory));
  for (const std::string& name : names) {
    if (IsHidden(name)) continue;
    const std::string path = JoinPath(directory, name);
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info, PosixFileSystem()->Stat(path));
    if (info.is_directory) {
      TANDEM_RETURN_IF_ERROR(AddImages(path, depth + 1, paths));
    } else if (IsImage(name)) {
      paths->push_back(path);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedStagePtr> OpenImageFiles(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, stage.String("directory"));
  const absl::StatusOr<std::vector<std::string>> classes = ImageClasses(directory);
  if (!classes.ok()) return WithContext(classes.status(), "ImageFiles");
  std::vector<std::string> paths;
  std::vector<int64_t> labels;
  for (size_t label = 0; label < classes->size(); ++label) {
    TANDEM_RETURN_IF_ERROR(WithContext(
        AddImages(JoinPath(directory, (*classes)[label]), /*depth=*/1, &paths), "ImageFiles"));
    labels.resize(paths.size(), static_cast<int64_t>(label));
  }
  if (paths.empty()) {
    return errors::InvalidArgument("ImageFiles: ", directory, ": no image lies in its ",
                                   classes->size(),
                                   " sub-folders; expected names that end in .png, .jpg or .jpeg");
  }
  return MakePathsStage("ImageFiles", std::move(paths), std::move(labels));
}

const bool registered = RegisterStage("ImageFiles", /*inputs=*/0, OpenImageFiles);

}  // namespace

absl::StatusOr<std::vector<std::string>> ImageClasses(const std::string& directory) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          PosixFileSystem()->ListDirectory(directory));
  std::vector<std::string> classes;
  for (const std::string& name : names) {
    if (IsHidden(name)) continue;
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info,
                            PosixFileSystem()->Stat(JoinPath(directory, name)));
    if (info.is_directory) classes.push_back(name);
  }
  if (classes.empty()) {
    return errors::InvalidArgument(directory,
                                   ": has no sub-folders; expected one for each class, "
                                   "with its images");
  }
  return classes;
}

}  // namespace tandem::data
