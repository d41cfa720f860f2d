// Switches, calls and conditionals. Loops are in loop_cases.cc.
#include "kernels/testing/functions.h"
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

const std::vector<DataType> kOne = {kFloat64};
const std::vector<DataType> kTwo = {kFloat64, kFloat64};

Outputs SquareOfFirst(const Scope& s, const Outputs& args) { return {s.Call("Square", {args[0]})}; }
Outputs TanhOfProduct(const Scope& s, const Outputs& args) {
  return {s.Call("Tanh", {s.Call("Mul", {args[0], args[1]})})};
}
// Shares no intermediate value, and no shape, with the others.
Outputs Products(const Scope& s, const Outputs& args) {
  const Output row = s.Call("ExpandDims", {args[0], 0});
  const Output column = s.Call("ExpandDims", {s.Call("Exp", {args[1]}), 1});
  return {s.Call("Sum", {s.Call("MatMul", {row, column}), {0, 1}})};
}

// Takes one of two ways in frames of TensorFlow 1.
Outputs Branches(const Scope& scope, const Outputs& xs, bool references) {
  const char* const prefix = references ? "Ref" : "";
  const Outputs branches = scope.CallMulti(absl::StrCat(prefix, "Switch"), {xs[0], xs[1]});
  if (branches.empty()) return {};
  const Output if_false = scope.Call("Square", {branches[0]});
  const Output if_true = scope.Call("Exp", {branches[1]});
  return {scope.Call("Merge", {if_false, if_true})};
}

// A variable of the old kind that holds input 0, and takes its place.
void UseReference(const Scope& scope, Outputs& xs) {
  const Output variable =
      scope.WithOpName("variable")
          .Call("VariableV2", {}, {{"dtype", kFloat64}, {"shape", PartialShape({3})}});
  scope.WithOpName("assign").Call("Assign", {variable, xs[0]});
  xs[0] = variable;
}

void AddFrames(GradientCases& cases) {
  for (const bool taken : {false, true}) {
    const std::string name = taken ? "true" : "false";
    const Tensor pred = Tensor::Scalar<bool>(taken);
    for (const char* op : {"Switch", "Merge"}) {
      cases.Program(op, name, {Spread({3}), pred},
                    [](const Scope& scope, Outputs& xs) { return Branches(scope, xs, false); });
    }
    cases.Program("Switch", name + "_only_one_used", {Spread({3}), pred},
                  [](const Scope& scope, Outputs& xs) {
                    const Outputs branches = scope.CallMulti("Switch", {xs[0], xs[1]});
                    if (branches.empty()) return Outputs();
                    const Output one = scope.Call("OnesLike", {branches[0]});
                    const Output two = scope.Call("Exp", {branches[1]});
                    return Outputs{scope.Call("Merge", {one, two})};
                  });
    cases
        .Program("RefSwitch", name, {Spread({3}), pred},
                 [](const Scope& scope, Outputs& xs) {
                   UseReference(scope, xs);
                   return Branches(scope, xs, true);
                 })
        .WithFirst({"assign"});
    cases
        .Program("RefMerge", name, {Spread({3}), pred},
                 [](const Scope& scope, Outputs& xs) {
                   UseReference(scope, xs);
                   const Outputs branches = scope.CallMulti("RefSwitch", {xs[0], xs[1]});
                   if (branches.empty()) return Outputs();
                   const Output merged = scope.Call("RefMerge", {branches[0], branches[1]});
                   return Outputs{scope.Call("Square", {merged})};
                 })
        .WithFirst({"assign"});
  }
  cases
      .Program("RefIdentity", "values", {Spread({3})},
               [](const Scope& scope, Outputs& xs) {
                 UseReference(scope, xs);
                 return Outputs{scope.Call("Square", {scope.Call("RefIdentity", {xs[0]})})};
               })
      .WithFirst({"assign"});
}

void AddCalls(GradientCases& cases) {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    const auto call = [op](const Scope& scope, const std::string& name, const Outputs& args,
                           const FunctionBuilder& body, size_t results) {
      const FunctionRef f = Define(scope, name, TypesOf(args), body);
      Outputs outputs =
          scope.CallMulti(op, InputList(args.begin(), args.end()),
                          {{"f", f}, {"Tout", std::vector<DataType>(results, kFloat64)}});
      outputs.resize(results);
      return outputs;
    };
    cases.Program(
        op, "one_result", {Spread({3}), Spread({3}, -1, 1, 2)},
        [call](const Scope& scope, Outputs& xs) { return call(scope, "f", xs, TanhOfProduct, 1); });
    cases.Program(
        op, "one_of_two_results_used", {Spread({3}), Spread({3}, -1, 1, 2)},
        [call](const Scope& scope, Outputs& xs) {
          return Outputs{call(
              scope, "f", xs,
              [](const Scope& s, const Outputs& args) {
                return Outputs{s.Call("Exp", {args[0]}), s.Call("Mul", {args[0], args[1]})};
              },
              2)[1]};
        });
    cases.Program(op, "in_another_call", {Spread({3})}, [call](const Scope& scope, Outputs& xs) {
      return call(
          scope, "outer", xs,
          [call](const Scope& s, const Outputs& args) {
            const Outputs inner = call(
                s, "inner", args,
                [](const Scope& in, const Outputs& a) {
                  return Outputs{in.Call("Exp", {in.Call("Square", {a[0]})})};
                },
                1);
            return Outputs{s.Call("Mul", {inner[0], args[0]})};
          },
          1);
    });
    cases.Program(op, "result_is_an_argument", {Spread({3})},
                  [call](const Scope& scope, Outputs& xs) {
                    return call(
                        scope, "f", xs, [](const Scope&, const Outputs& args) { return args; }, 1);
                  });
    cases.Program(op, "lookup_inside", {Spread({4, 2}), Ints({1, 3, 1})},
                  [call](const Scope& scope, Outputs& xs) {
                    return call(
                        scope, "f", xs,
                        [](const Scope& s, const Outputs& args) {
                          const Output rows = s.Call("GatherV2", {args[0], args[1], 0});
                          return Outputs{s.Call("Square", {rows})};
                        },
                        1);
                  });
  }
}

void AddConditionals(GradientCases& cases) {
  // The functions are called prefix0, prefix1, …
  const auto conditional = [](const std::string& op, const Scope& scope, const std::string& prefix,
                              const Output& which, const Outputs& args,
                              const std::vector<FunctionBuilder>& branches) {
    InputList inputs = {which};
    for (const Output& arg : args) inputs.push_back(arg);
    std::vector<FunctionRef> functions;
    for (size_t i = 0; i < branches.size(); ++i) {
      functions.push_back(Define(scope, absl::StrCat(prefix, i), TypesOf(args), branches[i]));
    }
    AttrMap attrs = {{"Tout", kOne}};
    if (op == "If" || op == "StatelessIf") {
      attrs["then_branch"] = functions[0];
      attrs["else_branch"] = functions[1];
    } else {
      attrs["branches"] = functions;
    }
    return Outputs{scope.Call(op, inputs, attrs)};
  };
  const std::vector<Tensor> values = {Spread({3}), Spread({3}, -1, 1, 2)};
  for (const char* op : {"If", "StatelessIf"}) {
    for (const bool taken : {false, true}) {
      const std::string name = taken ? "then" : "else";
      cases.Program(op, name, {Tensor::Scalar<bool>(taken), values[0], values[1]},
                    [op, conditional](const Scope& scope, Outputs& xs) {
                      return conditional(op, scope, "branch", xs[0], {xs[1], xs[2]},
                                         {SquareOfFirst, TanhOfProduct});
                    });
      cases.Program(
          op, name + "_inside_a_conditional", {Tensor::Scalar<bool>(taken), values[0], values[1]},
          [op, conditional](const Scope& scope, Outputs& xs) {
            const auto inner = [op, conditional](const Scope& s, const Outputs& args) {
              const Output positive =
                  s.Call("Greater", {s.Call("Sum", {args[0], 0}), s.Call("Sum", {args[1], 0})});
              return conditional(op, s, "inner", positive, args, {TanhOfProduct, Products});
            };
            return conditional(op, scope, "branch", xs[0], {xs[1], xs[2]}, {inner, SquareOfFirst});
          });
    }
  }
  for (const char* op : {"Case", "StatelessCase"}) {
    for (const int branch : {0, 1, 2, -1, 7}) {
      cases.Program(op, absl::StrCat("branch_", branch), {Int(branch), values[0], values[1]},
                    [op, conditional](const Scope& scope, Outputs& xs) {
                      return conditional(op, scope, "branch", xs[0], {xs[1], xs[2]},
                                         {SquareOfFirst, TanhOfProduct, Products});
                    });
    }
  }
}

}  // namespace

std::vector<GradientCase> ControlCases() {
  GradientCases cases;
  AddFrames(cases);
  AddCalls(cases);
  AddConditionals(cases);
  return cases.Take();
}

}  // namespace tandem::testing
