// Colors by hue, saturation and value: for .cc files only.
#ifndef TANDEM_KERNELS_IMAGE_HSV_H_
#define TANDEM_KERNELS_IMAGE_HSV_H_

#include <algorithm>
#include <cmath>

namespace tandem {

// rgb to hue, saturation and value, all in [0, 1] for colors in [0, 1]. Hue 0 is red, 1/3 green,
// 2/3 blue; that of a gray is 0. `to` may be `rgb`.
template <typename C>
void RgbToHsv(const C* rgb, C* to) {
  const C r = rgb[0];
  const C g = rgb[1];
  const C b = rgb[2];
  const C value = std::max(r, std::max(g, b));
  const C range = value - std::min(r, std::min(g, b));
  const C sixth = C(1) / (C(6) * range);
  C hue = 0;
  if (range > C(0)) {
    hue = r == value   ? sixth * (g - b)
          : g == value ? sixth * (b - r) + C(2) / C(6)
                       : sixth * (r - g) + C(4) / C(6);
    if (hue < C(0)) hue += C(1);
  }
  to[0] = hue;
  to[1] = value > C(0) ? range / value : C(0);
  to[2] = value;
}

// The way back. `to` may be `hsv`.
template <typename C>
void HsvToRgb(const C* hsv, C* to) {
  const auto clip = [](C x) { return std::min(std::max(x, C(0)), C(1)); };
  const C hue = hsv[0] * C(6);
  const C saturation = hsv[1];
  const C value = hsv[2];
  const C gray = C(1) - saturation;
  to[0] = (gray + saturation * clip(std::abs(hue - C(3)) - C(1))) * value;
  to[1] = (gray + saturation * clip(C(2) - std::abs(hue - C(2)))) * value;
  to[2] = (gray + saturation * clip(C(2) - std::abs(hue - C(4)))) * value;
}

}  // namespace tandem

#endif  // TANDEM_KERNELS_IMAGE_HSV_H_
