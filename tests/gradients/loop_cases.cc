// While and StatelessWhile: what the backward loop must keep of the forward one.
#include "kernels/testing/functions.h"
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

// x ← x² three times, and the like: one value, all of whose history counts.
void AddPlain(GradientCases& cases) {
  for (const char* op : {"While", "StatelessWhile"}) {
    cases.Program(op, "square_thrice", {Spread({3}, 0.5, 1.2)},
                  [op](const Scope& scope, Outputs& xs) {
                    return CountedLoop(
                        scope, "loop", 3, {xs[0]},
                        [](const Scope& s, const Outputs& args) {
                          return Outputs{s.Call("Square", {args[1]})};
                        },
                        op);
                  });
    // The number of turns comes from outside, and may be zero.
    for (const int turns : {0, 1, 4}) {
      cases.Program(op, absl::StrCat(turns, "_turns"),
                    {Spread({2, 2}), Spread({2, 2}, -1, 1, 2), Int(turns)},
                    [op](const Scope& scope, Outputs& xs) {
                      const Outputs results = Loop(
                          scope, "loop", {scope.Constant(0), xs[2], xs[0], xs[1]},
                          [](const Scope& s, const Outputs& args) {
                            return s.Call("Less", {args[0], args[1]});
                          },
                          [](const Scope& s, const Outputs& args) {
                            const Output h = s.Call("Tanh", {s.Call("MatMul", {args[2], args[3]})});
                            return Outputs{s.Call("AddV2", {args[0], 1}), args[1], h, args[3]};
                          },
                          op);
                      return Outputs{results[2]};
                    });
    }
  }
  const char* const op = "StatelessWhile";
  cases.Program(op, "linear_needs_no_history", {Spread({3})}, [](const Scope& scope, Outputs& xs) {
    return CountedLoop(scope, "loop", 5, {xs[0]}, [](const Scope& s, const Outputs& args) {
      return Outputs{s.Call("Mul", {args[1], 1.5})};
    });
  });
  cases.Program(
      op, "values_change_places", {Spread({3}), Spread({3}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        return Outputs{CountedLoop(scope, "loop", 3, xs, [](const Scope& s, const Outputs& args) {
          const Output product = s.Call("Mul", {args[1], args[2]});
          return Outputs{args[2], s.Call("AddV2", {product, args[1]})};
        })[0]};
      });
  cases.Program(op, "the_values_decide_when_it_ends", {Tensor::Scalar<double>(0.7)},
                [](const Scope& scope, Outputs& xs) {
                  return Loop(
                      scope, "loop", {xs[0]},
                      [](const Scope& s, const Outputs& args) {
                        return s.Call("Less", {args[0], 1.9});
                      },
                      [](const Scope& s, const Outputs& args) {
                        return Outputs{s.Call(
                            "AddV2", {args[0], s.Call("Sin", {s.Call("Mul", {args[0], 0.3})})})};
                      });
                });
  cases.Program(op, "shapes_grow", {Spread({1, 2})}, [](const Scope& scope, Outputs& xs) {
    return CountedLoop(scope, "loop", 3, {xs[0]}, [](const Scope& s, const Outputs& args) {
      const Output squares = s.Call("Square", {args[1]});
      return Outputs{s.Call("ConcatV2", {args[1], squares, 0})};
    });
  });
  cases.Program(
      op, "complex_numbers", {Complex({2}), Complex({2}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        return Outputs{CountedLoop(scope, "loop", 3, xs, [](const Scope& s, const Outputs& args) {
          const Output square = s.Call("Square", {args[1]});
          return Outputs{s.Call("AddV2", {square, args[2]}), args[2]};
        })[0]};
      });
  cases.Program(op, "an_integer_in_the_sum", {Spread({3})}, [](const Scope& scope, Outputs& xs) {
    return CountedLoop(scope, "loop", 4, {xs[0]}, [](const Scope& s, const Outputs& args) {
      const Output i = s.Call("Cast", {args[0]}, {{"DstT", kFloat64}});
      return Outputs{s.Call("Sin", {s.Call("Mul", {args[1], s.Call("AddV2", {i, 0.5})})})};
    });
  });
  cases.Program(op, "loop_after_loop", {Spread({3}, 0.5, 1)}, [](const Scope& scope, Outputs& xs) {
    const auto square = [](const Scope& s, const Outputs& args) {
      return Outputs{s.Call("Mul", {args[1], args[1]})};
    };
    return CountedLoop(scope, "second", 2, CountedLoop(scope, "first", 2, {xs[0]}, square), square);
  });
  cases.Program(
      op, "one_result_does_not_depend", {Spread({3}), Spread({3}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        return Outputs{CountedLoop(scope, "loop", 3, xs, [](const Scope& s, const Outputs& args) {
          return Outputs{s.Call("Sin", {args[1]}), s.Call("Exp", {args[2]})};
        })[0]};
      });
}

Outputs TwoLevels(const Scope& scope, const Outputs& xs) {
  return CountedLoop(scope, "outer", 2, xs, [](const Scope& s, const Outputs& args) {
    const Outputs inner =
        CountedLoop(s, "inner", 3, {args[1], args[2]}, [](const Scope& in, const Outputs& a) {
          return Outputs{in.Call("Tanh", {in.Call("MatMul", {a[1], a[2]})}), a[2]};
        });
    return Outputs{s.Call("AddV2", {inner[0], args[1]}), args[2]};
  });
}

Outputs LoopInBranch(const Scope& scope, const Outputs& xs) {
  const std::vector<DataType> types = {kFloat64, kFloat64};
  const FunctionRef with_loop =
      Define(scope, "with_loop", types, [](const Scope& s, const Outputs& args) {
        return Outputs{CountedLoop(s, "loop", 3, args, [](const Scope& in, const Outputs& a) {
          return Outputs{in.Call("Mul", {in.Call("Sin", {a[1]}), a[2]}), a[2]};
        })[0]};
      });
  const FunctionRef without =
      Define(scope, "without", types, [](const Scope& s, const Outputs& args) {
        return Outputs{s.Call("Mul", {args[0], args[1]})};
      });
  return {scope.Call("StatelessIf", {xs[2], xs[0], xs[1]},
                     {{"then_branch", with_loop},
                      {"else_branch", without},
                      {"Tout", std::vector<DataType>{kFloat64}}})};
}

// In every second turn another branch, with other intermediate values of other shapes.
Outputs BranchInLoop(const Scope& scope, const Outputs& xs) {
  return CountedLoop(scope, "loop", 4, xs, [](const Scope& s, const Outputs& args) {
    const std::vector<DataType> types = {kFloat64, kFloat64};
    const FunctionRef even = Define(s, "even", types, [](const Scope& in, const Outputs& a) {
      return Outputs{in.Call("Tanh", {in.Call("Mul", {a[0], a[1]})})};
    });
    const FunctionRef odd = Define(s, "odd", types, [](const Scope& in, const Outputs& a) {
      const Output outer = in.Call("Mul", {in.Call("ExpandDims", {a[0], 0}),
                                           in.Call("ExpandDims", {in.Call("Exp", {a[1]}), 1})});
      return Outputs{in.Call("Sum", {outer, 0})};
    });
    const Output is_even = s.Call("Equal", {s.Call("FloorMod", {args[0], 2}), 0});
    const Output next = s.Call(
        "StatelessIf", {is_even, args[1], args[2]},
        {{"then_branch", even}, {"else_branch", odd}, {"Tout", std::vector<DataType>{kFloat64}}});
    return Outputs{next, args[2]};
  });
}

void AddNested(GradientCases& cases) {
  const char* const op = "StatelessWhile";
  cases.Program(op, "in_a_loop", {Spread({2, 2}), Spread({2, 2}, -1, 1, 2)},
                [](const Scope& scope, Outputs& xs) { return Outputs{TwoLevels(scope, xs)[0]}; });
  cases.Program(
      op, "in_a_call", {Spread({2, 2}), Spread({2, 2}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        const FunctionRef f = Define(scope, "f", TypesOf(xs), TwoLevels);
        return Outputs{scope.Call("PartitionedCall", {xs[0], xs[1]},
                                  {{"f", f}, {"Tout", std::vector<DataType>{kFloat64, kFloat64}}})};
      });
  for (const bool taken : {false, true}) {
    cases.Program(op, taken ? "in_a_branch_taken" : "in_a_branch_not_taken",
                  {Spread({3}), Spread({3}, 0.5, 1, 2), Tensor::Scalar<bool>(taken)},
                  [](const Scope& scope, Outputs& xs) { return LoopInBranch(scope, xs); });
  }
  cases.Program(
      op, "branch_inside", {Spread({3}), Spread({3}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) { return Outputs{BranchInLoop(scope, xs)[0]}; });
  cases.Program(op, "call_inside", {Spread({3})}, [](const Scope& scope, Outputs& xs) {
    return CountedLoop(scope, "loop", 3, {xs[0]}, [](const Scope& s, const Outputs& args) {
      const std::vector<DataType> one = {kFloat64};
      const FunctionRef f = Define(s, "f", one, [](const Scope& in, const Outputs& a) {
        return Outputs{in.Call("Sin", {in.Call("Square", {a[0]})})};
      });
      return Outputs{s.Call("PartitionedCall", {args[1]}, {{"f", f}, {"Tout", one}})};
    });
  });
}

// Tables, variables and lists that are read inside.
void AddCaptured(GradientCases& cases) {
  cases.Program(
      "StatelessWhile", "lookups_inside", {Spread({4, 2}), Spread({2}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        return Outputs{CountedLoop(scope, "loop", 3, xs, [](const Scope& s, const Outputs& args) {
          const Output row = s.Call("GatherV2", {args[1], args[0], 0});
          return Outputs{args[1], s.Call("Mul", {row, args[2]})};
        })[1]};
      });
  cases
      .Program("While", "variable_inside", {Spread({2, 2}), Spread({2, 2}, -1, 1, 2)},
               [](const Scope& scope, Outputs& xs) {
                 const Output handle =
                     scope.WithOpName("variable")
                         .Call("VarHandleOp", {},
                               {{"dtype", kFloat64}, {"shape", PartialShape({2, 2})}});
                 scope.WithOpName("assign").AddNode("AssignVariableOp", {handle, xs[0]});
                 xs[0] = handle;
                 return Outputs{CountedLoop(
                     scope, "loop", 3, {handle, xs[1]},
                     [](const Scope& s, const Outputs& args) {
                       const Output w = s.Call("ReadVariableOp", {args[1]}, {{"dtype", kFloat64}});
                       const Output h = s.Call("MatMul", {args[2], w});
                       return Outputs{args[1], s.Call("Tanh", {h})};
                     },
                     "While")[1]};
               })
      .WithFirst({"assign"});
  cases
      .Program("While", "lookup_in_a_variable_inside", {Spread({4, 2}), Spread({2}, -1, 1, 2)},
               [](const Scope& scope, Outputs& xs) {
                 const Output handle =
                     scope.WithOpName("variable")
                         .Call("VarHandleOp", {},
                               {{"dtype", kFloat64}, {"shape", PartialShape({4, 2})}});
                 scope.WithOpName("assign").AddNode("AssignVariableOp", {handle, xs[0]});
                 xs[0] = handle;
                 return Outputs{CountedLoop(
                     scope, "loop", 3, {handle, xs[1]},
                     [](const Scope& s, const Outputs& args) {
                       const Output row =
                           s.Call("ResourceGather", {args[1], args[0]}, {{"dtype", kFloat64}});
                       return Outputs{args[1], s.Call("Sin", {s.Call("Mul", {row, args[2]})})};
                     },
                     "While")[1]};
               })
      .WithFirst({"assign"});
  // As the client of TensorFlow writes a scan: rows in from one list, rows out to another.
  cases.Program(
      "StatelessWhile", "scan_over_lists", {Spread({3, 2}), Spread({2}, -1, 1, 2)},
      [](const Scope& scope, Outputs& xs) {
        const AttrMap elements = {{"element_dtype", kFloat64}};
        const Output in = scope.Call("TensorListFromTensor", {xs[0], {2}}, elements);
        const Output out = scope.Call("TensorListReserve", {{2}, 3}, elements);
        const Outputs results = CountedLoop(
            scope, "loop", 3, {in, out, xs[1]}, [elements](const Scope& s, const Outputs& args) {
              const Output row = s.Call("TensorListGetItem", {args[1], args[0], {2}}, elements);
              const Output state = s.Call("Tanh", {s.Call("Mul", {row, args[3]})});
              const Output list = s.Call("TensorListSetItem", {args[2], args[0], state});
              return Outputs{args[1], list, s.Call("AddV2", {state, args[3]})};
            });
        return Outputs{scope.Call("TensorListStack", {results[1], {2}}, elements), results[2]};
      });
  cases.Program(
      "StatelessWhile", "list_that_grows", {Spread({2})}, [](const Scope& scope, Outputs& xs) {
        const AttrMap elements = {{"element_dtype", kFloat64}};
        const Output empty = scope.Call("EmptyTensorList", {{2}, -1}, elements);
        const Outputs results =
            CountedLoop(scope, "loop", 3, {empty, xs[0]}, [](const Scope& s, const Outputs& args) {
              const Output next = s.Call("Square", {args[2]});
              return Outputs{s.Call("TensorListPushBack", {args[1], next}), next};
            });
        return Outputs{scope.Call("TensorListStack", {results[0], {2}}, elements)};
      });
}

}  // namespace

std::vector<GradientCase> LoopCases() {
  GradientCases cases;
  AddPlain(cases);
  AddNested(cases);
  AddCaptured(cases);
  return cases.Take();
}

}  // namespace tandem::testing
