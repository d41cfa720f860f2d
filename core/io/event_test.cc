#include "core/io/event.h"

#include <algorithm>
#include <random>

#include "absl/strings/escaping.h"
#include "core/io/summary.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/mutations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/config.pb.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using tensorflow::Event;

// Files that a test makes of another's contents.
constexpr char kCopy[] = "/logs/copy";
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class EventTest : public ::testing::Test {
 protected:
  EventTest() { EXPECT_TRUE(files_.MakeDirectories("/logs").ok()); }

  EventWriterOptions Options() {
    EventWriterOptions options;
    options.clock = &clock_;
    options.host = "host";
    return options;
  }

  std::unique_ptr<EventWriter> Open(const EventWriterOptions& options) {
    absl::StatusOr<std::unique_ptr<EventWriter>> writer =
        EventWriter::Open(&files_, "/logs/run", options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }

  std::string Contents(const std::string& path) { return *ReadFile(&files_, path); }

  // What can be read of a file now, without its first event.
  std::vector<Event> Events(const std::string& path) {
    auto reader = EventReader::Open(&files_, path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<Event> events;
    for (Event event;;) {
      const absl::StatusOr<bool> read = (*reader)->Read(&event);
      EXPECT_TRUE(read.ok()) << read.status();
      if (!read.ok() || !*read) break;
      events.push_back(event);
    }
    EXPECT_FALSE(events.empty());
    if (!events.empty()) events.erase(events.begin());
    return events;
  }

  absl::Status WriteScalar(EventWriter& writer, int64_t step) {
    return writer.WriteSummary(step, {*ScalarSummary("loss", static_cast<float>(step))});
  }

  FaultyFileSystem files_;
  FakeClock clock_{absl::FromUnixSeconds(1700000000)};
};

TEST_F(EventTest, TheFirstEventSaysVersionAndWriterAndIsFlushed) {
  const auto writer = Open(Options());
  EXPECT_THAT(writer->path(), MatchesRegex("/logs/run/events.out.tfevents.1700000000.host."
                                           "[0-9]+.0.v2"));
  const auto reader = *EventReader::Open(&files_, writer->path());
  Event event;
  ASSERT_TRUE(*reader->Read(&event));
  EXPECT_EQ(event.file_version(), "brain.Event:2");
  EXPECT_EQ(event.source_metadata().writer(), "tensorflow.core.util.events_writer");
  EXPECT_EQ(event.wall_time(), 1700000000);
  EXPECT_FALSE(*reader->Read(&event));
}

TEST_F(EventTest, RecordsHaveTheBytesOfTensorFlow) {
  const auto writer = Open(Options());
  const size_t before = Contents(writer->path()).size();
  Event event;
  event.set_wall_time(1);
  event.set_file_version("brain.Event:2");
  ASSERT_TRUE(writer->Write(event).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(absl::BytesToHexString(Contents(writer->path()).substr(before)),
            "1800000000000000a37f4b22"
            "09000000000000f03f1a0d627261696e2e4576656e743a32"
            "86bf577a");
}

TEST_F(EventTest, WritersOfOneSecondHaveFilesOfTheirOwnAndAreListedByName) {
  const auto first = Open(Options()), second = Open(Options());
  clock_.Advance(absl::Seconds(1));
  EventWriterOptions options = Options();
  options.suffix = ".user";
  const auto third = Open(options);
  EXPECT_THAT(second->path(), EndsWith(".1.v2"));
  EXPECT_THAT(third->path(), EndsWith(".0.user"));
  files_.SetContents("/logs/run/other.txt", "x");
  EXPECT_THAT(*ListEventFiles(&files_, "/logs/run"),
              ElementsAre(first->path(), second->path(), third->path()));
}

TEST_F(EventTest, EveryKindOfEventComesBack) {
  const auto writer = Open(Options());
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  tensorflow::RunMetadata metadata;
  metadata.mutable_step_stats()->add_dev_stats()->set_device("/cpu:0");
  ASSERT_TRUE(writer->WriteGraph(graph).ok());
  ASSERT_TRUE(writer->WriteRunMetadata(7, "step7", metadata).ok());
  ASSERT_TRUE(writer->WriteSummary(8, {*ScalarSummary("a", 1), *TextSummary("b", "x")}).ok());
  ASSERT_TRUE(writer->Close().ok());

  const std::vector<Event> events = Events(writer->path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].graph_def(), graph.SerializeAsString());
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[1].tagged_run_metadata().tag(), "step7");
  EXPECT_EQ(events[1].tagged_run_metadata().run_metadata(), metadata.SerializeAsString());
  EXPECT_EQ(events[2].step(), 8);
  ASSERT_EQ(events[2].summary().value_size(), 2);
  EXPECT_EQ(events[2].summary().value(1).tag(), "b");
  EXPECT_EQ(events[2].wall_time(), 1700000000);
}

TEST_F(EventTest, FlushesAfterSoManyEvents) {
  EventWriterOptions options = Options();
  options.flush_events = 3;
  const auto writer = Open(options);
  ASSERT_TRUE(WriteScalar(*writer, 1).ok());
  ASSERT_TRUE(WriteScalar(*writer, 2).ok());
  EXPECT_EQ(Events(writer->path()).size(), 0u);
  ASSERT_TRUE(WriteScalar(*writer, 3).ok());
  EXPECT_EQ(Events(writer->path()).size(), 3u);
  ASSERT_TRUE(WriteScalar(*writer, 4).ok());
  EXPECT_EQ(Events(writer->path()).size(), 3u);
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(Events(writer->path()).size(), 4u);
}

TEST_F(EventTest, FlushesWhenTheIntervalIsOver) {
  EventWriterOptions options = Options();
  options.flush_interval = absl::Seconds(5);
  const auto writer = Open(options);
  ASSERT_TRUE(WriteScalar(*writer, 1).ok());
  clock_.Advance(absl::Seconds(4));
  ASSERT_TRUE(writer->FlushIfDue().ok());
  EXPECT_EQ(Events(writer->path()).size(), 0u);
  clock_.Advance(absl::Seconds(1));
  ASSERT_TRUE(writer->FlushIfDue().ok());
  EXPECT_EQ(Events(writer->path()).size(), 1u);
  // The next event after a pause is flushed at once.
  clock_.Advance(absl::Seconds(9));
  ASSERT_TRUE(WriteScalar(*writer, 2).ok());
  EXPECT_EQ(Events(writer->path()).size(), 2u);
}

TEST_F(EventTest, ACutOffEventIsWaitedFor) {
  const auto writer = Open(Options());
  ASSERT_TRUE(WriteScalar(*writer, 1).ok());
  ASSERT_TRUE(WriteScalar(*writer, 2).ok());
  ASSERT_TRUE(writer->Close().ok());
  const std::string all = Contents(writer->path());
  // Reads what is there; gives where each event ends.
  const auto read_on = [](EventReader& reader) {
    std::vector<size_t> ends;
    Event event;
    for (;;) {
      const absl::StatusOr<bool> read = reader.Read(&event);
      EXPECT_TRUE(read.ok()) << read.status();
      if (!read.ok() || !*read) return ends;
      ends.push_back(static_cast<size_t>(reader.position()));
    }
  };
  const auto whole = *EventReader::Open(&files_, writer->path());
  const std::vector<size_t> ends = read_on(*whole);
  ASSERT_EQ(ends.size(), 3u);
  for (size_t size = 0; size <= all.size(); ++size) {
    files_.SetContents(kCopy, all.substr(0, size));
    const auto reader = *EventReader::Open(&files_, kCopy);
    std::vector<size_t> found = read_on(*reader);
    EXPECT_EQ(found.size(),
              std::count_if(ends.begin(), ends.end(), [size](size_t end) { return end <= size; }))
        << size;
    // The rest arrives.
    const auto file = *files_.OpenToWrite(kCopy, WriteMode::kAppend);
    ASSERT_TRUE(file->Append(all.substr(size)).ok());
    for (const size_t end : read_on(*reader)) found.push_back(end);
    EXPECT_EQ(found, ends) << size;
  }
}

TEST_F(EventTest, AReaderFindsWhatIsAppendedLater) {
  EventWriterOptions options = Options();
  options.flush_events = 1;
  const auto writer = Open(options);
  const auto reader = *EventReader::Open(&files_, writer->path());
  Event event;
  ASSERT_TRUE(*reader->Read(&event));
  for (int step = 1; step < 4; ++step) {
    EXPECT_FALSE(*reader->Read(&event));
    ASSERT_TRUE(WriteScalar(*writer, step).ok());
    ASSERT_TRUE(*reader->Read(&event));
    EXPECT_EQ(event.step(), step);
  }
}

TEST_F(EventTest, DamageIsNamedWithFileAndOffsetAndEndsTheFile) {
  const auto writer = Open(Options());
  const size_t before = Contents(writer->path()).size();
  ASSERT_TRUE(WriteScalar(*writer, 1).ok());
  ASSERT_TRUE(WriteScalar(*writer, 2).ok());
  ASSERT_TRUE(writer->Close().ok());
  std::string contents = Contents(writer->path());
  contents[before + 20] ^= 1;
  files_.SetContents(kCopy, contents);
  const auto reader = *EventReader::Open(&files_, kCopy);
  Event event;
  ASSERT_TRUE(*reader->Read(&event));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = reader->Read(&event).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(kCopy), HasSubstr(absl::StrCat(before))));
  }
}

TEST_F(EventTest, ARecordThatIsNoEventIsDamage) {
  const auto records = *RecordWriter::Open(&files_, kCopy);
  ASSERT_TRUE(records->Write("\x0a\xff\xff\xff").ok());
  ASSERT_TRUE(records->Close().ok());
  Event event;
  const absl::Status status = (*EventReader::Open(&files_, kCopy))->Read(&event).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(kCopy), HasSubstr("no event")));
}

TEST_F(EventTest, AFullDiskReachesTheCallerAndStays) {
  const auto writer = Open(Options());
  ASSERT_TRUE(WriteScalar(*writer, 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  files_.FailAt(0, absl::ResourceExhaustedError("full"));
  ASSERT_TRUE(WriteScalar(*writer, 2).ok());
  EXPECT_EQ(writer->Flush().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(WriteScalar(*writer, 3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Events(writer->path()).size(), 1u);
}

TEST_F(EventTest, AWriterThatCannotBeginLeavesNoFile) {
  bool began = false;
  for (int64_t n = 0; !began; ++n) {
    ASSERT_LT(n, 20);
    files_.FailAt(n, absl::ResourceExhaustedError("full"));
    began = EventWriter::Open(&files_, "/logs/run", Options()).ok();
    if (began || !files_.Stat("/logs/run").ok()) continue;
    EXPECT_TRUE(ListEventFiles(&files_, "/logs/run")->empty()) << n;
  }
}

TEST_F(EventTest, NamesAndFoldersAreChecked) {
  EventWriterOptions options = Options();
  options.suffix = "/../x";
  EXPECT_EQ(EventWriter::Open(&files_, "/logs", options).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EventReader::Open(&files_, "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ListEventFiles(&files_, "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(EventTest, DamagedFilesNeverDoHarm) {
  const auto writer = Open(Options());
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(WriteScalar(*writer, step).ok());
  ASSERT_TRUE(writer->Close().ok());
  const std::string contents = Contents(writer->path());
  std::mt19937_64 random(1);
  int damaged = 0, waiting = 0;
  for (int i = 0; i < 3000; ++i) {
    files_.SetContents(kCopy, Mutate(contents, random));
    const auto reader = *EventReader::Open(&files_, kCopy);
    Event event;
    absl::StatusOr<bool> read = true;
    for (int events = 0; read.ok() && *read; ++events) {
      ASSERT_LT(events, 20);
      read = reader->Read(&event);
    }
    ++(read.ok() ? waiting : damaged);
  }
  EXPECT_GT(damaged, 0);
  EXPECT_GT(waiting, 0);
}

}  // namespace
}  // namespace tandem
