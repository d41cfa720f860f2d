// ImageFiles, ReadImages, DecodeImages and ResizeBilinear.
#include "runtime/input/image_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "core/io/image.h"
#include "core/io/testing/mutations.h"
#include "nlohmann/json.hpp"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"
#include "runtime/input/resize.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// [height, width, 3] in one colour.
Tensor Colour(int64_t height, int64_t width, uint8_t red, uint8_t green, uint8_t blue) {
  Tensor image(kUint8, {height, width, 3});
  const absl::Span<uint8_t> out = image.MutableElements<uint8_t>();
  for (size_t i = 0; i < out.size(); i += 3) {
    out[i] = red;
    out[i + 1] = green;
    out[i + 2] = blue;
  }
  return image;
}

void MakeFolder(const std::string& path) {
  ASSERT_TRUE(PosixFileSystem()->MakeDirectories(path).ok());
}

// Two classes, cat with two images and dog with one, and things that are no images.
std::string ImageFolder() {
  const std::string folder = testing::TempDir() + "/pets";
  for (const char* name : {"/dog/old", "/cat", "/.git", "/none"}) MakeFolder(folder + name);
  WriteFile("pets/cat/b.PNG", *EncodePng(Colour(2, 2, 255, 0, 0)));
  WriteFile("pets/cat/a.jpg", *EncodeJpeg(Colour(8, 8, 100, 100, 100)));
  WriteFile("pets/cat/.hidden.png", "");
  WriteFile("pets/cat/notes.txt", "");
  WriteFile("pets/dog/old/c.png", *EncodePng(Colour(4, 2, 0, 51, 255)));
  WriteFile("pets/readme.png", "");
  return folder;
}

TEST(ImageFilesTest, SubFoldersAreClasses) {
  const std::string folder = ImageFolder();
  EXPECT_THAT(*ImageClasses(folder), ElementsAre("cat", "dog", "none"));
  EXPECT_THAT(All(Dataset::ImageFiles(folder)),
              ElementsAre(absl::StrCat("string[] = \"", folder, "/cat/a.jpg\"; int64[] = 0"),
                          absl::StrCat("string[] = \"", folder, "/cat/b.PNG\"; int64[] = 0"),
                          absl::StrCat("string[] = \"", folder, "/dog/old/c.png\"; int64[] = 1")));
  ExpectSameAfterRestoreEverywhere(Dataset::ImageFiles(folder).Shuffle(10, 1));
}

TEST(ImageFilesTest, FoldersWithoutImagesAreRefused) {
  const std::string folder = testing::TempDir() + "/bare";
  EXPECT_EQ(OpenStatus(Dataset::ImageFiles(folder + "/missing")).code(),
            absl::StatusCode::kNotFound);
  MakeFolder(folder);
  EXPECT_THAT(std::string(OpenStatus(Dataset::ImageFiles(folder)).message()),
              AllOf(HasSubstr("ImageFiles: "), HasSubstr("has no sub-folders")));
  MakeFolder(folder + "/class");
  EXPECT_THAT(std::string(OpenStatus(Dataset::ImageFiles(folder)).message()),
              HasSubstr("no image lies in its 1 sub-folders"));
}

TEST(ImageFilesTest, LinksThatLeadBackAreAnErrorAndNoEndlessWalk) {
  const std::string folder = testing::TempDir() + "/circle";
  MakeFolder(folder + "/class");
  const std::string link = folder + "/class/again";
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink(folder, link);
  EXPECT_THAT(std::string(OpenStatus(Dataset::ImageFiles(folder)).message()),
              HasSubstr("lies more than 16 folders deep"));
}

TEST(ReadImagesTest, GivesBatchesOfOneSize) {
  const Dataset images = Dataset::ImageFiles(ImageFolder());
  const auto iterator =
      images.ReadImages({.height = 2, .width = 3, .dtype = kUint8}).Batch(3).Open();
  ASSERT_TRUE(iterator.ok());
  const auto batch = (*iterator)->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  const Element& element = **batch;
  EXPECT_EQ(element[0].shape(), Shape({3, 2, 3, 3}));
  const absl::Span<const uint8_t> values = element[0].Elements<uint8_t>();
  EXPECT_THAT(values.subspan(0, 3), ElementsAre(100, 100, 100));
  EXPECT_THAT(values.subspan(18, 3), ElementsAre(255, 0, 0));
  EXPECT_THAT(values.subspan(36, 3), ElementsAre(0, 51, 255));
  EXPECT_THAT(element[1].Elements<int64_t>(), ElementsAre(0, 0, 1));
}

TEST(ReadImagesTest, ValuesAreFromZeroToOneUnlessBytesAreWanted) {
  const Dataset dog = Dataset::ImageFiles(ImageFolder()).Skip(2);
  for (const int64_t side : {0, 1}) {
    const auto iterator = dog.ReadImages({.height = side, .width = side}).Open();
    const auto element = (*iterator)->Next();
    ASSERT_TRUE(element.ok()) << element.status();
    const Tensor& image = (**element)[0];
    EXPECT_EQ(image.dtype(), kFloat32);
    EXPECT_EQ(image.shape(), side == 0 ? Shape({4, 2, 3}) : Shape({1, 1, 3}));
    EXPECT_THAT(image.Elements<float>().subspan(0, 3),
                ElementsAre(0.0f, testing::FloatEq(0.2f), 1.0f));
  }
}

TEST(ReadImagesTest, TheOrderIsTheInputsAndEveryPositionCanBeRestored) {
  const Dataset images = Dataset::ImageFiles(ImageFolder()).Shuffle(10, 3).Repeat(5);
  const auto read = [&](int threads) {
    return images.ReadImages({.height = 1, .width = 2, .threads = threads});
  };
  EXPECT_EQ(All(read(1)).size(), 15u);
  EXPECT_EQ(All(read(1)), All(read(4)));
  ExpectSameAfterRestoreEverywhere(read(1));
  ExpectSameAfterRestoreEverywhere(read(3));
}

TEST(ReadImagesTest, AnErrorHasIndexAndFileAndTheNextImageFollows) {
  const std::string folder = testing::TempDir() + "/torn";
  MakeFolder(folder + "/x");
  std::string bytes = *EncodePng(Colour(20, 20, 1, 2, 3));
  bytes.resize(bytes.size() / 2);
  WriteFile("torn/x/a.png", bytes);
  WriteFile("torn/x/b.png", *EncodePng(Colour(1, 1, 255, 255, 255)));
  const auto iterator = Dataset::ImageFiles(folder).ReadImages().Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_THAT(Rest(**iterator),
              ElementsAre(AllOf(HasSubstr("error: "), HasSubstr("ReadImages: element 0: "),
                                HasSubstr("/torn/x/a.png: "))));
  EXPECT_THAT(Rest(**iterator), ElementsAre("float32[1,1,3] = 1 1 1; int64[] = 0"));
  EXPECT_THAT(
      std::string(FirstError(Dataset::Range(1).ReadImages()).message()),
      HasSubstr("element 0: its first component is int64[]; expected one string, an image's "
                "path"));
}

TEST(ReadImagesTest, ACancelledIteratorGivesNothingMore) {
  const auto iterator =
      Dataset::ImageFiles(ImageFolder()).Repeat().ReadImages({.threads = 2}).Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  (*iterator)->Cancel();
  EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
}

TEST(ReadImagesTest, ImpossibleOptionsAreRefused) {
  const auto error = [](ImageOptions options) {
    const absl::Status status = OpenStatus(Dataset::Range(1).ReadImages(options));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.height = 3}), HasSubstr("the size is 3x0"));
  EXPECT_THAT(error({.height = -1, .width = 4}), HasSubstr("the size is -1x4"));
  EXPECT_THAT(error({.channels = 2}), HasSubstr("channels is 2"));
  EXPECT_THAT(error({.dtype = kInt64}), HasSubstr("the type is int64"));
}

TEST(DecodeImagesTest, DecodesBytesAndDamagedOnesNeverCrash) {
  const std::string png = *EncodePng(Colour(5, 4, 10, 20, 30));
  const auto decode = [](const std::string& bytes) {
    return All(Dataset::FromTensors({Tensor::Vector<std::string>({bytes})})
                   .DecodeImages({.height = 1, .width = 1, .dtype = kUint8, .threads = 1}));
  };
  EXPECT_THAT(decode(png), ElementsAre("uint8[1,1,3] = 10 20 30"));
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string result = decode(Mutate(png, random))[0];
    EXPECT_TRUE(absl::StartsWith(result, "uint8[1,1,3] = ") ||
                absl::StrContains(result, "DecodeImages: element 0: "))
        << result;
  }
}

TEST(ResizeTest, ValuesAreTensorFlows) {
  std::ifstream file("runtime/input/testdata/resize_values.json");
  const nlohmann::json values = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(values.is_discarded());
  ASSERT_GE(values["cases"].size(), 6u);
  for (const nlohmann::json& c : values["cases"]) {
    const auto shape = c["shape"].get<std::vector<int64_t>>();
    const auto bytes = c["image"].get<std::vector<uint8_t>>();
    const std::vector<float> floats(bytes.begin(), bytes.end());
    const auto expected = c["resized"].get<std::vector<float>>();
    for (const Tensor& image :
         {Tensor::FromValues<uint8_t>(Shape(shape), absl::MakeConstSpan(bytes)),
          Tensor::FromValues<float>(Shape(shape), absl::MakeConstSpan(floats))}) {
      const auto resized = ResizeBilinear(image, c["size"][0], c["size"][1]);
      ASSERT_TRUE(resized.ok()) << resized.status();
      EXPECT_EQ(resized->shape(), Shape({c["size"][0], c["size"][1], shape[2]}));
      const absl::Span<const float> found = resized->Elements<float>();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
    }
  }
}

TEST(ResizeTest, WhatCannotBeResizedIsRefused) {
  const auto code = [](const Tensor& image, int64_t height, int64_t width) {
    return ResizeBilinear(image, height, width).status().code();
  };
  const Tensor image(kUint8, {2, 2, 1});
  EXPECT_EQ(code(image, 0, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(image, 1, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(image, int64_t{1} << 40, int64_t{1} << 40), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor(kUint8, {2, 0, 1}), 1, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor(kUint8, {2, 2}), 1, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor(kInt32, {2, 2, 1}), 1, 1), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::data
