// Files and InterleaveFiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "proto/input.pb.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

std::string Text(absl::string_view text) { return absl::StrCat("string[] = \"", text, "\""); }

// A fresh folder below this test's own.
std::string Folder(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  EXPECT_TRUE(PosixFileSystem()->MakeDirectories(path).ok());
  const auto names = PosixFileSystem()->ListDirectory(path);
  EXPECT_TRUE(names.ok()) << names.status();
  for (const std::string& old : *names) {
    EXPECT_TRUE(PosixFileSystem()->Remove(JoinPath(path, old)).ok());
  }
  return path;
}

// `count` files of `lines` lines "<file>.<line>".
std::string TextFolder(const std::string& name, int count, int lines) {
  const std::string folder = Folder(name);
  for (int file = 0; file < count; ++file) {
    std::string contents;
    for (int line = 0; line < lines; ++line) absl::StrAppend(&contents, file, ".", line, "\n");
    WriteFile(absl::StrCat(name, "/f", file, ".txt"), contents);
  }
  return folder;
}

TEST(FilesTest, GivesWhatMatchesInOrderAndOnce) {
  const std::string folder = TextFolder("order", 3, 1);
  WriteFile("order/other.csv", "");
  WriteFile("order/[1].txt", "");
  EXPECT_THAT(
      All(Dataset::Files({folder + "/f[12].txt", folder + "/f*", folder + "/f1.txt"})),
      ElementsAre(Text(folder + "/f0.txt"), Text(folder + "/f1.txt"), Text(folder + "/f2.txt")));
  EXPECT_THAT(All(Dataset::Files({folder + "/[1].txt"})), ElementsAre(Text(folder + "/[1].txt")));
  EXPECT_EQ(*Dataset::Files({folder + "/*"}).Cardinality(), 5);
  // A folder is no file.
  const std::string above = DirectoryOf(folder);
  EXPECT_EQ(OpenStatus(Dataset::Files({above + "/ord?r"})).code(), absl::StatusCode::kNotFound);
}

TEST(FilesTest, APatternWithoutFilesIsNamed) {
  const std::string folder = TextFolder("one_file", 1, 1);
  const absl::Status status = OpenStatus(Dataset::Files({folder + "/*", folder + "/*.png"}));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("Files: no file matches '", folder, "/*.png'")));
  EXPECT_EQ(OpenStatus(Dataset::Files({})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenStatus(Dataset::Files({std::string("a\0b", 3)})).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FilesTest, AreShuffledAnewInEachIteration) {
  const Dataset files = Dataset::Files({TextFolder("shuffled", 20, 1) + "/*"});
  const std::vector<std::string> sorted = All(files);
  const Dataset shuffled = files.Shuffle(100, 7);
  EXPECT_THAT(All(shuffled, 0), UnorderedElementsAreArray(sorted));
  EXPECT_NE(All(shuffled, 0), sorted);
  EXPECT_NE(All(shuffled, 0), All(shuffled, 1));
  EXPECT_EQ(All(shuffled, 1), All(shuffled, 1));
  EXPECT_NE(All(shuffled), All(files.Shuffle(100, 8)));
}

TEST(FilesTest, EveryPositionCanBeRestored) {
  const std::string folder = TextFolder("positions", 7, 1);
  ExpectSameAfterRestoreEverywhere(Dataset::Files({folder + "/*"}));
  ExpectSameAfterRestoreEverywhere(Dataset::Files({folder + "/*"}).Shuffle(3, 1).Shard(2, 1));
}

TEST(FilesTest, APositionAmongOtherFilesIsRefused) {
  const std::string folder = TextFolder("others", 3, 1);
  const Dataset files = Dataset::Files({folder + "/*"});
  const auto iterator = files.Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  const std::string state = *(*iterator)->SaveState();
  const auto restore = [&] {
    const auto fresh = Dataset::Files({folder + "/*"}).Open();
    return (*fresh)->RestoreState(state);
  };
  EXPECT_TRUE(restore().ok());
  ASSERT_TRUE(PosixFileSystem()->Rename(folder + "/f1.txt", folder + "/g1.txt").ok());
  EXPECT_THAT(std::string(restore().message()),
              AllOf(HasSubstr("'Files'"), HasSubstr("is of other data")));
  WriteFile("others/new.txt", "");
  EXPECT_THAT(std::string(restore().message()), HasSubstr("(3 rows, here 4)"));
}

TEST(InterleaveFilesTest, ReadsFilesInTurn) {
  const Dataset files = Dataset::Files({TextFolder("turns", 3, 2) + "/*"});
  EXPECT_THAT(
      All(files.InterleaveFiles(Dataset::TextLines({}), {.cycle = 2})),
      ElementsAre(Text("0.0"), Text("1.0"), Text("0.1"), Text("1.1"), Text("2.0"), Text("2.1")));
  EXPECT_THAT(
      All(files.InterleaveFiles(Dataset::TextLines({}), {.cycle = 1})),
      ElementsAre(Text("0.0"), Text("0.1"), Text("1.0"), Text("1.1"), Text("2.0"), Text("2.1")));
  // What follows the source belongs to each file.
  EXPECT_THAT(All(files.InterleaveFiles(Dataset::TextLines({}).Skip(1).Batch(5), {.cycle = 3})),
              ElementsAre("string[1] = \"0.1\"", "string[1] = \"1.1\"", "string[1] = \"2.1\""));
}

TEST(InterleaveFilesTest, ShardsByFileAndByElementCoverEverythingOnce) {
  const Dataset files = Dataset::Files({TextFolder("shards", 5, 4) + "/*"});
  const Dataset lines = Dataset::TextLines({});
  const std::vector<std::string> all = All(files.InterleaveFiles(lines));
  ASSERT_EQ(all.size(), 20u);
  for (const int64_t workers : {1, 2, 3, 7}) {
    std::vector<std::string> by_file;
    std::vector<std::string> by_element;
    for (int64_t worker = 0; worker < workers; ++worker) {
      // Every worker shuffles alike before the cut.
      const auto file =
          All(files.Shuffle(100, 3).Shard(workers, worker).InterleaveFiles(lines).Shuffle(8, 5), 2);
      by_file.insert(by_file.end(), file.begin(), file.end());
      std::set<std::string> whole_files;
      for (const std::string& text : file) whole_files.insert(text.substr(0, text.find('.')));
      EXPECT_EQ(file.size(), 4 * whole_files.size());
      const auto element =
          All(files.Shuffle(100, 3).InterleaveFiles(lines).Shard(workers, worker), 2);
      by_element.insert(by_element.end(), element.begin(), element.end());
    }
    EXPECT_THAT(by_file, UnorderedElementsAreArray(all));
    EXPECT_THAT(by_element, UnorderedElementsAreArray(all));
  }
}

TEST(InterleaveFilesTest, EveryPositionCanBeRestored) {
  const std::string folder = TextFolder("restored", 4, 3);
  WriteFile("restored/empty.txt", "");
  for (const int64_t cycle : {1, 2, 9}) {
    ExpectSameAfterRestoreEverywhere(
        Dataset::Files({folder + "/*"})
            .Shuffle(10, 1)
            .InterleaveFiles(Dataset::TextLines({}).Shuffle(2, 3), {.cycle = cycle, .block = 2})
            .Shuffle(4, 2));
  }
}

TEST(InterleaveFilesTest, AStateCannotNameOtherFiles) {
  const std::string folder = TextFolder("inside", 2, 2);
  const std::string secret = WriteFile("secret.txt", "secret\nsecret\n");
  const Dataset dataset = Dataset::Files({folder + "/*"}).InterleaveFiles(Dataset::TextLines({}));
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  InputState state;
  ASSERT_TRUE(state.ParseFromString(*(*iterator)->SaveState()));
  InputElement* const element = state.mutable_inputs(0)->mutable_elements(0);
  element->Clear();
  ASSERT_TRUE(SaveElement(Element{Tensor::Scalar<std::string>(secret)}, element).ok());
  EXPECT_THAT(std::string((*iterator)->RestoreState(state.SerializeAsString()).message()),
              HasSubstr(secret + "', which is no file of this data set"));
}

TEST(InterleaveFilesTest, ErrorsHaveTheElementsIndexAndTheFile) {
  const std::string folder = TextFolder("gone", 3, 1);
  const Dataset dataset =
      Dataset::Files({folder + "/*"}).InterleaveFiles(Dataset::TextLines({}), {.cycle = 1});
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE(PosixFileSystem()->Remove(folder + "/f1.txt").ok());
  EXPECT_THAT(Rest(**iterator),
              ElementsAre(Text("0.0"), AllOf(HasSubstr("NOT_FOUND: InterleaveFiles: element 1: "),
                                             HasSubstr("/f1.txt"))));
  EXPECT_THAT(
      std::string(FirstError(Dataset::Range(3).InterleaveFiles(Dataset::TextLines({}))).message()),
      HasSubstr("InterleaveFiles: element 0: is no path"));
}

TEST(InterleaveFilesTest, ImpossiblePipelinesAreRefused) {
  const Dataset files = Dataset::Files({TextFolder("refused", 1, 1) + "/*"});
  const auto error = [&](const Dataset& each, InterleaveOptions options = {}) {
    const absl::Status status = OpenStatus(files.InterleaveFiles(each, options));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(Dataset::Range(3).Shuffle(2, 1)), HasSubstr("begins with Range"));
  EXPECT_THAT(error(files.InterleaveFiles(Dataset::TextLines({}))),
              HasSubstr("begins with InterleaveFiles"));
  EXPECT_THAT(error(Dataset::TextLines({}), {.cycle = 0}), HasSubstr("cycle is 0"));
}

}  // namespace
}  // namespace tandem::data
