// Tensor lists, tensor arrays and optionals.
#include "kernels/testing/functions.h"
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

AttrMap Elements() { return {{"element_dtype", kFloat64}}; }

Output FromTensor(const Scope& scope, const Output& rows, const Input& element_shape = {2}) {
  return scope.Call("TensorListFromTensor", {rows, element_shape}, Elements());
}
Output Stack(const Scope& scope, const Output& list) {
  return scope.Call("TensorListStack", {list, {2}}, Elements());
}
Output EmptyList(const Scope& scope) {
  return scope.Call("EmptyTensorList", {{2}, -1}, Elements());
}

void AddLists(GradientCases& cases) {
  const Tensor rows = Spread({3, 2});
  const Tensor row = Spread({2}, -1, 1, 2);
  for (const char* op : {"TensorListFromTensor", "TensorListStack"}) {
    cases.Program(op, "there_and_back", {rows}, [](const Scope& scope, Outputs& xs) {
      return Outputs{Stack(scope, FromTensor(scope, xs[0]))};
    });
  }
  cases.Program("TensorListFromTensor", "open_element_shape", {rows},
                [](const Scope& scope, Outputs& xs) {
                  const Output list = FromTensor(scope, xs[0], -1);
                  return Outputs{scope.Call("TensorListStack", {list, -1}, Elements())};
                });
  cases.Program("TensorListGetItem", "one", {rows}, [](const Scope& scope, Outputs& xs) {
    return Outputs{scope.Call("TensorListGetItem", {FromTensor(scope, xs[0]), 1, {2}}, Elements())};
  });
  cases.Program("TensorListGetItem", "several_add_up", {rows}, [](const Scope& scope, Outputs& xs) {
    const Output list = FromTensor(scope, xs[0]);
    const Output a = scope.Call("TensorListGetItem", {list, 1, {2}}, Elements());
    const Output b = scope.Call("TensorListGetItem", {list, 2, {2}}, Elements());
    const Output c = scope.Call("TensorListGetItem", {list, 1, {2}}, Elements());
    return Outputs{scope.Call("Mul", {a, b}), c, Stack(scope, list)};
  });
  cases.Program("TensorListSetItem", "replaced", {rows, row}, [](const Scope& scope, Outputs& xs) {
    return Outputs{
        Stack(scope, scope.Call("TensorListSetItem", {FromTensor(scope, xs[0]), 1, xs[1]}))};
  });
  cases.Program("TensorListSetItem", "others_not_set", {row}, [](const Scope& scope, Outputs& xs) {
    const Output list = scope.Call("TensorListReserve", {{2}, 3}, Elements());
    return Outputs{Stack(scope, scope.Call("TensorListSetItem", {list, 2, xs[0]}))};
  });
  cases.Program("TensorListPushBack", "two", {row, row}, [](const Scope& scope, Outputs& xs) {
    Output list = scope.Call("TensorListPushBack", {EmptyList(scope), xs[0]});
    list = scope.Call("TensorListPushBack", {list, scope.Call("Square", {xs[1]})});
    return Outputs{Stack(scope, list)};
  });
  cases.Program("TensorListPopBack", "element", {rows}, [](const Scope& scope, Outputs& xs) {
    return Outputs{
        scope.CallMulti("TensorListPopBack", {FromTensor(scope, xs[0]), {2}}, Elements()).back()};
  });
  cases.Program("TensorListPopBack", "rest", {rows}, [](const Scope& scope, Outputs& xs) {
    return Outputs{Stack(
        scope,
        scope.CallMulti("TensorListPopBack", {FromTensor(scope, xs[0]), {2}}, Elements()).front())};
  });
  cases.Program("TensorListPopBack", "both", {rows}, [](const Scope& scope, Outputs& xs) {
    const Outputs parts =
        scope.CallMulti("TensorListPopBack", {FromTensor(scope, xs[0]), {2}}, Elements());
    if (parts.empty()) return Outputs();
    return Outputs{Stack(scope, parts[0]), scope.Call("Exp", {parts[1]})};
  });
}

void AddOptionals(GradientCases& cases) {
  const std::vector<DataType> types = {kFloat64, kFloat64};
  const AttrMap attrs = {{"output_types", types},
                         {"output_shapes", std::vector<PartialShape>(2, PartialShape::Unknown())}};
  for (const char* op : {"OptionalFromValue", "OptionalGetValue"}) {
    cases.Program(op, "two_components", {Spread({2}), Spread({3}, -1, 1, 2)},
                  [attrs](const Scope& scope, Outputs& xs) {
                    const Output optional = scope.Call("OptionalFromValue", {xs[0], xs[1]});
                    return scope.CallMulti("OptionalGetValue", {optional}, attrs);
                  });
  }
  cases.Program("OptionalGetValue", "read_twice", {Spread({2}), Spread({2}, -1, 1, 2)},
                [attrs](const Scope& scope, Outputs& xs) {
                  const Output optional = scope.Call("OptionalFromValue", {xs[0], xs[1]});
                  const Outputs once = scope.CallMulti("OptionalGetValue", {optional}, attrs);
                  const Outputs again = scope.CallMulti("OptionalGetValue", {optional}, attrs);
                  if (again.empty()) return Outputs();
                  return Outputs{scope.Call("Mul", {once[0], again[1]})};
                });
}

// What `use` makes of a fresh array's handle and flow.
GradientCase::Build WithArray(
    int size, std::function<Output(const Scope&, const Outputs& array, const Outputs& xs)> use) {
  return [size, use = std::move(use)](const Scope& scope, Outputs& xs) {
    const Outputs array = scope.CallMulti("TensorArrayV3", {size}, {{"dtype", kFloat64}});
    if (array.empty()) return Outputs();
    return Outputs{use(scope, array, xs)};
  };
}

// Arrays of TensorFlow 1: written with one op of a pair, read with the other.
void AddArrays(GradientCases& cases) {
  const AttrMap dtype = {{"dtype", kFloat64}};
  const Tensor rows = Spread({3, 2});
  for (const char* op : {"TensorArrayWriteV3", "TensorArrayReadV3"}) {
    cases.Program(
        op, "two_elements", {rows, Spread({2}, -1, 1, 2)},
        WithArray(3, [dtype](const Scope& scope, const Outputs& array, const Outputs& xs) {
          Output flow = scope.Call("TensorArrayWriteV3", {array[0], 2, xs[0], array[1]});
          flow = scope.Call("TensorArrayWriteV3", {array[0], 0, xs[1], flow});
          return scope.Call("Mul", {scope.Call("TensorArrayReadV3", {array[0], 2, flow}, dtype),
                                    scope.Call("TensorArrayReadV3", {array[0], 0, flow}, dtype)});
        }));
  }
  for (const char* op : {"TensorArrayScatterV3", "TensorArrayGatherV3"}) {
    cases.Program(
        op, "some_rows", {rows},
        WithArray(3, [dtype](const Scope& scope, const Outputs& array, const Outputs& xs) {
          const Output flow =
              scope.Call("TensorArrayScatterV3", {array[0], {2, 0, 1}, xs[0], array[1]});
          return scope.Call("Exp",
                            {scope.Call("TensorArrayGatherV3", {array[0], {0, 2}, flow}, dtype)});
        }));
  }
  for (const char* op : {"TensorArraySplitV3", "TensorArrayConcatV3"}) {
    cases.Program(
        op, "uneven", {rows},
        WithArray(3, [dtype](const Scope& scope, const Outputs& array, const Outputs& xs) {
          const Output lengths = scope.Constant(Tensor::Vector<int64_t>({1, 0, 2}));
          const Output flow =
              scope.Call("TensorArraySplitV3", {array[0], xs[0], lengths, array[1]});
          return scope.Call("Exp", {scope.Call("TensorArrayConcatV3", {array[0], flow}, dtype)});
        }));
  }
}

}  // namespace

std::vector<GradientCase> DataCases() {
  GradientCases cases;
  AddLists(cases);
  AddArrays(cases);
  AddOptionals(cases);
  return cases.Take();
}

}  // namespace tandem::testing
