#include "tools/cli/graph_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "proto/graph.pb.h"
#include "proto/saved_model.pb.h"

namespace tandem::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ReadGraphArgumentTest, ASavedModelIsCalledOne) {
  const std::string small = absl::StrCat(testing::TempDir(), "/small.pb");
  tensorflow::SavedModel model;
  model.add_meta_graphs()->mutable_graph_def();
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), small, model.SerializeAsString()).ok());
  const std::string folder = "runtime/saved_model/testdata/keras";
  for (const std::string& path : {folder, folder + "/saved_model.pb", small}) {
    tensorflow::GraphDef def;
    const absl::Status status = ReadGraphArgument(path, &def);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(path), HasSubstr("is a SavedModel"),
                      HasSubstr(absl::StrCat("tandem saved_model show ",
                                             path == small ? DirectoryOf(small) : folder))));
  }
}

TEST(ReadGraphArgumentTest, GraphsAndOtherFilesAreReadAsEver) {
  tensorflow::GraphDef def;
  const absl::Status status = ReadGraphArgument("runtime/saved_model/testdata/frozen.pbtxt", &def);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(def.node_size(), 0);
  const absl::Status other =
      ReadGraphArgument("runtime/saved_model/testdata/keras/variables/variables.index", &def);
  EXPECT_THAT(other.message(), AllOf(HasSubstr("no GraphDef"), Not(HasSubstr("SavedModel,"))));
  EXPECT_TRUE(absl::IsNotFound(ReadGraphArgument("nothing", &def)));
}

}  // namespace
}  // namespace tandem::cli
