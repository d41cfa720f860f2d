#include "tools/cli/graph_argument.h"

#include "core/base/status.h"
#include "core/graph/graph_file.h"
#include "core/io/file.h"
#include "proto/graph.pb.h"
#include "runtime/saved_model/files.h"

namespace tandem::cli {

absl::Status ReadGraphArgument(const std::string& path, tensorflow::GraphDef* def) {
  const absl::Status status = ReadGraphFile(path, def);
  // The bytes of a small model may pass for a graph with nothing in it.
  if (status.ok() && def->node_size() > 0) return status;
  if (!IsSavedModel(path)) return status;
  const absl::StatusOr<FileInfo> info = PosixFileSystem()->Stat(path);
  const bool is_folder = info.ok() && info->is_directory;
  return errors::InvalidArgument("'", path, "' is a SavedModel, not a GraphDef; see tandem ",
                                 "saved_model show ", is_folder ? path : DirectoryOf(path));
}

}  // namespace tandem::cli
