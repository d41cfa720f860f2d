// Convolution and pooling of volumes, in both layouts.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<int64_t>;

struct Layout {
  Shape Volume(int64_t batch, int64_t depth, int64_t rows, int64_t columns,
               int64_t channels) const {
    return channels_first ? Shape({batch, channels, depth, rows, columns})
                          : Shape({batch, depth, rows, columns, channels});
  }
  Numbers PerDimension(int64_t depth, int64_t rows, int64_t columns) const {
    return channels_first ? Numbers{1, 1, depth, rows, columns}
                          : Numbers{1, depth, rows, columns, 1};
  }
  const char* name() const { return channels_first ? "NCDHW" : "NDHWC"; }

  bool channels_first;
};

void AddConvolutions(GradientCases& cases, const Layout& layout) {
  struct Window {
    const char* name;
    AttrMap attrs;
  };
  const Numbers ones = layout.PerDimension(1, 1, 1);
  const std::vector<Window> windows = {
      {"valid", {{"padding", "VALID"}, {"strides", ones}}},
      {"strided_same", {{"padding", "SAME"}, {"strides", layout.PerDimension(2, 1, 2)}}},
      {"dilated",
       {{"padding", "SAME"}, {"strides", ones}, {"dilations", layout.PerDimension(1, 2, 1)}}},
  };
  const Tensor volume = Spread(layout.Volume(2, 3, 3, 2, 2));
  const Tensor filter = Spread({2, 2, 1, 2, 2}, -1, 1, 2);
  for (const Window& window : windows) {
    AttrMap attrs = window.attrs;
    attrs["data_format"] = layout.name();
    const std::string name = absl::StrCat(window.name, "_", layout.name());
    cases.Op("Conv3D", name, {volume, filter}, attrs);
    for (const bool to_filter : {false, true}) {
      const std::string op = to_filter ? "Conv3DBackpropFilterV2" : "Conv3DBackpropInputV2";
      cases.Program(op, name, {volume, filter},
                    [op, to_filter, attrs](const Scope& scope, std::vector<Output>& xs) {
                      const Output dy = scope.Call("Conv3D", {xs[0], xs[1]}, attrs);
                      const Output sizes = scope.Call("Shape", {xs[to_filter ? 1 : 0]});
                      const Output first = to_filter ? xs[0] : sizes;
                      const Output second = to_filter ? sizes : xs[1];
                      return std::vector<Output>{scope.Call(op, {first, second, dy}, attrs)};
                    });
    }
  }
}

void AddPools(GradientCases& cases, const Layout& layout) {
  struct Pool {
    const char* name;
    AttrMap attrs;
  };
  const std::vector<Pool> pools = {
      {"valid",
       {{"padding", "VALID"},
        {"ksize", layout.PerDimension(2, 2, 2)},
        {"strides", layout.PerDimension(2, 2, 1)}}},
      {"overlapping_same",
       {{"padding", "SAME"},
        {"ksize", layout.PerDimension(2, 3, 2)},
        {"strides", layout.PerDimension(1, 1, 2)}}},
  };
  const Shape shape = layout.Volume(2, 2, 4, 3, 2);
  for (const Pool& pool : pools) {
    AttrMap attrs = pool.attrs;
    attrs["data_format"] = layout.name();
    const std::string name = absl::StrCat(pool.name, "_", layout.name());
    cases.Op("AvgPool3D", name, {Spread(shape)}, attrs);
    cases.Program("AvgPool3DGrad", name, {Spread(shape)},
                  [attrs](const Scope& scope, std::vector<Output>& xs) {
                    const Output dy = scope.Call("AvgPool3D", {xs[0]}, attrs);
                    const Output sizes = scope.Call("Shape", {xs[0]});
                    return std::vector<Output>{scope.Call("AvgPool3DGrad", {sizes, dy}, attrs)};
                  });
    // Elements are 0.1 apart, so that a step of 0.01 changes no maximum.
    cases.Op("MaxPool3D", name, {Distinct(shape, 1, kFloat32)}, attrs);
    // With respect to dy alone: the volume only says which element is the largest.
    for (const bool twice : {false, true}) {
      const std::string op = twice ? "MaxPool3DGradGrad" : "MaxPool3DGrad";
      cases
          .Program(op, name, {Distinct(shape, 1, kFloat32), Spread(shape, -1, 1, 2, kFloat32)},
                   [op, twice, attrs](const Scope& scope, std::vector<Output>& xs) {
                     const Output x = scope.Call("StopGradient", {xs[0]});
                     const Output y = scope.Call("MaxPool3D", {x}, attrs);
                     const Output dy = twice ? xs[1] : scope.Call("AvgPool3D", {xs[1]}, attrs);
                     return std::vector<Output>{scope.Call(op, {x, y, dy}, attrs)};
                   })
          .WithConstants({0});
    }
  }
}

}  // namespace

std::vector<GradientCase> VolumeCases() {
  GradientCases cases;
  for (const bool channels_first : {false, true}) {
    const Layout layout{channels_first};
    AddConvolutions(cases, layout);
    AddPools(cases, layout);
  }
  const AttrMap plain = {{"padding", "SAME"}, {"strides", Numbers{1, 1, 1, 1, 1}}};
  cases.Op("Conv3D", "groups", {Spread({1, 2, 2, 3, 4}), Spread({2, 1, 2, 2, 4}, -1, 1, 2)}, plain);
  return cases.Take();
}

}  // namespace tandem::testing
