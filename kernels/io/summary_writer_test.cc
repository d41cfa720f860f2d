// The writers of TensorFlow 2's summaries in graphs.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/scope.h"
#include "core/io/event.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/io/summary_test_util.h"
#include "runtime/session/session.h"

namespace tandem::io {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using tensorflow::Event;

// A folder of this test, empty.
std::string Folder(const std::string& name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/summary_writer_test_", name);
  std::filesystem::remove_all(folder);
  return folder;
}

// A graph with a writer, "create" that begins its file in `folder`, "flush" and "close".
Scope GraphWithWriter(const std::string& folder, int32_t max_queue = 10) {
  const Scope s = Scope::NewRoot();
  const Output writer = s.WithOpName("writer").Call("SummaryWriter", {});
  s.WithOpName("create").AddNode(
      "CreateSummaryFileWriter",
      {writer, Tensor::Scalar<std::string>(folder), Tensor::Scalar<int32_t>(max_queue),
       Tensor::Scalar<int32_t>(1e8), Tensor::Scalar<std::string>(".v2")});
  s.WithOpName("flush").AddNode("FlushSummaryWriter", {writer});
  s.WithOpName("close").AddNode("CloseSummaryWriter", {writer});
  return s;
}

Output Writer(const Scope& s) { return {s.graph()->FindNode("writer"), 0}; }

void AddScalar(const Scope& s, const std::string& name, float value) {
  s.WithOpName(name).AddNode("WriteScalarSummary",
                             {Writer(s), Tensor::Scalar<int64_t>(7),
                              Tensor::Scalar<std::string>("tag"), Tensor::Scalar<float>(value)});
}

std::unique_ptr<Session> Open(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph());
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

absl::Status RunTarget(Session& session, const std::string& target) {
  return session.Run({}, {}, {target}).status();
}

// The events in the files of a folder, but for the versions at their beginnings.
std::vector<Event> EventsIn(const std::string& folder) {
  std::vector<Event> events;
  const auto paths = ListEventFiles(PosixFileSystem(), folder);
  EXPECT_TRUE(paths.ok()) << paths.status();
  if (!paths.ok()) return events;
  for (const std::string& path : *paths) {
    const auto reader = EventReader::Open(PosixFileSystem(), path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    Event event;
    EXPECT_TRUE(*(*reader)->Read(&event));
    EXPECT_EQ(event.file_version(), "brain.Event:2");
    while (*(*reader)->Read(&event)) events.push_back(event);
  }
  return events;
}

std::vector<float> ScalarsIn(const std::string& folder) {
  std::vector<float> scalars;
  for (const Event& event : EventsIn(folder)) {
    EXPECT_EQ(event.step(), 7);
    EXPECT_GT(event.wall_time(), 1e9);
    scalars.push_back(event.summary().value(0).simple_value());
  }
  return scalars;
}

// Runs the op of a case in a session of its own.
absl::StatusOr<Event> Written(const Json& test) {
  const std::string folder = Folder("cases");
  const Scope s = GraphWithWriter(folder);
  InputList inputs = {Writer(s)};
  if (test["op"] != "ImportEvent") inputs.emplace_back(Tensor::Scalar<int64_t>(7));
  for (const Tensor& input : InputsOf(test)) inputs.emplace_back(input);
  s.WithOpName("write").AddNode(test["op"].get<std::string>(), inputs, AttrsOf(test));
  TANDEM_RETURN_IF_ERROR(s.status());
  const auto session = Open(s);
  for (const std::string target : {"create", "write", "close"}) {
    TANDEM_RETURN_IF_ERROR(RunTarget(*session, target));
  }
  std::vector<Event> events = EventsIn(folder);
  EXPECT_EQ(events.size(), 1u);
  events[0].clear_wall_time();
  return events[0];
}

TEST(SummaryWriter, WritesWhatTensorFlowWrites) {
  const Json document = ReadSummaryCases();
  int cases = 0;
  for (const Json& test : document["written"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    ++cases;
    absl::StatusOr<Event> found = Written(test);
    if (test.contains("error") && test["error"] == "UnimplementedError") {
      EXPECT_TRUE(found.ok()) << found.status();  // TensorFlow writes no bfloat16; why not.
      continue;
    }
    if (test.contains("error")) {
      const bool is_loss = test["error"] == "DataLossError";
      EXPECT_EQ(found.status().code(),
                is_loss ? absl::StatusCode::kDataLoss : absl::StatusCode::kInvalidArgument)
          << found.status();
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    Event expected;
    ASSERT_TRUE(expected.ParseFromString(Decoded(test["event"])));
    std::vector<Tensor> pixels, expected_pixels;
    if (found->has_summary()) pixels = TakePixels(*found->mutable_summary());
    if (expected.has_summary()) expected_pixels = TakePixels(*expected.mutable_summary());
    EXPECT_EQ(found->DebugString(), expected.DebugString());
    ASSERT_EQ(pixels.size(), expected_pixels.size());
    for (size_t i = 0; i < pixels.size(); ++i) {
      EXPECT_THAT(pixels[i].Elements<uint8_t>(),
                  ElementsAreArray(expected_pixels[i].Elements<uint8_t>()));
    }
  }
  EXPECT_GT(cases, 50);
}

TEST(SummaryWriter, EventsAreInTheFileAfterAFlushAndAfterManyOfThem) {
  const std::string folder = Folder("flush");
  const Scope s = GraphWithWriter(folder, /*max_queue=*/2);
  AddScalar(s, "one", 1);
  AddScalar(s, "two", 2);
  const auto session = Open(s);
  ASSERT_TRUE(RunTarget(*session, "create").ok());
  ASSERT_TRUE(RunTarget(*session, "one").ok());
  ASSERT_TRUE(RunTarget(*session, "flush").ok());
  EXPECT_THAT(ScalarsIn(folder), ElementsAre(1));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunTarget(*session, "two").ok());
  EXPECT_THAT(ScalarsIn(folder), ElementsAre(1, 2, 2, 2));
}

TEST(SummaryWriter, TheEndOfTheSessionClosesItsFile) {
  const std::string folder = Folder("end");
  const Scope s = GraphWithWriter(folder);
  AddScalar(s, "one", 1);
  {
    const auto session = Open(s);
    ASSERT_TRUE(RunTarget(*session, "create").ok());
    ASSERT_TRUE(RunTarget(*session, "one").ok());
  }
  EXPECT_THAT(ScalarsIn(folder), ElementsAre(1));
}

TEST(SummaryWriter, AWriterThatHasAFileKeepsItAndOneThatWasClosedBeginsAnother) {
  const std::string folder = Folder("again");
  const Scope s = GraphWithWriter(folder);
  AddScalar(s, "one", 1);
  const auto session = Open(s);
  EXPECT_EQ(RunTarget(*session, "one").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunTarget(*session, "flush").code(), absl::StatusCode::kNotFound);
  for (int files = 1; files <= 2; ++files) {
    ASSERT_TRUE(RunTarget(*session, "create").ok());
    ASSERT_TRUE(RunTarget(*session, "create").ok());
    ASSERT_TRUE(RunTarget(*session, "one").ok());
    ASSERT_TRUE(RunTarget(*session, "close").ok());
    EXPECT_EQ(RunTarget(*session, "one").code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ListEventFiles(PosixFileSystem(), folder)->size(), static_cast<size_t>(files));
  }
  EXPECT_EQ(RunTarget(*session, "close").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ScalarsIn(folder), ElementsAre(1, 1));
}

TEST(SummaryWriter, AFolderThatCannotBeMadeIsAnErrorAndTheWriterHasNoFile) {
  const std::string folder = Folder("no_folder");
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), folder + "/file", "").ok());
  const Scope s = GraphWithWriter(folder + "/file/logs");
  AddScalar(s, "one", 1);
  const auto session = Open(s);
  const absl::Status status = RunTarget(*session, "create");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_folder/file"));
  EXPECT_EQ(RunTarget(*session, "one").code(), absl::StatusCode::kNotFound);
}

TEST(SummaryWriter, DatabasesAreRefusedByName) {
  const Scope s = Scope::NewRoot();
  const Tensor text = Tensor::Scalar<std::string>("x");
  s.WithOpName("create").AddNode("CreateSummaryDbWriter",
                                 {s.Call("SummaryWriter", {}), text, text, text, text});
  const absl::Status status = RunTarget(*Open(s), "create");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("CreateSummaryFileWriter"));
}

TEST(SummaryWriter, AHandleOfSomethingElseIsRefused) {
  const Scope s = Scope::NewRoot();
  const Output variable =
      s.Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("flush").AddNode("FlushSummaryWriter", {variable});
  const absl::Status status = RunTarget(*Open(s), "flush");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a summary writer"));
}

}  // namespace
}  // namespace tandem::io
