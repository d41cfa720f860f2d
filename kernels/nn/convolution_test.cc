// oneDNN's convolutions against the plain loops, which are short enough to be believed.
#include "kernels/nn/convolution.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

struct Geometry {
  const char* name;
  int64_t batch, height, width, in, out, groups;
  int64_t window[2];
  WindowAttrs attrs;
  // Of volumes: layers, and how many of them a window has.
  int64_t depth = 0;
  int64_t layers = 1;
};

WindowAttrs Attrs(Padding padding, int64_t stride = 1, int64_t dilation = 1,
                  DataFormat format = DataFormat::kNhwc) {
  WindowAttrs a;
  a.format = format;
  a.padding = padding;
  a.strides[0] = a.strides[1] = stride;
  a.dilations[0] = a.dilations[1] = dilation;
  if (padding == Padding::kExplicit) {
    a.pads[0][0] = 2;
    a.pads[1][1] = 1;
  }
  return a;
}

const Geometry kGeometries[] = {
    {"MnistFirstLayer", 3, 28, 28, 1, 64, 1, {3, 3}, Attrs(Padding::kValid)},
    {"SameChannels", 2, 9, 8, 16, 16, 1, {3, 3}, Attrs(Padding::kSame)},
    {"OddChannels", 2, 14, 14, 6, 5, 1, {5, 5}, Attrs(Padding::kValid)},
    {"Strided", 2, 11, 12, 3, 8, 1, {3, 3}, Attrs(Padding::kSame, 2)},
    {"StrideAboveWindow", 1, 10, 10, 4, 4, 1, {2, 2}, Attrs(Padding::kValid, 3)},
    {"Dilated", 2, 13, 13, 8, 8, 1, {3, 3}, Attrs(Padding::kSame, 1, 2)},
    {"Explicit", 1, 7, 7, 8, 16, 1, {3, 3}, Attrs(Padding::kExplicit)},
    {"OneByOne", 2, 6, 6, 24, 32, 1, {1, 1}, Attrs(Padding::kValid)},
    {"Grouped", 2, 8, 8, 16, 24, 4, {3, 3}, Attrs(Padding::kSame)},
    {"OneOutput", 2, 8, 8, 16, 1, 1, {3, 3}, Attrs(Padding::kSame)},
    {"ChannelsFirst", 2, 9, 10, 3, 8, 1, {3, 3}, Attrs(Padding::kSame, 2, 1, DataFormat::kNchw)},
    {"ChannelsFirstGrouped",
     2,
     9,
     10,
     8,
     8,
     2,
     {3, 3},
     Attrs(Padding::kValid, 1, 1, DataFormat::kNchw)},
    {"Volume", 2, 7, 8, 3, 8, 1, {3, 3}, Attrs(Padding::kSame), 5, 3},
    {"StridedVolume", 1, 8, 7, 8, 16, 1, {3, 2}, Attrs(Padding::kSame, 2), 6, 2},
    {"DilatedVolume", 1, 8, 9, 4, 5, 1, {3, 3}, Attrs(Padding::kValid, 1, 2), 6, 2},
    {"GroupedVolume", 1, 6, 6, 16, 16, 2, {3, 3}, Attrs(Padding::kSame), 4, 3},
    {"VolumeChannelsFirst",
     2,
     7,
     6,
     3,
     8,
     1,
     {3, 3},
     Attrs(Padding::kSame, 2, 1, DataFormat::kNchw),
     5,
     3},
};

std::vector<float> Values(int64_t n, unsigned seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 24) - 0.5f;
  }
  return values;
}

class ConvolutionTest : public ::testing::TestWithParam<Geometry> {
 protected:
  void SetUp() override {
    const Geometry& g = GetParam();
    conv_.format = g.attrs.format;
    conv_.batch = g.batch;
    conv_.in_channels = g.in;
    conv_.out_channels = g.out;
    conv_.groups = g.groups;
    conv_.height = *g.attrs.Along(0, g.height, g.window[0]);
    conv_.width = *g.attrs.Along(1, g.width, g.window[1]);
    if (g.depth > 0) {
      conv_.is_volume = true;
      conv_.depth = *g.attrs.Along(0, g.depth, g.layers);
    }
    x_ = Values(conv_.InputElements(), 1);
    w_ = Values(conv_.FilterElements(), 2);
    dy_ = Values(conv_.OutputElements(), 3);
  }
  // From the layout of the geometry to NHWC, and back.
  std::vector<float> Nhwc(const std::vector<float>& images, int64_t channels) {
    if (conv_.format == DataFormat::kNhwc) return images;
    std::vector<float> to(images.size());
    const int64_t pixels = static_cast<int64_t>(images.size()) / conv_.batch / channels;
    TransposeImages(images.data(), to.data(), conv_.batch, channels, pixels, sizeof(float));
    return to;
  }
  static void ExpectNear(const std::vector<float>& found, const std::vector<float>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], wanted[i], 2e-4 + 2e-5 * std::abs(wanted[i])) << "element " << i;
    }
  }

  Convolution conv_;
  std::vector<float> x_, w_, dy_;
  InlineRunner parallel_;
};

TEST_P(ConvolutionTest, ForwardIsThatOfThePlainLoop) {
  std::vector<float> y(dy_.size()), plain(dy_.size());
  ASSERT_TRUE(ConvolveFloat(conv_, x_.data(), w_.data(), nullptr, {}, y.data(), 1).ok());
  ConvolveDirect(conv_, Nhwc(x_, conv_.in_channels).data(), w_.data(), plain.data(), parallel_);
  ExpectNear(Nhwc(y, conv_.out_channels), plain);
}

TEST_P(ConvolutionTest, GradientOfTheInputIsThatOfThePlainLoop) {
  std::vector<float> dx(x_.size()), plain(x_.size());
  ASSERT_TRUE(ConvolveFloatToInput(conv_, w_.data(), dy_.data(), dx.data(), 1).ok());
  ConvolveDirectToInput(conv_, w_.data(), Nhwc(dy_, conv_.out_channels).data(), plain.data(),
                        parallel_);
  ExpectNear(Nhwc(dx, conv_.in_channels), plain);
}

TEST_P(ConvolutionTest, GradientOfTheFilterIsThatOfThePlainLoop) {
  std::vector<float> dw(w_.size()), plain(w_.size());
  ASSERT_TRUE(ConvolveFloatToFilter(conv_, x_.data(), dy_.data(), dw.data(), 1).ok());
  ConvolveDirectToFilter(conv_, Nhwc(x_, conv_.in_channels).data(),
                         Nhwc(dy_, conv_.out_channels).data(), plain.data(), parallel_);
  ExpectNear(dw, plain);
}

TEST_P(ConvolutionTest, BiasAndActivationAreThoseOfSeparateSteps) {
  const std::vector<float> bias = Values(conv_.out_channels, 4);
  std::vector<float> plain(dy_.size());
  ConvolveDirect(conv_, Nhwc(x_, conv_.in_channels).data(), w_.data(), plain.data(), parallel_);
  for (const ActivationKind kind :
       {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kRelu6, ActivationKind::kElu,
        ActivationKind::kLeakyRelu, ActivationKind::kTanh, ActivationKind::kSigmoid}) {
    const FusedActivation activation{kind, 0.3f};
    std::vector<float> y(dy_.size());
    ASSERT_TRUE(
        ConvolveFloat(conv_, x_.data(), w_.data(), bias.data(), activation, y.data(), 1).ok());
    std::vector<float> wanted = plain;
    AddBiasAndActivate(wanted.data(), static_cast<int64_t>(plain.size()) / conv_.out_channels,
                       conv_.out_channels, bias.data(), activation, parallel_);
    ExpectNear(Nhwc(y, conv_.out_channels), wanted);
  }
}

// Bit for bit, twice from the cache and with operands at odd addresses.
TEST_P(ConvolutionTest, ResultDoesNotDependOnAddresses) {
  std::vector<float> first(w_.size());
  ASSERT_TRUE(ConvolveFloatToFilter(conv_, x_.data(), dy_.data(), first.data(), 1).ok());
  std::vector<float> x(x_.size() + 5), dy(dy_.size() + 3), dw(w_.size() + 1);
  std::copy(x_.begin(), x_.end(), x.begin() + 5);
  std::copy(dy_.begin(), dy_.end(), dy.begin() + 3);
  ASSERT_TRUE(ConvolveFloatToFilter(conv_, x.data() + 5, dy.data() + 3, dw.data() + 1, 1).ok());
  EXPECT_EQ(std::memcmp(dw.data() + 1, first.data(), first.size() * sizeof(float)), 0);
}

// One node's filter, packed for two numbers of threads and two batches, in any order.
TEST_P(ConvolutionTest, APackedFilterChangesNoBit) {
  const Tensor source =
      Tensor::FromValues<float>(Shape({static_cast<int64_t>(w_.size())}), absl::MakeConstSpan(w_));
  PackedWeightsOptions options;
  options.source = InputSource::kConstant;
  options.allocator = HostAllocator();
  const auto forward = NewFilterCache(options);
  const auto to_input = NewFilterCache(options);
  const int64_t batches[] = {conv_.batch, 1};
  for (int round = 0; round < 3; ++round) {
    for (const int threads : {1, 2}) {
      for (const int64_t batch : batches) {
        conv_.batch = batch;
        const Filter kept(w_.data(), source, forward.get());
        std::vector<float> y(dy_.size()), with(dy_.size());
        ASSERT_TRUE(
            ConvolveFloat(conv_, x_.data(), w_.data(), nullptr, {}, y.data(), threads).ok());
        ASSERT_TRUE(ConvolveFloat(conv_, x_.data(), kept, nullptr, {}, with.data(), threads).ok());
        EXPECT_EQ(y, with);
        const Filter back(w_.data(), source, to_input.get());
        std::vector<float> dx(x_.size()), dx_with(x_.size());
        ASSERT_TRUE(ConvolveFloatToInput(conv_, w_.data(), dy_.data(), dx.data(), threads).ok());
        ASSERT_TRUE(ConvolveFloatToInput(conv_, back, dy_.data(), dx_with.data(), threads).ok());
        EXPECT_EQ(dx, dx_with);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, ConvolutionTest, ::testing::ValuesIn(kGeometries),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ConvolveDirect, OverflowOfIntegersWrapsAround) {
  Convolution conv;
  conv.batch = conv.in_channels = conv.out_channels = 1;
  conv.height = conv.width = {1, 1, 1, 1, 1, 0, 0};
  const int32_t x = 1 << 30;
  const int32_t w = 4;
  int32_t y = 1;
  InlineRunner parallel;
  ConvolveDirect(conv, &x, &w, &y, parallel);
  EXPECT_EQ(y, 0);
}

}  // namespace
}  // namespace tandem
