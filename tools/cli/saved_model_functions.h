// The functions of a SavedModel's objects, for people.
#ifndef TANDEM_TOOLS_CLI_SAVED_MODEL_FUNCTIONS_H_
#define TANDEM_TOOLS_CLI_SAVED_MODEL_FUNCTIONS_H_

#include <string>
#include <vector>

#include "proto/saved_object_graph.pb.h"

namespace tandem::cli {

struct ShownFunction {
  std::string path;   // "model/predict", from the root.
  std::string name;   // In the library.
  std::string takes;  // "(x: float32[?,2], training=true)"
  std::string gives;  // "{y: float32[?]}"
};

// All concrete functions, ordered by path. References that lead nowhere are passed over.
std::vector<ShownFunction> FunctionsOf(const tensorflow::SavedObjectGraph& objects);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_SAVED_MODEL_FUNCTIONS_H_
