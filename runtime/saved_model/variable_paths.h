// Which object of the program a variable of a graph is.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_VARIABLE_PATHS_H_
#define TANDEM_RUNTIME_SAVED_MODEL_VARIABLE_PATHS_H_

#include <map>
#include <string>

namespace tensorflow {
class MetaGraphDef;
}  // namespace tensorflow

namespace tandem {

// From the names of nodes that give variables' handles to the paths of their objects in the
// checkpoint (runtime/checkpoint/object_graph.h). Objects may have equal names, so it follows the
// handles into the functions that capture them. Variables that no function captures are not told.
// References that lead nowhere are passed over.
std::map<std::string, std::string> VariablePaths(const tensorflow::MetaGraphDef& meta_graph);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_VARIABLE_PATHS_H_
