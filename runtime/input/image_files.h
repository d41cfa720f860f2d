// The classes of an image folder, whose sub-folders are named after them (Dataset::ImageFiles).
#ifndef TANDEM_RUNTIME_INPUT_IMAGE_FILES_H_
#define TANDEM_RUNTIME_INPUT_IMAGE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::data {

// The names of the sub-folders in ascending order of their bytes: the label of a class is its index
// here. Names that begin with a dot are passed over. InvalidArgument: there is no sub-folder;
// NotFound, PermissionDenied and so on from the system.
absl::StatusOr<std::vector<std::string>> ImageClasses(const std::string& directory);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_IMAGE_FILES_H_
