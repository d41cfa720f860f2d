// Tables in graphs, where the cases of tests/golden do not reach: vocabularies in files, names, and
// how long a table lives.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem::lookup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A graph with a table that an initializer reads from a file, a lookup and the table's size.
class FileTableTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& contents) {
    path_ = absl::StrCat(::testing::TempDir(), "/vocabulary.txt");
    std::ofstream(path_, std::ios::binary) << contents;
    return path_;
  }

  // Makes a session; `keys` are looked up.
  void Make(DataType key, DataType value, const AttrMap& attrs, const Tensor& keys,
            const Tensor& none) {
    const Scope scope = Scope::NewRoot();
    const Output table = scope.Call(
        "HashTableV2", {}, {{"key_dtype", key}, {"value_dtype", value}, {"shared_name", "t"}});
    scope.WithOpName("init").AddNode("InitializeTableFromTextFileV2", {table, path_}, attrs);
    scope.WithOpName("found").Call("LookupTableFindV2", {table, keys, none});
    scope.WithOpName("size").Call("LookupTableSizeV2", {table});
    ASSERT_TRUE(scope.ok()) << scope.status();
    auto session = Session::Create(*scope.graph());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void MakeWords(const AttrMap& attrs) {
    Make(kString, kInt64, attrs, Tensor::Vector<std::string>({"b", "a", "none"}),
         Tensor::Scalar<int64_t>(-1));
  }

  absl::Status Initialize() { return session_->Run({}, {}, {"init"}).status(); }
  Tensor Found() {
    const auto found = session_->Run({}, {"found"});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? (*found)[0] : Tensor();
  }

  std::string path_;
  std::unique_ptr<Session> session_;
};

AttrMap Columns(int key, int value, int vocab_size = -1) {
  return {{"key_index", key}, {"value_index", value}, {"vocab_size", vocab_size}};
}
constexpr int kLine = -2;
constexpr int kNumber = -1;

TEST_F(FileTableTest, LinesToTheirNumbers) {
  Write("a\nb\nc\n");
  MakeWords(Columns(kLine, kNumber));
  EXPECT_EQ(session_->Run({}, {"found"}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Initialize().ok()) << Initialize();
  EXPECT_THAT(Found().Elements<int64_t>(), ElementsAre(1, 0, -1));
  EXPECT_TRUE(Initialize().ok());  // Again, as each loaded model does.
}

TEST_F(FileTableTest, LastLineNeedsNoEnd) {
  Write("a\r\nb");
  MakeWords(Columns(kLine, kNumber));
  ASSERT_TRUE(Initialize().ok());
  EXPECT_THAT(Found().Elements<int64_t>(), ElementsAre(1, 0, -1));
}

TEST_F(FileTableTest, NumbersBeginAtTheOffset) {
  Write("a\nb\n");
  AttrMap attrs = Columns(kLine, kNumber);
  attrs["offset"] = 10;
  MakeWords(attrs);
  ASSERT_TRUE(Initialize().ok());
  EXPECT_THAT(Found().Elements<int64_t>(), ElementsAre(11, 10, -1));
}

TEST_F(FileTableTest, Columns) {
  Write("7,x,a\n8,y,b\n");
  AttrMap attrs = Columns(2, 0);
  attrs["delimiter"] = ",";
  MakeWords(attrs);
  ASSERT_TRUE(Initialize().ok());
  EXPECT_THAT(Found().Elements<int64_t>(), ElementsAre(8, 7, -1));
}

TEST_F(FileTableTest, FloatsByNumber) {
  Write("1\t0.5\n2\t-3e2\n");
  Make(kInt64, kFloat32, Columns(0, 1), Tensor::Vector<int64_t>({2, 1, 0}),
       Tensor::Scalar<float>(9));
  ASSERT_TRUE(Initialize().ok());
  EXPECT_THAT(Found().Elements<float>(), ElementsAre(-300, 0.5, 9));
}

TEST_F(FileTableTest, ALimitLeavesTheRest) {
  Write("b\na\nc\n");
  MakeWords(Columns(kLine, kNumber, 1));
  ASSERT_TRUE(Initialize().ok());
  EXPECT_THAT(Found().Elements<int64_t>(), ElementsAre(0, -1, -1));
}

TEST_F(FileTableTest, SaysWhatIsWrongWithTheFile) {
  struct Case {
    std::string contents;
    AttrMap attrs;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {"a\n\nb\n", Columns(kLine, kNumber), "line 2: the line is empty"},
           {"a\nb\n", Columns(kLine, kNumber, 3), "vocab_size is 3"},
           {"a\t1\nb\n", Columns(0, 1), "line 2: there are 1 columns"},
           {"a\t1\nb\tx\n", Columns(0, 1), "line 2: \"x\" is no int64"},
           {"a\n", Columns(kNumber, kNumber), "key_index is -1"},
       }) {
    Write(c.contents);
    MakeWords(c.attrs);
    const absl::Status status = Initialize();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
    const auto size = session_->Run({}, {"size"});
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ((*size)[0].ScalarValue<int64_t>(), 0);
  }
}

TEST_F(FileTableTest, RefusesAWordThatComesTwice) {
  Write("a\na\n");
  MakeWords(Columns(kLine, kNumber));
  const absl::Status status = Initialize();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the key \"a\" comes twice"));
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(FileTableTest, NamesAFileThatIsNotThere) {
  path_ = "/no/such/vocabulary.txt";
  MakeWords(Columns(kLine, kNumber));
  const absl::Status status = Initialize();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST(TableOps, AHandleMayOutliveItsContainer) {
  const Scope scope = Scope::NewRoot();
  const Output table =
      scope.Call("MutableHashTableV2", {}, {{"key_dtype", kInt64}, {"value_dtype", kInt64}});
  scope.WithOpName("insert").AddNode(
      "LookupTableInsertV2", {table, Tensor::Vector<int64_t>({1}), Tensor::Vector<int64_t>({2})});
  scope.WithOpName("destroy").AddNode("DestroyResourceOp", {table});
  scope.WithOpName("size").Call("LookupTableSizeV2", {table});
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto session = Session::Create(*scope.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"insert"}).ok());
  EXPECT_EQ((*(*session)->Run({}, {"size"}))[0].ScalarValue<int64_t>(), 1);
  ASSERT_TRUE((*session)->Run({}, {}, {"destroy"}).ok());
  // The next run makes a new one.
  EXPECT_EQ((*(*session)->Run({}, {"size"}))[0].ScalarValue<int64_t>(), 0);
}

TEST(TableOps, KnowTypesAndShapesBeforeTheyRun) {
  const Scope scope = Scope::NewRoot();
  const Output table = scope.Call(
      "MutableHashTableOfTensorsV2", {},
      {{"key_dtype", kString}, {"value_dtype", kFloat32}, {"value_shape", PartialShape({3})}});
  const Output keys =
      scope.Call("Placeholder", {}, {{"dtype", kString}, {"shape", PartialShape({-1, 2})}});
  const Output found =
      scope.Call("LookupTableFindV2", {table, keys, Tensor::Vector<float>({0, 0, 0})});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(found.shape(), PartialShape({-1, 2, 3}));
  // For a table of other types: an error when it runs, as in TensorFlow.
  const Output other =
      scope.Call("LookupTableFindV2", {table, keys, Tensor::Vector<int64_t>({0, 0, 0})});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(other.shape(), PartialShape::Unknown());
}

}  // namespace
}  // namespace tandem::lookup
