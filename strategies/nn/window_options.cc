#include "strategies/nn/window_options.h"

#include "absl/strings/str_cat.h"

namespace tandem::nn {

absl::Status WindowOptions::Check(const LayerCall& call) const {
  if (padding != "SAME" && padding != "VALID") {
    return call.Error("there is no padding '", padding, "'; there are SAME and VALID");
  }
  for (size_t i = 0; i < 2; ++i) {
    const struct {
      const char* name;
      int64_t value;
    } values[] = {{"window", size[i]}, {"stride", strides[i]}, {"dilation", dilations[i]}};
    for (const auto& v : values) {
      // Below any limit of sizes that a product of two could pass.
      constexpr int64_t kLimit = int64_t{1} << 31;
      if (v.value >= 1 && v.value < kLimit) continue;
      return call.Error("its ", v.name, " is ", v.value, " along the ", i == 0 ? "height" : "width",
                        "; it must lie in [1, 2^31)");
    }
  }
  TANDEM_RETURN_IF_ERROR(call.LastSize(4, 4).status());
  for (size_t i = 0; i < 2; ++i) {
    const int64_t available = call.shape().dim(static_cast<int>(i) + 1);
    const int64_t needed = (size[i] - 1) * dilations[i] + 1;
    if (padding == "VALID" && available >= 0 && available < needed) {
      return call.ShapeError(absl::StrCat("at least ", needed, i == 0 ? " high" : " wide",
                                          " for the window to fit (or padding be SAME)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::nn
