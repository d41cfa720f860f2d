// Npy and Npz.
#include "core/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/io/npz.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string WriteArray(const std::string& name, const Tensor& tensor) {
  return WriteFile(name, *SerializeNpy(tensor));
}

std::string WriteArrays(const std::string& name, const std::vector<NamedArray>& arrays) {
  const std::string path = WriteFile(name, "");
  const absl::Status written = WriteNpz(PosixFileSystem(), path, arrays, /*compress=*/true);
  EXPECT_TRUE(written.ok()) << written;
  return path;
}

const Tensor& Images() {
  static const Tensor& images = *new Tensor(Tensor::FromValues<float>({3, 2}, {0, 1, 2, 3, 4, 5}));
  return images;
}
const Tensor& Labels() {
  static const Tensor& labels = *new Tensor(Tensor::Vector<int64_t>({7, 8, 9}));
  return labels;
}

TEST(NpyTest, GivesRowsOfEachArray) {
  const Dataset dataset =
      Dataset::Npy({WriteArray("images.npy", Images()), WriteArray("labels.npy", Labels())});
  EXPECT_THAT(All(dataset),
              ElementsAre("float32[2] = 0 1; int64[] = 7", "float32[2] = 2 3; int64[] = 8",
                          "float32[2] = 4 5; int64[] = 9"));
  EXPECT_EQ(*dataset.Cardinality(), 3);
  ExpectSameAfterRestoreEverywhere(dataset.Shuffle(2, 1).Batch(2));
}

TEST(NpyTest, ErrorsNameTheFile) {
  const std::string labels = WriteArray("labels.npy", Labels());
  const auto error = [](std::vector<std::string> paths) {
    const absl::Status status = OpenStatus(Dataset::Npy(std::move(paths)));
    EXPECT_FALSE(status.ok());
    return status.ToString();
  };
  EXPECT_THAT(error({}), HasSubstr("no files were given"));
  EXPECT_THAT(error({testing::TempDir() + "/missing.npy"}),
              AllOf(HasSubstr("NOT_FOUND: Npy: "), HasSubstr("missing.npy")));
  EXPECT_THAT(error({WriteFile("cut.npy", SerializeNpy(Labels())->substr(0, 100))}),
              AllOf(HasSubstr("INVALID_ARGUMENT: Npy: "), HasSubstr("cut.npy")));
  EXPECT_THAT(error({WriteArray("scalar.npy", Tensor::Scalar<float>(1))}),
              AllOf(HasSubstr("scalar.npy"), HasSubstr("at least one row")));
  EXPECT_THAT(error({labels, WriteArray("two.npy", Tensor::Vector<float>({1, 2}))}),
              AllOf(HasSubstr("two.npy"), HasSubstr("found 2 rows, expected 3")));
}

TEST(NpyTest, APositionInAnArrayOfAnotherLengthIsRefused) {
  const std::string path = WriteArray("short.npy", Labels());
  const auto iterator = Dataset::Npy({path}).Open();
  ASSERT_TRUE((*iterator)->Next().ok());
  const std::string state = *(*iterator)->SaveState();
  WriteArray("short.npy", Tensor::Vector<int64_t>({7, 8}));
  const auto other = Dataset::Npy({path}).Open();
  EXPECT_THAT(std::string((*other)->RestoreState(state).message()),
              HasSubstr("is of other data (3 rows, here 2)"));
}

TEST(NpzTest, GivesRowsOfTheArraysThatAreNamed) {
  const std::string path = WriteArrays("set.npz", {{"x", Images()}, {"y", Labels()}});
  EXPECT_THAT(All(Dataset::Npz(path, {"y", "x"}).Take(1)),
              ElementsAre("int64[] = 7; float32[2] = 0 1"));
  EXPECT_THAT(All(Dataset::Npz(path).Skip(2)), ElementsAre("float32[2] = 4 5; int64[] = 9"));
  ExpectSameAfterRestoreEverywhere(Dataset::Npz(path).Shuffle(2, 1));
}

TEST(NpzTest, ErrorsNameFileAndArray) {
  const std::string path =
      WriteArrays("odd.npz", {{"x", Images()}, {"two", Tensor::Vector<float>({1, 2})}});
  const auto error = [](const Dataset& dataset) { return OpenStatus(dataset).ToString(); };
  EXPECT_THAT(error(Dataset::Npz(path)),
              AllOf(HasSubstr("odd.npz: 'two'"), HasSubstr("found 2 rows, expected 3")));
  EXPECT_THAT(error(Dataset::Npz(path, {"z"})),
              AllOf(HasSubstr("NOT_FOUND: Npz: "), HasSubstr("z")));
  EXPECT_THAT(error(Dataset::Npz(WriteFile("no.npz", "PK"))),
              AllOf(HasSubstr("INVALID_ARGUMENT: Npz: "), HasSubstr("no.npz")));
}

}  // namespace
}  // namespace tandem::data
