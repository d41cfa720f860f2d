#include "core/io/image.h"

#include <cstdlib>
#include <fstream>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/io/testing/mutations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;
using Json = nlohmann::json;

template <typename Result>
void ExpectError(const absl::StatusOr<Result>& result, const Matcher<std::string>& message,
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), message);
}

Tensor Noise(DataType dtype, Shape shape) {
  std::mt19937_64 random(1);
  Tensor image(dtype, std::move(shape));
  char* const bytes = static_cast<char*>(image.mutable_data());
  for (size_t i = 0; i < image.num_bytes(); ++i) bytes[i] = static_cast<char>(random());
  return image;
}

// Colours that change slowly, which JPEG keeps.
Tensor Smooth(int64_t height, int64_t width, int64_t channels) {
  Tensor image(kUint8, {height, width, channels});
  uint8_t* out = image.MutableElements<uint8_t>().data();
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        *out++ = static_cast<uint8_t>(x * 150 / width + y * 50 / height + c * 20);
      }
    }
  }
  return image;
}

int64_t LargestDifference(const Tensor& a, const Tensor& b) {
  int64_t largest = 0;
  for (size_t i = 0; i < a.Elements<uint8_t>().size(); ++i) {
    largest =
        std::max<int64_t>(largest, std::abs(a.Elements<uint8_t>()[i] - b.Elements<uint8_t>()[i]));
  }
  return largest;
}

// The file that testdata/make_image_values.py wrote.
const Json& TensorFlowCases() {
  static const Json* const cases = [] {
    std::ifstream file("core/io/testdata/image_values.json");
    return new Json(Json::parse(file)["cases"]);
  }();
  return *cases;
}

TEST(Image, HasThePixelsOfTensorFlow) {
  EXPECT_GT(TensorFlowCases().size(), 150u);
  for (const Json& json : TensorFlowCases()) {
    const std::string file = absl::HexStringToBytes(json["file"].get<std::string>());
    DecodeImageOptions options;
    options.channels = json["channels"];
    options.dtype = *ParseDataType(json["dtype"].get<std::string>());
    const absl::StatusOr<Tensor> image = DecodeImage(file, options);
    const std::string what = json["name"].get<std::string>() + ", " + json["channels"].dump() +
                             " channels, " + json["dtype"].dump();
    ASSERT_TRUE(image.ok()) << what << ": " << image.status();
    ASSERT_EQ(image->shape(), Shape(json["shape"].get<std::vector<int64_t>>())) << what;
    if (options.dtype == kUint16) {
      const auto expected = json["pixels"].get<std::vector<uint16_t>>();
      EXPECT_EQ(image->Elements<uint16_t>(), absl::MakeConstSpan(expected)) << what;
    } else {
      const auto expected = json["pixels"].get<std::vector<uint8_t>>();
      EXPECT_EQ(image->Elements<uint8_t>(), absl::MakeConstSpan(expected)) << what;
    }
  }
}

TEST(Image, PngKeepsEveryPixel) {
  for (const DataType dtype : {kUint8, kUint16}) {
    for (int64_t channels = 1; channels <= 4; ++channels) {
      for (const int compression : {-1, 0, 9}) {
        const Tensor image = Noise(dtype, {7, 13, channels});
        const absl::StatusOr<std::string> file = EncodePng(image, compression);
        ASSERT_TRUE(file.ok()) << file.status();
        const absl::StatusOr<Tensor> back = DecodePng(*file, {.dtype = dtype});
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_EQ(back->DebugString(1000), image.DebugString(1000));
      }
    }
  }
}

TEST(Image, JpegComesCloseAndCloserWithQuality) {
  for (const int64_t channels : {1, 3}) {
    const Tensor image = Smooth(40, 60, channels);
    const absl::StatusOr<std::string> good = EncodeJpeg(image, 100), bad = EncodeJpeg(image, 5);
    ASSERT_TRUE(good.ok() && bad.ok()) << good.status() << bad.status();
    EXPECT_LT(bad->size(), good->size());
    const absl::StatusOr<Tensor> back = DecodeJpeg(*good), rough = DecodeJpeg(*bad);
    ASSERT_TRUE(back.ok() && rough.ok()) << back.status() << rough.status();
    ASSERT_EQ(back->shape(), image.shape());
    // Rounding to whole levels, twice, in two colour spaces.
    EXPECT_LE(LargestDifference(*back, image), 4);
    EXPECT_LT(LargestDifference(*back, image), LargestDifference(*rough, image));
  }
}

// Large enough for several buffers and restarts of the library's own loops.
TEST(Image, LargeImagesComeBack) {
  const Tensor image = Noise(kUint8, {300, 500, 3});
  EXPECT_EQ(DecodePng(*EncodePng(image))->Elements<uint8_t>(), image.Elements<uint8_t>());
  const Tensor smooth = Smooth(2000, 1000, 3);
  EXPECT_LE(LargestDifference(*DecodeJpeg(*EncodeJpeg(smooth)), smooth), 12);
}

TEST(Image, ATruncatedFileIsNamedSo) {
  const std::string png = *EncodePng(Noise(kUint8, {20, 20, 3}));
  const std::string jpeg = *EncodeJpeg(Noise(kUint8, {20, 20, 3}));
  for (size_t size = 8; size < png.size(); ++size) {
    ExpectError(DecodePng(absl::string_view(png).substr(0, size)), HasSubstr("truncated"));
  }
  for (size_t size = 8; size < jpeg.size(); ++size) {
    ExpectError(DecodeJpeg(absl::string_view(jpeg).substr(0, size)), HasSubstr("truncated"));
  }
}

TEST(Image, DamageIsFoundByTheFormatsOwnChecks) {
  std::string png = *EncodePng(Noise(kUint8, {20, 20, 3}));
  png[png.size() / 2] ^= 1;
  ExpectError(DecodePng(png), AllOf(HasSubstr("damaged"), HasSubstr("IDAT")));
  ExpectError(DecodePng(png.substr(1)), HasSubstr("not a PNG"));
  ExpectError(DecodeJpeg(png), HasSubstr("not a JPEG"));
  ExpectError(DecodePng(""), HasSubstr("truncated"));
  ExpectError(DecodeJpeg(""), HasSubstr("JPEG"));
  // What follows an image is nobody's business.
  EXPECT_TRUE(DecodePng(*EncodePng(Noise(kUint8, {2, 2, 3})) + "more").ok());
  EXPECT_TRUE(DecodeJpeg(*EncodeJpeg(Noise(kUint8, {2, 2, 3})) + "more").ok());
}

TEST(Image, OtherKindsOfFilesAreNamed) {
  ExpectError(DecodeImage("GIF89a..."), HasSubstr("GIF"), absl::StatusCode::kUnimplemented);
  ExpectError(DecodeImage("BM......"), HasSubstr("BMP"), absl::StatusCode::kUnimplemented);
  ExpectError(DecodeImage("hello"), AllOf(HasSubstr("5 bytes"), HasSubstr("hello")));
  ExpectError(DecodeImage(""), HasSubstr("0 bytes"));
}

TEST(Image, SizesAreCheckedBeforeMemoryIsTaken) {
  const std::string png = *EncodePng(Noise(kUint8, {100, 100, 3}));
  const std::string jpeg = *EncodeJpeg(Noise(kUint8, {100, 100, 3}));
  const int64_t peak = HostAllocator()->stats().peak_bytes;
  ExpectError(DecodePng(png, {.max_bytes = 29999}), HasSubstr("29999"),
              absl::StatusCode::kResourceExhausted);
  ExpectError(DecodePng(png, {.channels = 4, .max_bytes = 30000}), HasSubstr("30000"),
              absl::StatusCode::kResourceExhausted);
  ExpectError(DecodeJpeg(jpeg, {.max_bytes = 29999}), HasSubstr("[100,100,3]"),
              absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(DecodePng(png, {.max_bytes = 30000}).ok());
  EXPECT_TRUE(DecodeJpeg(jpeg, {.max_bytes = 30000}).ok());

  // Headers that promise 2^31-1 by 2^31-1 and, within the limit, 10000 by 10000 pixels.
  const std::string huge = absl::HexStringToBytes(
      "89504e470d0a1a0a0000000d494844527fffffff7fffffff080600000014c90b660000000049444154"
      "35af061e");
  ExpectError(DecodePng(huge), HasSubstr("2147483647 by 2147483647"),
              absl::StatusCode::kResourceExhausted);
  const std::string large = absl::HexStringToBytes(
      "89504e470d0a1a0a0000000d4948445200002710000027100802000000352cf5700000000049444154"
      "35af061e");
  ExpectError(DecodePng(large), HasSubstr("cannot hold the pixels"));
  std::string wide = jpeg;
  const size_t frame = wide.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  wide.replace(frame + 5, 4, "\x3a\x98\x2a\xf8");
  ExpectError(DecodeJpeg(wide), AllOf(HasSubstr("[15000,11000,3]"), HasSubstr("cannot hold")));
  EXPECT_LE(HostAllocator()->stats().peak_bytes, std::max(peak, int64_t{1} << 17));
}

TEST(Image, OptionsAndTensorsAreChecked) {
  const std::string png = *EncodePng(Noise(kUint8, {2, 2, 3}));
  const std::string jpeg = *EncodeJpeg(Noise(kUint8, {2, 2, 3}));
  ExpectError(DecodePng(png, {.channels = 5}), HasSubstr("found 5"));
  ExpectError(DecodePng(png, {.dtype = kFloat32}), HasSubstr("float32"));
  ExpectError(DecodeJpeg(jpeg, {.channels = 4}), HasSubstr("found 4"));
  ExpectError(DecodeJpeg(jpeg, {.dtype = kUint16}), HasSubstr("uint16"));
  ExpectError(EncodePng(Tensor()), HasSubstr("no tensor"));
  ExpectError(EncodePng(Tensor::Zeros(kUint8, {2, 2})), HasSubstr("uint8[2,2]"));
  ExpectError(EncodePng(Tensor::Zeros(kUint8, {2, 2, 5})), HasSubstr("[2,2,5]"));
  ExpectError(EncodePng(Tensor::Zeros(kUint8, {0, 2, 3})), HasSubstr("[0,2,3]"));
  ExpectError(EncodePng(Tensor::Zeros(kFloat32, {2, 2, 3})), HasSubstr("float32"));
  ExpectError(EncodePng(Tensor::Zeros(kUint8, {2, 2, 3}), 10), HasSubstr("found 10"));
  ExpectError(EncodeJpeg(Tensor::Zeros(kUint8, {2, 2, 4})), HasSubstr("[2,2,4]"));
  ExpectError(EncodeJpeg(Tensor::Zeros(kUint16, {2, 2, 3})), HasSubstr("uint16"));
  ExpectError(EncodeJpeg(Tensor::Zeros(kUint8, {65501, 1, 1})), HasSubstr("65500"));
  ExpectError(EncodeJpeg(Tensor::Zeros(kUint8, {2, 2, 3}), 101), HasSubstr("found 101"));
}

// Every file of TensorFlow's, damaged in many ways.
TEST(Image, DamagedFilesNeverDoHarm) {
  std::mt19937_64 random(1);
  int read = 0, refused = 0;
  const int64_t before = HostAllocator()->stats().live_bytes;
  for (const Json& json : TensorFlowCases()) {
    const std::string file = absl::HexStringToBytes(json["file"].get<std::string>());
    for (int i = 0; i < 60; ++i) {
      const std::string damaged = Mutate(file, random);
      DecodeImageOptions options;
      options.channels = json["channels"];
      options.max_bytes = 1 << 20;
      ++(DecodeImage(damaged, options).ok() ? read : refused);
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before);
}

}  // namespace
}  // namespace tandem
