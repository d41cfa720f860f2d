// A part of a graph as a function for a SavedModel.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_EXPORTED_FUNCTION_H_
#define TANDEM_RUNTIME_SAVED_MODEL_EXPORTED_FUNCTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "proto/function.pb.h"
#include "runtime/saved_model/signature_info.h"

namespace tandem {

struct ExportedFunction {
  tensorflow::FunctionDef def;
  // With types and shapes.
  std::vector<SignatureTensor> inputs;
  std::vector<SignatureTensor> outputs;
  // Positions of those of `captures` that follow the inputs as arguments.
  std::vector<int> captured;
};

// The function from `inputs` to `outputs`, both in the order of their names. Those of `captures`
// (variables' handles, paths of assets) that it needs become arguments.
//
// InvalidArgument: a tensor that is not in the graph, or a name that is empty or there twice.
// NotFound: the outputs need a variable, or a placeholder, that is neither input nor capture.
absl::StatusOr<ExportedFunction> ExportFunction(const std::string& name, const Graph& graph,
                                                std::vector<SignatureTensor> inputs,
                                                std::vector<SignatureTensor> outputs,
                                                const std::vector<Output>& captures);

// A name for a node that is like `name`.
std::string NodeNameFrom(absl::string_view name);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_EXPORTED_FUNCTION_H_
