// Resized, cropped and transformed images, and colors.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

Tensor Image(Shape shape) { return Spread(std::move(shape), -1, 1, 1, kFloat32); }

void AddResizes(GradientCases& cases) {
  for (const char* op : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"}) {
    struct Sizes {
      const char* name;
      int32_t height;
      int32_t width;
    };
    for (const Sizes& sizes : {Sizes{"larger", 7, 6}, Sizes{"smaller", 2, 3}, Sizes{"one", 1, 1}}) {
      cases.Op(op, sizes.name, {Image({2, 4, 5, 2}), Ints({sizes.height, sizes.width})});
      cases.Op(op, absl::StrCat(sizes.name, "_aligned"),
               {Image({2, 4, 5, 2}), Ints({sizes.height, sizes.width})}, {{"align_corners", true}});
      cases.Op(op, absl::StrCat(sizes.name, "_centers"),
               {Image({2, 4, 5, 2}), Ints({sizes.height, sizes.width})},
               {{"half_pixel_centers", true}});
    }
  }
}

void AddScaled(GradientCases& cases) {
  const auto two = [](float a, float b) { return Tensor::FromValues<float>({2}, {a, b}); };
  for (const char* kernel : {"lanczos3", "triangle", "mitchellcubic"}) {
    for (const bool antialias : {false, true}) {
      cases
          .Op("ScaleAndTranslate", absl::StrCat(kernel, antialias ? "" : "_sharp"),
              {Image({2, 4, 5, 2}), Ints({3, 6}), two(0.7f, 1.3f), two(0.2f, -0.4f)},
              {{"kernel_type", kernel}, {"antialias", antialias}})
          .WithConstants({2, 3});
    }
  }
}

void AddCrops(GradientCases& cases) {
  // No place lies on a pixel, where the derivative jumps.
  const Tensor boxes =
      Tensor::FromValues<float>({2, 4}, {0.1f, 0.15f, 0.8f, 0.7f, 0.6f, 0.9f, 0.25f, 0.2f});
  cases.Op("CropAndResize", "bilinear", {Image({2, 4, 5, 2}), boxes, Ints({1, 0}), Ints({3, 2})});
  cases.Op("CropAndResize", "one_pixel", {Image({2, 4, 5, 2}), boxes, Ints({0, 0}), Ints({1, 1})});
  cases
      .Program("CropAndResize", "nearest", {Image({2, 4, 5, 2}), boxes, Ints({1, 0}), Ints({3, 2})},
               [](const Scope& scope, std::vector<Output>& xs) {
                 const Output fixed = scope.Call("StopGradient", {xs[1]});
                 return std::vector<Output>{scope.Call(
                     "CropAndResize", {xs[0], fixed, xs[2], xs[3]}, {{"method", "nearest"}})};
               })
      .WithConstants({1});
}

// Of transforms that take pixels to pixels: for the others TensorFlow's gradient is not the
// derivative.
void AddTransforms(GradientCases& cases) {
  struct Transform {
    const char* name;
    std::vector<float> numbers;
  };
  const std::vector<Transform> transforms = {
      {"moved", {1, 0, 1, 0, 1, -2, 0, 0}},
      {"flipped", {-1, 0, 3, 0, 1, 0, 0, 0}},
      {"turned", {0, 1, 0, -1, 0, 3, 0, 0}},
  };
  for (const Transform& each : transforms) {
    const Tensor numbers = Tensor::FromValues<float>({1, 8}, absl::MakeConstSpan(each.numbers));
    for (const char* interpolation : {"NEAREST", "BILINEAR"}) {
      const std::string name = absl::StrCat(each.name, "_", interpolation);
      const AttrMap attrs = {{"interpolation", interpolation}};
      cases
          .Op("ImageProjectiveTransformV2", name, {Image({2, 4, 4, 2}), numbers, Ints({4, 4})},
              attrs)
          .WithConstants({1});
      cases
          .Op("ImageProjectiveTransformV3", name,
              {Image({2, 4, 4, 2}), numbers, Ints({4, 4}), Tensor::Scalar(0.5f)}, attrs)
          .WithConstants({1, 3});
    }
  }
}

}  // namespace

std::vector<GradientCase> ImageCases() {
  GradientCases cases;
  AddResizes(cases);
  AddScaled(cases);
  AddCrops(cases);
  AddTransforms(cases);
  cases.Op("RGBToHSV", "every_order",
           {Tensor::FromValues<double>({2, 3, 3}, {0.9, 0.2, 0.5, 0.3, 0.8, 0.1, 0.2, 0.4, 0.7, 0.6,
                                                   0.1, 0.4, 0.5, 0.7, 0.3, 0.4, 0.1, 0.9})});
  return cases.Take();
}

}  // namespace tandem::testing
