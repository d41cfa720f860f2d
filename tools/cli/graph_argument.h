// The graph that a command line names.
#ifndef TANDEM_TOOLS_CLI_GRAPH_ARGUMENT_H_
#define TANDEM_TOOLS_CLI_GRAPH_ARGUMENT_H_

#include <string>

#include "absl/status/status.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace tandem::cli {

// As ReadGraphFile, but a SavedModel, which many take for a graph, is called one, with the command
// for it (InvalidArgument).
absl::Status ReadGraphArgument(const std::string& path, tensorflow::GraphDef* def);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_GRAPH_ARGUMENT_H_
