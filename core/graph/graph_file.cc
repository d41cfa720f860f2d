#include "core/graph/graph_file.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/text_proto.h"
#include "core/io/file.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

// Text has no control characters but these, and the binary form of a node always has others: the
// tag of its op is 0x12.
bool IsText(const std::string& contents) {
  return absl::c_all_of(contents, [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

}  // namespace

absl::Status ReadGraphFile(const std::string& path, tensorflow::GraphDef* def) {
  const std::string context = absl::StrCat("graph file '", path, "'");
  TANDEM_ASSIGN_OR_RETURN(const std::string contents, ReadFile(PosixFileSystem(), path));
  if (contents.empty()) {
    return errors::InvalidArgument(context, ": the file is empty; a GraphDef is expected");
  }
  if (!IsText(contents)) {
    if (def->ParseFromString(contents)) return absl::OkStatus();
    return errors::InvalidArgument(context, ": its ", contents.size(),
                                   " bytes are no GraphDef, neither in binary nor in text form");
  }
  const absl::Status parsed = ParseTextProto(contents, def);
  if (parsed.ok()) return parsed;
  return errors::InvalidArgument(context, ": ", parsed.message(),
                                 "; a GraphDef as text is expected");
}

}  // namespace tandem
