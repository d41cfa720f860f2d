// Files below certain folders only: what graphs of strangers may touch.
#ifndef TANDEM_CORE_IO_CONFINED_FILES_H_
#define TANDEM_CORE_IO_CONFINED_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/io/file.h"

namespace tandem {

// The machine's files in `folders` and in those below them. Everything else is PermissionDenied,
// with `hint` in the message, which says how to allow more. Without folders everything is.
//
// What counts is where a path leads, once "..", "." and symbolic links are resolved: links may lead
// from one allowed folder to another, and not out of them. A path whose file is not there yet
// counts by its folder; a link that leads nowhere is refused. Whoever may write to the folders by
// other means than this, and replaces a folder by a link between the look and the use, is not kept
// from it; the calls here make no links.
//
// Errors: those of Stat, for a folder that cannot be found; FailedPrecondition, for one that is a
// file.
absl::StatusOr<std::unique_ptr<FileSystem>> ConfinedFileSystem(
    const std::vector<std::string>& folders, std::string hint);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_CONFINED_FILES_H_
