// Idx and Mnist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kMnist[] = "tools/datasets/mnist";

// A folder with the two training files.
std::string MnistFolder(const std::string& name, absl::string_view images,
                        absl::string_view labels) {
  std::filesystem::create_directories(testing::TempDir() + "/" + name);
  WriteFile(name + "/train-images-idx3-ubyte", images);
  WriteFile(name + "/train-labels-idx1-ubyte", labels);
  return testing::TempDir() + "/" + name;
}

std::string Images(uint32_t count) {
  return IdxBytes(0x803, {count, 28, 28}, std::string(count * 784, '\x33'));
}
std::string Labels(absl::string_view values) {
  return IdxBytes(0x801, {static_cast<uint32_t>(values.size())}, values);
}

void ExpectOpenError(const Dataset& dataset, absl::StatusCode code, absl::string_view message) {
  const absl::Status status = OpenStatus(dataset);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(message)));
}

TEST(IdxTest, ReadsTheTypesInTheirByteOrder) {
  const std::string bytes = WriteFile("u8.idx", IdxBytes(0x0802, {2, 2}, "\x01\x02\xff\x04"));
  const std::string words = WriteFile(
      "i16.idx.gz", Gzip(IdxBytes(0x0b01, {2}, absl::string_view("\xff\xfe\x01\x02", 4))));
  const std::string floats = WriteFile(
      "f32.idx", IdxBytes(0x0d01, {2}, absl::string_view("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8)));
  // One path without its ending .gz.
  const std::string without = words.substr(0, words.size() - 3);
  EXPECT_THAT(All(Dataset::Idx({bytes, without, floats})),
              ElementsAre("uint8[2] = 1 2; int16[] = -2; float32[] = 1",
                          "uint8[2] = 255 4; int16[] = 258; float32[] = -2"));
}

TEST(IdxTest, EveryPositionCanBeRestored) {
  const std::string path = WriteFile("u8.idx", IdxBytes(0x0801, {5}, "abcde"));
  ExpectSameAfterRestoreEverywhere(Dataset::Idx({path}).Shuffle(5, 1).Batch(2));
}

TEST(IdxTest, DamagedFilesAreRefusedWithOffsetFoundAndExpected) {
  const auto expect = [](absl::string_view contents, absl::StatusCode code,
                         absl::string_view message) {
    ExpectOpenError(Dataset::Idx({WriteFile("bad.idx", contents)}), code, message);
  };
  const auto loss = absl::StatusCode::kDataLoss;
  const auto invalid = absl::StatusCode::kInvalidArgument;
  expect("", loss, "bad.idx, offset 0: found 0 bytes, expected 4 (the magic number)");
  expect(absl::string_view("\0\0\x08\x02\0\0", 6), loss,
         "bad.idx, offset 4: found 2 bytes, expected 8 (the sizes)");
  expect(IdxBytes(0x0802, {3, 2}, "abcde"), loss,
         "bad.idx, offset 12: found 5 bytes, expected 6 (uint8[3,2] by the sizes at offset 4)");
  expect(IdxBytes(0x0802, {3, 2}, "abcdefg"), loss, "bad.idx, offset 18: found more bytes");
  expect("PNG and so on", invalid, "bad.idx, offset 0: found 0x504e4720, expected the magic");
  expect(IdxBytes(0x0f01, {1}, "a"), invalid, "offset 0: found 0x00000f01");
  expect(IdxBytes(0x0800, {}, "a"), invalid, "offset 0: found 0x00000800");
  expect(IdxBytes(0x0803, {0, 28, 28}, ""), invalid, "the data set is empty");
  expect(IdxBytes(0x0804, {0xffffffff, 0xffffffff, 0xffffffff, 1}, ""), invalid,
         "offset 4: found sizes whose product");
  // Says that it has 4 GiB: refused, without taking the memory.
  expect(IdxBytes(0x0801, {0xffffffff}, "abc"), loss,
         "offset 8: found 3 bytes, expected 4294967295");
  const std::string packed = Gzip(Images(20));
  expect(packed.substr(0, packed.size() / 2), loss, "the file is cut off");
  // All values are there, but not the checksum behind them.
  expect(packed.substr(0, packed.size() - 5), loss, "offset 15696: the contents end too early");
}

TEST(IdxTest, AMissingFileIsNotFound) {
  ExpectOpenError(Dataset::Idx({testing::TempDir() + "/none.idx"}), absl::StatusCode::kNotFound,
                  "/none.idx: there is no such file, nor one with the ending .gz");
  ExpectOpenError(Dataset::Idx({}), absl::StatusCode::kInvalidArgument, "no files were given");
}

TEST(IdxTest, FilesOfDifferentLengthsAreRefused) {
  const std::string one = WriteFile("3.idx", IdxBytes(0x0801, {3}, "abc"));
  const std::string two = WriteFile("2.idx", IdxBytes(0x0801, {2}, "ab"));
  ExpectOpenError(Dataset::Idx({one, two}), absl::StatusCode::kInvalidArgument,
                  "2.idx, offset 4: found 2 items, expected 3");
}

TEST(MnistTest, ReadsTheSetInTheSourceTree) {
  const Dataset test = Mnist(kMnist, {.split = MnistSplit::kTest});
  ASSERT_TRUE(OpenStatus(test).ok()) << OpenStatus(test);
  EXPECT_EQ(*test.Cardinality(), 10000);
  const Element batch = **(*test.Batch(64).Open())->Next();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].dtype(), kFloat32);
  EXPECT_EQ(batch[0].shape(), Shape({64, 28, 28, 1}));
  EXPECT_EQ(batch[1].dtype(), kInt64);
  EXPECT_EQ(batch[1].shape(), Shape({64}));
  EXPECT_EQ(batch[1].Elements<int64_t>()[0], 7);
  float greatest = 0;
  for (const float pixel : batch[0].Elements<float>()) {
    EXPECT_GE(pixel, 0);
    greatest = std::max(greatest, pixel);
  }
  EXPECT_EQ(greatest, 1.0f);
  // Alone an image has the same bits as in a batch.
  const Element one = **(*test.Open())->Next();
  EXPECT_EQ(one[0].shape(), Shape({28, 28, 1}));
  EXPECT_EQ(one[0].Elements<float>(), batch[0].Elements<float>().subspan(0, 784));
  EXPECT_EQ(*Mnist(kMnist).Cardinality(), 60000);
}

TEST(MnistTest, LabelsMayBeInt32) {
  const std::string folder = MnistFolder("int32", Images(2), Labels("\x03\x09"));
  const Element batch = **(*Mnist(folder, {.label_type = kInt32}).Batch(2).Open())->Next();
  EXPECT_EQ(batch[1].DebugString(), "int32[2] = 3 9");
  EXPECT_EQ(batch[0].Elements<float>()[0], 0.2f);
  ExpectOpenError(Mnist(folder, {.label_type = kFloat32}), absl::StatusCode::kInvalidArgument,
                  "the type of labels is float32");
}

TEST(MnistTest, MislabelledAndDamagedFilesAreRefused) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectOpenError(Mnist(MnistFolder("swapped", Labels("\x01\x02"), Images(2))), invalid,
                  "train-images-idx3-ubyte, offset 0: found the magic number 0x00000801, expected "
                  "0x00000803 (images: uint8, 3 dimensions)");
  ExpectOpenError(Mnist(MnistFolder("cut", Images(2).substr(0, 1000), Labels("\x01\x02"))),
                  absl::StatusCode::kDataLoss,
                  "train-images-idx3-ubyte, offset 16: found 984 bytes, expected 1568");
  ExpectOpenError(Mnist(MnistFolder("fewer", Images(3), Labels("\x01\x02"))), invalid,
                  "train-labels-idx1-ubyte, offset 4: found 2 labels, expected 3");
  ExpectOpenError(Mnist(MnistFolder("label", Images(2), Labels("\x01\x0a"))), invalid,
                  "train-labels-idx1-ubyte, offset 9: found the label 10, expected 0 to 9");
  ExpectOpenError(Mnist(MnistFolder("size", IdxBytes(0x803, {1, 2, 2}, "abcd"), Labels("\x01"))),
                  invalid, "offset 8: found images of 2x2, expected 28x28");
}

TEST(MnistTest, AMissingFolderSaysWhatToDo) {
  ExpectOpenError(Mnist(testing::TempDir() + "/nowhere"), absl::StatusCode::kNotFound,
                  "nowhere/train-images-idx3-ubyte: there is no such file");
  ExpectOpenError(Mnist(testing::TempDir() + "/nowhere"), absl::StatusCode::kNotFound,
                  "the source tree has them in tools/datasets/mnist");
}

}  // namespace
}  // namespace tandem::data
