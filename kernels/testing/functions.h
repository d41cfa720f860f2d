// Functions and loops over them, for tests.
#ifndef TANDEM_KERNELS_TESTING_FUNCTIONS_H_
#define TANDEM_KERNELS_TESTING_FUNCTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/graph/function_body.h"
#include "core/graph/scope.h"

namespace tandem::testing {

using Outputs = std::vector<Output>;
using FunctionBuilder = std::function<Outputs(const Scope&, const Outputs&)>;

// Adds a function of arguments of these types to the library of the scope's graph. Functions that
// `build` defines in its own scope come along. Errors become the scope's.
inline FunctionRef Define(const Scope& scope, const std::string& name,
                          const std::vector<DataType>& types, const FunctionBuilder& build) {
  const Scope inside = Scope::NewRoot();
  Outputs args;
  for (size_t i = 0; i < types.size(); ++i) {
    args.push_back(FunctionArg(inside, static_cast<int>(i), types[i]));
  }
  const Outputs results = build(inside, args);
  for (size_t i = 0; i < results.size(); ++i) {
    FunctionResult(inside, static_cast<int>(i), results[i]);
  }
  scope.UpdateStatus(inside.status());
  if (inside.ok()) {
    scope.UpdateStatus(DefineFunction(name, *inside.graph(), {}, &scope.graph()->functions()));
  }
  return FunctionRef{name, {}};
}

inline std::vector<DataType> TypesOf(const Outputs& values) {
  std::vector<DataType> types;
  for (const Output& value : values) types.push_back(RemoveReference(value.dtype()));
  return types;
}

// A loop over `values`. Its functions are called name_cond and name_body.
inline Outputs Loop(const Scope& scope, const std::string& name, const Outputs& values,
                    const std::function<Output(const Scope&, const Outputs&)>& cond,
                    const FunctionBuilder& body, const std::string& op = "StatelessWhile") {
  const std::vector<DataType> types = TypesOf(values);
  const FunctionRef cond_function =
      Define(scope, name + "_cond", types,
             [&](const Scope& s, const Outputs& args) { return Outputs{cond(s, args)}; });
  const FunctionRef body_function = Define(scope, name + "_body", types, body);
  Outputs results = scope.CallMulti(op, InputList(values.begin(), values.end()),
                                    {{"cond", cond_function}, {"body", body_function}});
  results.resize(values.size());  // After an error too.
  return results;
}

// A loop over {i, values…} that runs while i < limit; `body` gives the new values without i.
inline Outputs CountedLoop(const Scope& scope, const std::string& name, int limit, Outputs values,
                           const FunctionBuilder& body, const std::string& op = "StatelessWhile") {
  values.insert(values.begin(), scope.Constant(0));
  Outputs results = Loop(
      scope, name, values,
      [limit](const Scope& s, const Outputs& args) {
        return s.Call("Less", {args[0], limit});
      },
      [&body](const Scope& s, const Outputs& args) {
        Outputs next = body(s, args);
        next.insert(next.begin(), s.Call("AddV2", {args[0], 1}));
        return next;
      },
      op);
  results.erase(results.begin());
  return results;
}

}  // namespace tandem::testing

#endif  // TANDEM_KERNELS_TESTING_FUNCTIONS_H_
