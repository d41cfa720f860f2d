// Functions as graphs, in both directions.
//
// On the wire a function is a FunctionDef: a signature, and nodes that refer to outputs by name
// ("node:output_name:index") and to arguments by their bare name. To run or rewrite it, it becomes
// a FunctionBody: a Graph in which _Arg nodes give the arguments and _Retval nodes take the
// results.
//
//   Scope body = Scope::NewRoot();
//   Output x = FunctionArg(body.WithOpName("x"), 0, kFloat32);
//   FunctionResult(body.WithOpName("y"), 0, body.Call("Mul", {x, x}));
//   TANDEM_RETURN_IF_ERROR(DefineFunction("square", *body.graph(), {}, &graph.functions()));
//   Output y = scope.Call("PartitionedCall", {z}, {{"f", FunctionRef{"square"}}, …});
//
// Threads: as for Graph.
#ifndef TANDEM_CORE_GRAPH_FUNCTION_BODY_H_
#define TANDEM_CORE_GRAPH_FUNCTION_BODY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/function_library.h"
#include "core/graph/graph.h"
#include "core/graph/scope.h"
#include "core/op/attr_value.h"

namespace tensorflow {
class FunctionDef;
}  // namespace tensorflow

namespace tandem {

struct FunctionBody {
  explicit FunctionBody(Graph body) : graph(std::move(body)) {}

  Graph graph;
  // Arguments and results in the order of the signature, lists spread out: args[i] is the _Arg node
  // with index i.
  std::vector<Node*> args;
  std::vector<Node*> rets;
  // Nodes that a call runs although no result depends on them, in the signature's order.
  std::vector<Node*> control_rets;

  DataType arg_type(int i) const { return args[static_cast<size_t>(i)]->output_info(0).dtype; }
  DataType ret_type(int i) const { return rets[static_cast<size_t>(i)]->input_dtype(0); }
};

// The body of `function` for the values `attrs` of its attributes (private ones, "_…", are
// ignored). Functions that the body calls are looked up in `functions`, which the new graph shares.
//
// The message is not trusted. InvalidArgument and NotFound are as for import (core/graph/import.h),
// with the function's name before the node's; besides: an attribute of the signature without a
// value; an output name that the node's op does not have; a result that is missing, or of another
// type or number than the signature says. Unimplemented: reference arguments.
absl::StatusOr<std::unique_ptr<FunctionBody>> InstantiateFunction(
    const tensorflow::FunctionDef& function, const AttrMap& attrs,
    std::shared_ptr<FunctionLibrary> functions, const OpRegistry& registry = OpRegistry::Global());
// The same by name. NotFound when the library has no such function.
absl::StatusOr<std::unique_ptr<FunctionBody>> InstantiateFunction(
    const FunctionRef& function, std::shared_ptr<FunctionLibrary> functions,
    const OpRegistry& registry = OpRegistry::Global());

// The wire form of `body`, whose _Arg and _Retval nodes have the indices 0, 1, … each. Arguments
// and results take the names of these nodes, as far as signatures allow them. A call runs the nodes
// of `control_rets` too, and what a _Retval waits for by a control edge. Types are fixed: the
// function has no attributes.
//
// InvalidArgument: an index is missing or there twice, or an input is not connected.
absl::StatusOr<tensorflow::FunctionDef> FunctionFromGraph(absl::string_view name, const Graph& body,
                                                          const std::vector<Node*>& control_rets);

// Adds the function to `library`, and the functions of the body's own library too.
absl::Status DefineFunction(absl::string_view name, const Graph& body,
                            const std::vector<Node*>& control_rets, FunctionLibrary* library);

// The nodes that a body is made with. Names are those of the scope.
Output FunctionArg(const Scope& scope, int index, DataType type);
Node* FunctionResult(const Scope& scope, int index, const Input& value);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_FUNCTION_BODY_H_
