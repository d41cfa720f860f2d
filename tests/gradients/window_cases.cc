// Convolution and pooling, in both layouts, with every kind of padding.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<int64_t>;

// Of one layout: how an image of `rows` by `columns` with channels is shaped, and so on.
struct Layout {
  explicit Layout(bool channels_first) : channels_first(channels_first) {}

  Shape Image(int64_t batch, int64_t rows, int64_t columns, int64_t channels) const {
    return channels_first ? Shape({batch, channels, rows, columns})
                          : Shape({batch, rows, columns, channels});
  }
  Numbers PerDimension(int64_t rows, int64_t columns) const {
    return channels_first ? Numbers{1, 1, rows, columns} : Numbers{1, rows, columns, 1};
  }
  Numbers Paddings(int64_t top, int64_t bottom, int64_t left, int64_t right) const {
    return channels_first ? Numbers{0, 0, 0, 0, top, bottom, left, right}
                          : Numbers{0, 0, top, bottom, left, right, 0, 0};
  }
  const char* name() const { return channels_first ? "NCHW" : "NHWC"; }

  bool channels_first;
};

struct Window {
  const char* name;
  AttrMap attrs;
};

std::vector<Window> Windows(const Layout& layout, bool one_stride) {
  const Numbers ones = layout.PerDimension(1, 1);
  std::vector<Window> windows = {
      {"valid", {{"padding", "VALID"}, {"strides", ones}}},
      {"same", {{"padding", "SAME"}, {"strides", ones}}},
      {"strided_valid", {{"padding", "VALID"}, {"strides", layout.PerDimension(2, 2)}}},
      {"strided_same", {{"padding", "SAME"}, {"strides", layout.PerDimension(2, 2)}}},
      {"explicit",
       {{"padding", "EXPLICIT"},
        {"strides", ones},
        {"explicit_paddings", layout.Paddings(1, 0, 0, 2)}}},
      {"dilated",
       {{"padding", "SAME"}, {"strides", ones}, {"dilations", layout.PerDimension(2, 2)}}},
  };
  if (!one_stride) {
    windows.push_back(
        {"strides_that_differ", {{"padding", "VALID"}, {"strides", layout.PerDimension(2, 1)}}});
  }
  for (Window& window : windows) window.attrs["data_format"] = layout.name();
  return windows;
}

// The gradient ops of a convolution, at the sizes of the forward op with these inputs.
void AddConvolution(GradientCases& cases, const std::string& op, const Layout& layout,
                    const Window& window, const Tensor& image, const Tensor& filter) {
  const std::string name = absl::StrCat(window.name, "_", layout.name());
  cases.Op(op, name, {image, filter}, window.attrs);
  const AttrMap attrs = window.attrs;
  const std::string to_input = absl::StrCat(op, "BackpropInput");
  // Σ over outputs is quadratic in dy then, which is the convolution itself.
  cases.Program(to_input, name, {image, filter},
                [op, to_input, attrs](const Scope& scope, std::vector<Output>& xs) {
                  const Output dy = scope.Call(op, {xs[0], xs[1]}, attrs);
                  const Output sizes = scope.Call("Shape", {xs[0]});
                  return std::vector<Output>{scope.Call(to_input, {sizes, xs[1], dy}, attrs)};
                });
  const std::string to_filter = absl::StrCat(op, "BackpropFilter");
  cases.Program(to_filter, name, {image, filter},
                [op, to_filter, attrs](const Scope& scope, std::vector<Output>& xs) {
                  const Output dy = scope.Call(op, {xs[0], xs[1]}, attrs);
                  const Output sizes = scope.Call("Shape", {xs[1]});
                  return std::vector<Output>{scope.Call(to_filter, {xs[0], sizes, dy}, attrs)};
                });
}

void AddPools(GradientCases& cases, const Layout& layout) {
  struct Pool {
    const char* name;
    AttrMap attrs;
  };
  const std::vector<Pool> pools = {
      {"valid",
       {{"padding", "VALID"},
        {"ksize", layout.PerDimension(2, 2)},
        {"strides", layout.PerDimension(2, 2)}}},
      {"overlapping_same",
       {{"padding", "SAME"},
        {"ksize", layout.PerDimension(3, 2)},
        {"strides", layout.PerDimension(1, 2)}}},
  };
  const Shape image = layout.Image(2, 4, 3, 2);
  for (const Pool& pool : pools) {
    AttrMap attrs = pool.attrs;
    attrs["data_format"] = layout.name();
    const std::string name = absl::StrCat(pool.name, "_", layout.name());
    cases.Op("AvgPool", name, {Spread(image)}, attrs);
    cases.Program("AvgPoolGrad", name, {Spread(image)},
                  [attrs](const Scope& scope, std::vector<Output>& xs) {
                    const Output dy = scope.Call("AvgPool", {xs[0]}, attrs);
                    const Output sizes = scope.Call("Shape", {xs[0]});
                    return std::vector<Output>{scope.Call("AvgPoolGrad", {sizes, dy}, attrs)};
                  });
    cases.Op("MaxPool", name, {Distinct(image)}, attrs);
    // With respect to dy alone: the image only says which element is the largest.
    for (const bool twice : {false, true}) {
      const std::string op = twice ? "MaxPoolGradGrad" : "MaxPoolGrad";
      cases
          .Program(op, name, {Distinct(image), Spread(image)},
                   [op, twice, attrs](const Scope& scope, std::vector<Output>& xs) {
                     const Output x = scope.Call("StopGradient", {xs[0]});
                     const Output y = scope.Call("MaxPool", {x}, attrs);
                     const Output dy = twice ? xs[1] : scope.Call("AvgPool", {xs[1]}, attrs);
                     return std::vector<Output>{scope.Call(op, {x, y, dy}, attrs)};
                   })
          .WithConstants({0});
    }
  }
  AttrMap attrs = {{"padding", "EXPLICIT"},
                   {"ksize", layout.PerDimension(2, 2)},
                   {"strides", layout.PerDimension(2, 1)},
                   {"explicit_paddings", layout.Paddings(1, 0, 0, 1)},
                   {"data_format", layout.name()}};
  cases.Op("MaxPool", absl::StrCat("explicit_", layout.name()), {Distinct(image)}, attrs);
}

}  // namespace

std::vector<GradientCase> WindowCases() {
  GradientCases cases;
  for (const bool channels_first : {false, true}) {
    const Layout layout(channels_first);
    for (const Window& window : Windows(layout, /*one_stride=*/false)) {
      AddConvolution(cases, "Conv2D", layout, window, Spread(layout.Image(2, 5, 4, 2)),
                     Spread({3, 2, 2, 3}, -1, 1, 2));
    }
    for (const Window& window : Windows(layout, /*one_stride=*/true)) {
      AddConvolution(cases, "DepthwiseConv2dNative", layout, window,
                     Spread(layout.Image(2, 5, 4, 2)), Spread({3, 2, 2, 2}, -1, 1, 2));
    }
    AddPools(cases, layout);
  }
  const AttrMap plain = {{"padding", "SAME"}, {"strides", Numbers{1, 1, 1, 1}}};
  cases.Op("Conv2D", "one_by_one", {Spread({1, 3, 3, 2}), Spread({1, 1, 2, 3})}, plain);
  cases.Op("Conv2D", "empty_batch", {Spread({0, 3, 3, 2}), Spread({2, 2, 2, 3})}, plain);
  cases.Op("Conv2D", "groups", {Spread({1, 3, 3, 4}), Spread({2, 2, 2, 4}, -1, 1, 2)}, plain);
  return cases.Take();
}

}  // namespace tandem::testing
