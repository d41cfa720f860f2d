// A graph that TensorFlow made, with its Saver in shards: Tandem restores what TensorFlow saved,
// saves, and restores that.
#include <filesystem>
#include <memory>
#include <string>

#include "core/graph/graph_file.h"
#include "core/graph/import.h"
#include "core/io/bundle_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"
#include "runtime/session/session.h"

namespace tandem::io {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kData = "kernels/io/testdata/";

std::unique_ptr<Session> MakeSession() {
  tensorflow::GraphDef def;
  EXPECT_TRUE(ReadGraphFile(kData + "saver_graph.pbtxt", &def).ok());
  const absl::StatusOr<Graph> graph = ImportGraphDef(def);
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*graph);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

absl::Status Restore(Session& session, const std::string& prefix) {
  return session.Run({{"save/Const", Tensor::Scalar(prefix)}}, {}, {"save/restore_all"}).status();
}

TEST(SaverGraph, RestoresWhatTensorFlowSaved) {
  const auto session = MakeSession();
  const absl::Status restored = Restore(*session, kData + "model");
  ASSERT_TRUE(restored.ok()) << restored;
  const auto values = session->Run({}, {"all_rows", "step_now"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].shape(), Shape({5, 2}));
  EXPECT_THAT((*values)[0].Elements<float>(), Each(1.5f));
  EXPECT_EQ((*values)[1].ScalarValue<int32_t>(), 8);
}

TEST(SaverGraph, RestoresWhatItSaved) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/saver_graph");
  std::filesystem::remove_all(folder);  // Of a former run.
  const std::string prefix = folder + "/model";
  {
    const auto session = MakeSession();
    ASSERT_TRUE(Restore(*session, kData + "model").ok());
    ASSERT_TRUE(session->Run({}, {}, {"bump"}).ok());
    const auto saved = session->Run({{"save/Const", Tensor::Scalar(prefix)}}, {"save/Identity_4"});
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ((*saved)[0].ScalarValue<std::string>(), prefix);
  }
  EXPECT_THAT(*PosixFileSystem()->ListDirectory(folder),
              ElementsAre("model.data-00000-of-00001", "model.index"));
  const auto reader = BundleReader::Open(PosixFileSystem(), prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->Names(), ElementsAre("rows", "step"));
  EXPECT_EQ((*reader)->Find("rows")->slices.size(), 2u);

  const auto session = MakeSession();
  ASSERT_TRUE(Restore(*session, prefix).ok());
  const auto values = session->Run({}, {"all_rows", "step_now"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT((*values)[0].Elements<float>(), Each(1.5f));
  EXPECT_EQ((*values)[1].ScalarValue<int32_t>(), 9);
}

TEST(SaverGraph, SaysWhichCheckpointIsMissing) {
  const auto session = MakeSession();
  const absl::Status status = Restore(*session, "/nothing/model");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nothing/model"));
}

}  // namespace
}  // namespace tandem::io
