// A function together with the gradients of its results, and the two passes it falls into.
//
// A call, a conditional or a loop is differentiated through its functions. Each is instantiated,
// gradients are added to its body, and the body is then split: what computes the results stays, and
// becomes the forward function; what computes the gradients is copied into a graph of its own. The
// forward values that the copy reads are kept: the forward function gives them out, and the node
// that calls it hands them to the backward one. Nothing is computed twice, so that functions may
// have effects and random numbers.
#ifndef TANDEM_KERNELS_CONTROL_DIFFERENTIATED_FUNCTION_H_
#define TANDEM_KERNELS_CONTROL_DIFFERENTIATED_FUNCTION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/op/gradient_context.h"

namespace tandem {

class DifferentiatedFunction {
 public:
  // What stands in the backward graph for a value of the forward pass. Asked once a value.
  using Keep = std::function<absl::StatusOr<Output>(const Output& forward)>;

  // The function with the gradients of Σ results with respect to all its arguments, given those of
  // the results: `results` are the indices of the results that have one, `types` their types.
  // `arg_shapes` is what is known of the arguments' shapes; the more is, the less has to be kept.
  //
  // Unimplemented: a node on the way has no gradient, the function calls itself, or functions nest
  // deeper than anybody writes them. ResourceExhausted: so many calls in calls that the gradient
  // would not fit.
  // InvalidArgument: there is no such result.
  static absl::StatusOr<DifferentiatedFunction> Make(const FunctionRef& function,
                                                     std::shared_ptr<FunctionLibrary> library,
                                                     const std::vector<int>& results,
                                                     const std::vector<DataType>& types,
                                                     const std::vector<PartialShape>& arg_shapes);

  const std::string& name() const { return name_; }
  // Before Split with the gradients, after it the forward pass alone.
  FunctionBody& body() { return *body_; }
  int num_args() const { return static_cast<int>(gradients_.size()); }
  // The type of an argument's gradient; kInvalid when it has none. Before Split.
  DataType gradient_type(int arg) const;
  // The gradient of an argument, dense; zeros of `type` when it has none. Adds nodes to the body;
  // before Split.
  absl::StatusOr<Output> DenseGradient(int arg, DataType type);

  // Copies what computes `gradients` (outputs of the body) to the graph `backward`, where
  // seeds[i] stands for the gradient of results[i], and removes it from the body. Constants are
  // copied; `keep` says what stands for other forward values. Returns the copies of `gradients`.
  absl::StatusOr<std::vector<Output>> Split(const std::vector<Output>& gradients,
                                            const std::vector<Output>& seeds, const Keep& keep,
                                            Graph* backward);

  // Adds the body to the library under a new name. To be called after Split, and after what is
  // kept was made arguments and results of the body.
  absl::StatusOr<FunctionRef> DefineForward();

 private:
  DifferentiatedFunction() = default;

  // By node: whether it belongs to the forward pass.
  std::vector<bool> ForwardNodes() const;
  // Also those that only describe a forward value which `gradients` need not have itself.
  void AddDescriptions(const std::vector<Output>& gradients, std::vector<bool>* forward) const;
  // By node: what must exist to compute `gradients`, down to the forward values.
  std::vector<bool> NeededFor(const std::vector<Output>& gradients,
                              const std::vector<bool>& forward) const;

  std::string name_;
  std::unique_ptr<FunctionBody> body_;
  int num_nodes_ = 0;                  // Nodes of the function itself have lower ids.
  std::vector<Node*> assumed_shapes_;  // One for each argument, or null.
  std::vector<Output> seeds_;          // One for each of `results`.
  std::vector<Gradient> gradients_;    // One for each argument.
};

// What is the same in all turns of the shapes of a loop's values: `shapes` at first, and then those
// of the results of `body`.
absl::StatusOr<std::vector<PartialShape>> ShapesInLoop(const FunctionRef& body,
                                                       std::shared_ptr<FunctionLibrary> library,
                                                       std::vector<PartialShape> shapes);

// The argument that reaches this output unchanged; -1 when there is none.
int PassedArg(Output output);

// Zeros like `value`; for the handle of a variable, like its value, which is of type `type`.
Output ZerosFor(const Scope& scope, const Output& value, DataType type);

// Adds a graph whose _Arg and _Retval nodes are complete to its own library, as base, base_1, …
// whichever is free.
absl::StatusOr<FunctionRef> DefineNewFunction(const std::string& base, Graph& graph,
                                              const std::vector<Node*>& control_rets = {});

// `op`, or its stateless form (If: StatelessIf) when no node of the functions has effects.
std::string OpForFunctions(const std::string& op, const std::vector<const Graph*>& functions);

}  // namespace tandem

#endif  // TANDEM_KERNELS_CONTROL_DIFFERENTIATED_FUNCTION_H_
