// GraphDefs in files.
#ifndef TANDEM_CORE_GRAPH_GRAPH_FILE_H_
#define TANDEM_CORE_GRAPH_GRAPH_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace tandem {

// Reads a GraphDef in its binary or its text form; which one it is shows in the contents. NotFound
// and such: the file cannot be read. InvalidArgument: it holds no GraphDef; for text, with line and
// column. Errors name the file. The graph is not checked (core/graph/import.h does that).
absl::Status ReadGraphFile(const std::string& path, tensorflow::GraphDef* def);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_GRAPH_FILE_H_
