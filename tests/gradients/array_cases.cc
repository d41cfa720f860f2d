// Ops that move elements: shapes, joins and splits, slices, paddings, transpositions.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

void AddShapes(GradientCases& cases) {
  cases.Op("Identity", "values", {Spread({2, 3})});
  cases.Op("Identity", "complex", {Complex({2})});
  cases.Op("IdentityN", "two", {Spread({2}), Spread({3}, -1, 1, 2)});
  cases.Op("PlaceholderWithDefault", "default", {Spread({2, 3})},
           {{"shape", PartialShape({2, 3})}});
  cases.Op("EnsureShape", "partly_known", {Spread({2, 3})}, {{"shape", PartialShape({-1, 3})}});
  cases.Op("Reshape", "to_matrix", {Spread({2, 6}), Ints({4, 3})});
  cases.Op("Reshape", "open_size", {Spread({2, 6}), Tensor::Vector<int64_t>({-1, 2, 3})});
  cases.Op("Reshape", "to_scalar", {Spread({1, 1}), Ints({})});
  cases.Op("Reshape", "empty", {Spread({0, 4}), Ints({2, 0})});
  cases.Op("ExpandDims", "front", {Spread({2, 3}), Int(0)});
  cases.Op("ExpandDims", "back", {Spread({2, 3}), Int(-1)});
  cases.Op("Squeeze", "all", {Spread({1, 3, 1})});
  cases.Op("Squeeze", "one", {Spread({1, 3, 1})}, {{"squeeze_dims", std::vector<int64_t>{-1}}});
  cases.Op("BroadcastTo", "matrix", {Spread({3, 1}), Ints({2, 3, 4})});
  cases.Op("BroadcastTo", "scalar", {Spread({}), Tensor::Vector<int64_t>({2, 2})});
  cases.Op("BroadcastTo", "unchanged", {Spread({2, 2}), Ints({2, 2})});
  cases.Op("BroadcastTo", "empty", {Spread({1, 2}), Ints({0, 2})});
  cases.Op("Fill", "matrix", {Ints({2, 3}), Spread({})});
  cases.Op("Fill", "empty", {Tensor::Vector<int64_t>({0, 3}), Spread({})});
  cases.Op("Tile", "matrix", {Spread({2, 3}), Ints({3, 2})});
  cases.Op("Tile", "once", {Spread({2, 3}), Tensor::Vector<int64_t>({1, 1})});
  cases.Op("Tile", "never", {Spread({2, 3}), Ints({0, 2})});
  cases.Op("Tile", "scalar", {Spread({}), Ints({})});
}

void AddTranspositions(GradientCases& cases) {
  cases.Op("Transpose", "matrix", {Spread({2, 3}), Ints({1, 0})});
  cases.Op("Transpose", "cycle", {Spread({2, 3, 4}), Ints({2, 0, 1})});
  cases.Op("Transpose", "complex", {Complex({2, 3}), Tensor::Vector<int64_t>({1, 0})});
  cases.Op("ConjugateTranspose", "cycle", {Complex({2, 3, 2}), Ints({1, 2, 0})});
  cases.Op("ConjugateTranspose", "real", {Spread({2, 3}), Ints({1, 0})});
  cases.Op("ReverseV2", "two_axes", {Spread({2, 3, 2}), Ints({0, -1})});
  cases.Op("ReverseV2", "none", {Spread({2, 3}), Ints({})});
  cases.Op("ReverseSequence", "rows", {Spread({3, 4}), Tensor::Vector<int64_t>({2, 4, 0})},
           {{"seq_dim", 1}, {"batch_dim", 0}});
  cases.Op("ReverseSequence", "columns", {Spread({4, 3, 2}), Ints({3, 1, 4})},
           {{"seq_dim", 0}, {"batch_dim", 1}});
  cases.Op("MatrixBandPart", "band",
           {Spread({2, 4, 3}), Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(0)});
  cases.Op("MatrixBandPart", "lower_half",
           {Spread({3, 3}), Tensor::Scalar<int64_t>(-1), Tensor::Scalar<int64_t>(0)});
}

void AddJoins(GradientCases& cases) {
  const auto three = [](Shape a, Shape b, Shape c) {
    return std::vector<Tensor>{Spread(a), Spread(b, -1, 1, 2), Spread(c, -1, 1, 3)};
  };
  const auto with = [](std::vector<Tensor> list, Tensor last) {
    list.push_back(std::move(last));
    return list;
  };
  cases.Op("ConcatV2", "rows", with(three({1, 2}, {2, 2}, {0, 2}), Int(0)));
  cases.Op("ConcatV2", "columns", with(three({2, 1}, {2, 3}, {2, 2}), Int(-1)));
  cases.Op("ConcatV2", "vectors", with(three({2}, {1}, {3}), Tensor::Scalar<int64_t>(0)));
  cases.Op("Pack", "front", three({2, 2}, {2, 2}, {2, 2}));
  cases.Op("Pack", "back", three({2, 3}, {2, 3}, {2, 3}), {{"axis", -1}});
  cases.Op("Pack", "scalars", three({}, {}, {}));
  cases.Op("Unpack", "rows", {Spread({3, 2})}, {{"num", 3}});
  cases.Op("Unpack", "middle", {Spread({2, 3, 2})}, {{"num", 3}, {"axis", 1}});
  cases.Op("Split", "columns", {Int(1), Spread({2, 6})}, {{"num_split", 3}});
  cases.Op("Split", "negative_axis", {Int(-2), Spread({4, 3})}, {{"num_split", 2}});
  cases.Op("SplitV", "columns", {Spread({2, 6}), Tensor::Vector<int64_t>({1, 0, 5}), Int(1)},
           {{"num_split", 3}});
  cases.Op("SplitV", "open_size", {Spread({5, 2}), Ints({2, -1}), Int(0)}, {{"num_split", 2}});
  // A gradient that is missing for one of several outputs counts as zero.
  cases.Program(
      "Split", "one_part_used", {Spread({4, 2})}, [](const Scope& scope, std::vector<Output>& xs) {
        return std::vector<Output>{scope.CallMulti("Split", {0, xs[0]}, {{"num_split", 2}}).back()};
      });
  cases.Program(
      "Unpack", "one_part_used", {Spread({3, 2})}, [](const Scope& scope, std::vector<Output>& xs) {
        return std::vector<Output>{scope.CallMulti("Unpack", {xs[0]}, {{"num", 3}}).back()};
      });
}

void AddPaddings(GradientCases& cases) {
  const Tensor paddings = Tensor::FromValues<int32_t>({2, 2}, {1, 0, 2, 1});
  const Tensor wide = Tensor::FromValues<int64_t>({2, 2}, {1, 2, 0, 1});
  cases.Op("Pad", "matrix", {Spread({2, 3}), paddings});
  cases.Op("Pad", "int64", {Spread({2, 3}), wide});
  cases.Op("Pad", "empty", {Spread({0, 2}), paddings});
  cases.Op("PadV2", "matrix", {Spread({2, 3}), paddings, Spread({})});
  const Tensor narrow = Tensor::FromValues<int32_t>({2, 2}, {1, 0, 1, 2});
  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    cases.Op("MirrorPad", mode, {Spread({2, 3}), narrow}, {{"mode", mode}});
    cases.Op("MirrorPad", std::string(mode) + "_int64",
             {Spread({3, 3}), Tensor::FromValues<int64_t>({2, 2}, {2, 1, 0, 0})}, {{"mode", mode}});
    cases.Op("MirrorPadGrad", mode, {Spread({4, 6}), narrow}, {{"mode", mode}});
  }
}

void AddSlices(GradientCases& cases) {
  cases.Op("Slice", "inner", {Spread({3, 4}), Ints({1, 0}), Ints({2, 3})});
  cases.Op("Slice", "to_the_end", {Spread({3, 4}), Ints({1, 2}), Ints({-1, -1})});
  cases.Op("Slice", "nothing",
           {Spread({3}), Tensor::Vector<int64_t>({1}), Tensor::Vector<int64_t>({0})});
  struct Strided {
    const char* name;
    Tensor begin;
    Tensor end;
    Tensor strides;
    AttrMap masks;
  };
  const std::vector<Strided> all = {
      {"plain", Ints({0, 1}), Ints({2, 4}), Ints({1, 2}), {}},
      {"backwards", Ints({2, 3}), Ints({0, 0}), Ints({-1, -2}), {}},
      {"negative_indices", Ints({-2, -3}), Ints({-1, -1}), Ints({1, 1}), {}},
      {"open_ends", Ints({1, 9}), Ints({9, 3}), Ints({1, 1}), {{"begin_mask", 2}, {"end_mask", 1}}},
      {"one_row", Ints({1}), Ints({2}), Ints({1}), {{"shrink_axis_mask", 1}}},
      {"new_axis", Ints({0, 1}), Ints({0, 3}), Ints({1, 1}), {{"new_axis_mask", 1}}},
      {"ellipsis", Ints({0, 1}), Ints({0, 3}), Ints({1, 1}), {{"ellipsis_mask", 1}}},
      {"all_masks",
       Ints({0, 0, 2}),
       Ints({0, 0, 3}),
       Ints({1, 1, 1}),
       {{"ellipsis_mask", 1}, {"new_axis_mask", 2}, {"shrink_axis_mask", 4}}},
  };
  for (const Strided& s : all) {
    cases.Op("StridedSlice", s.name, {Spread({3, 4}), s.begin, s.end, s.strides}, s.masks);
    cases.Program(
        "StridedSliceGrad", s.name, {Spread({3, 4}), s.begin, s.end, s.strides},
        [masks = s.masks](const Scope& scope, std::vector<Output>& xs) {
          const Output part = scope.Call("StridedSlice", {xs[0], xs[1], xs[2], xs[3]}, masks);
          return std::vector<Output>{
              scope.Call("StridedSliceGrad",
                         {Tensor::Vector<int32_t>({3, 4}), xs[1], xs[2], xs[3], part}, masks)};
        });
  }
}

}  // namespace

std::vector<GradientCase> ArrayCases() {
  GradientCases cases;
  AddShapes(cases);
  AddTranspositions(cases);
  AddJoins(cases);
  AddPaddings(cases);
  AddSlices(cases);
  return cases.Take();
}

}  // namespace tandem::testing
