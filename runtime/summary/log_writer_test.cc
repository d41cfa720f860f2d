#include "runtime/summary/log_writer.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/graph/scope.h"
#include "core/io/event.h"
#include "core/io/summary.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/config.pb.h"
#include "proto/event.pb.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "/logs/run";
constexpr absl::Duration kLong = absl::Seconds(60);

// A file system that calls `before` when a file is appended to.
class WatchedFileSystem final : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = FaultyFileSystem::OpenToWrite(path, mode);
    if (!file.ok()) return file.status();
    return std::unique_ptr<WritableFile>(new File(this, *std::move(file)));
  }
  std::function<void()> before = [] {};
  std::function<void()> after = [] {};

 private:
  class File final : public WritableFile {
   public:
    File(WatchedFileSystem* files, std::unique_ptr<WritableFile> file)
        : files_(files), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    absl::Status AppendPieces(absl::Span<const absl::string_view> pieces) override {
      files_->before();
      const absl::Status status = file_->AppendPieces(pieces);
      files_->after();
      return status;
    }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Close() override { return file_->Close(); }

   private:
    WatchedFileSystem* const files_;
    const std::unique_ptr<WritableFile> file_;
  };
};

class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() {
    EXPECT_TRUE(files_.MakeDirectories("/logs").ok());
    options_.files = &files_;
    options_.clock = &clock_;
    // Nothing is written by itself while a test runs.
    options_.flush_interval = absl::Hours(10);
    former_sink_ = SetLogSink([this](LogSeverity severity, absl::string_view text) {
      if (severity == LogSeverity::kWarning) warnings_.emplace_back(text);
    });
  }
  ~LogWriterTest() override { SetLogSink(former_sink_); }

  std::unique_ptr<LogWriter> Open() {
    absl::StatusOr<std::unique_ptr<LogWriter>> log = LogWriter::Open(kFolder, options_);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }

  // What a reader finds of the run now, without the first event of each file.
  std::vector<tensorflow::Event> Events() {
    std::vector<tensorflow::Event> events;
    const std::vector<std::string> paths = *ListEventFiles(&files_, kFolder);
    for (const std::string& path : paths) {
      const auto reader = *EventReader::Open(&files_, path);
      for (tensorflow::Event event;;) {
        const absl::StatusOr<bool> read = reader->Read(&event);
        EXPECT_TRUE(read.ok()) << read.status();
        if (!read.ok() || !*read) break;
        if (event.file_version().empty()) events.push_back(event);
      }
    }
    return events;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const tensorflow::Event& event : Events()) steps.push_back(event.step());
    return steps;
  }

  WatchedFileSystem files_;
  FakeClock clock_{absl::FromUnixSeconds(1700000000)};
  LogWriterOptions options_;
  LogSink former_sink_;
  std::vector<std::string> warnings_;
};

TEST_F(LogWriterTest, EveryKindIsWrittenWithItsPlugin) {
  const auto log = Open();
  ASSERT_TRUE(log->WriteHyperparameters({{"rate", 0.1}}).ok());
  ASSERT_TRUE(log->WriteScalar(1, "loss", 0.5).ok());
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(log->WriteHistogram(2, "weights", Tensor::Vector<float>({1, 2, 3})).ok());
  ASSERT_TRUE(log->WriteHistogram(2, "counted", Histogram()).ok());
  ASSERT_TRUE(log->WriteImages(3, "digits", Tensor::Zeros(kUint8, {1, 2, 2, 1})).ok());
  ASSERT_TRUE(log->WriteText(4, "note", "**bold**").ok());
  ASSERT_TRUE(log->WriteText(4, "table", Tensor::Vector<std::string>({"a", "b"})).ok());
  ASSERT_TRUE(log->WriteRunEnd(RunStatus::kSuccess).ok());
  ASSERT_TRUE(log->Close().ok());

  std::vector<std::string> found;
  for (const tensorflow::Event& event : Events()) {
    ASSERT_EQ(event.summary().value_size(), 1);
    const tensorflow::Summary::Value& value = event.summary().value(0);
    found.push_back(absl::StrCat(event.step(), " ", value.metadata().plugin_data().plugin_name(),
                                 " ", value.tag()));
  }
  EXPECT_THAT(found,
              ElementsAre("0 hparams _hparams_/session_start_info", "1 scalars loss",
                          "2 histograms weights", "2 histograms counted", "3 images digits",
                          "4 text note", "4 text table", "0 hparams _hparams_/session_end_info"));
  EXPECT_EQ(Events()[1].wall_time(), 1700000000) << "the time is that of the call";
  EXPECT_EQ(Events()[2].wall_time(), 1700000005);
}

TEST_F(LogWriterTest, GraphsRunMetadataAndRestartsAreEvents) {
  const Scope scope = Scope::NewRoot();
  scope.WithOpName("one").Constant(1);
  ASSERT_TRUE(scope.status().ok());
  tensorflow::RunMetadata metadata;
  metadata.mutable_step_stats()->add_dev_stats()->set_device("CPU:0");
  const auto log = Open();
  ASSERT_TRUE(log->WriteGraph(*scope.graph()).ok());
  ASSERT_TRUE(log->WriteRunMetadata(7, "step 7", metadata).ok());
  ASSERT_TRUE(log->WriteRestart(8).ok());
  ASSERT_TRUE(log->Close().ok());

  const std::vector<tensorflow::Event> events = Events();
  ASSERT_EQ(events.size(), 3u);
  tensorflow::GraphDef graph;
  ASSERT_TRUE(graph.ParseFromString(events[0].graph_def()));
  ASSERT_EQ(graph.node_size(), 1);
  EXPECT_EQ(graph.node(0).name(), "one");
  EXPECT_EQ(events[1].tagged_run_metadata().tag(), "step 7");
  EXPECT_EQ(events[2].session_log().status(), tensorflow::SessionLog::START);
  EXPECT_EQ(events[2].step(), 8);
}

TEST_F(LogWriterTest, FlushesWhenTheIntervalIsOver) {
  const auto appended = std::make_shared<Event>();
  options_.flush_interval = absl::Milliseconds(1);
  const auto log = Open();
  files_.after = [appended] { appended->Set(); };
  ASSERT_TRUE(log->WriteScalar(1, "loss", 1).ok());
  ASSERT_TRUE(appended->Wait(absl::Now() + kLong)) << "nobody flushed";
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(LogWriterTest, ManyBytesAreWrittenBeforeTheInterval) {
  const auto appended = std::make_shared<Event>();
  const auto log = Open();
  files_.after = [appended] { appended->Set(); };
  ASSERT_TRUE(log->WriteText(1, "long", std::string(2 << 20, 'x')).ok());
  EXPECT_TRUE(appended->Wait(absl::Now() + kLong));
}

TEST_F(LogWriterTest, FlushCloseAndTheDestructorWriteWhatWaits) {
  auto log = Open();
  ASSERT_TRUE(log->WriteScalar(1, "loss", 1).ok());
  EXPECT_TRUE(Steps().empty());
  ASSERT_TRUE(log->Flush().ok());
  EXPECT_THAT(Steps(), ElementsAre(1));
  ASSERT_TRUE(log->WriteScalar(2, "loss", 1).ok());
  log.reset();
  EXPECT_THAT(Steps(), ElementsAre(1, 2));

  log = Open();
  ASSERT_TRUE(log->WriteScalar(3, "loss", 1).ok());
  ASSERT_TRUE(log->Close().ok());
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3)) << "a second writer has a file of its own";
  EXPECT_EQ(log->WriteScalar(4, "loss", 1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(log->Close().ok());
}

TEST_F(LogWriterTest, ManyThreadsMayWrite) {
  constexpr int kThreads = 8;
  constexpr int kEach = 200;
  options_.flush_interval = absl::Milliseconds(1);
  const auto log = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log, t] {
      for (int step = 0; step < kEach; ++step) {
        EXPECT_TRUE(log->WriteScalar(step, absl::StrCat("series", t), step).ok());
        if (step % 50 != 0) continue;
        EXPECT_TRUE(log->Flush().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(log->Close().ok());
  std::map<std::string, int64_t> next;
  for (const tensorflow::Event& event : Events()) {
    EXPECT_EQ(event.step(), next[event.summary().value(0).tag()]++) << "order of one thread";
  }
  EXPECT_EQ(next.size(), size_t{kThreads});
  for (const auto& [tag, count] : next) EXPECT_EQ(count, kEach) << tag;
}

TEST_F(LogWriterTest, AFullDiskIsSaidOnceAndTheLogGoesOnLater) {
  const auto log = Open();
  ASSERT_TRUE(log->WriteScalar(1, "loss", 1).ok());
  ASSERT_TRUE(log->Flush().ok());
  const std::string first = log->path();

  files_.FailAt(0, absl::ResourceExhaustedError("the disk is full"), 1000);
  for (const int64_t step : {2, 3}) {
    ASSERT_TRUE(log->WriteScalar(step, "loss", 1).ok()) << "a training does not end for it";
    const absl::Status flushed = log->Flush();
    EXPECT_EQ(flushed.code(), absl::StatusCode::kResourceExhausted) << flushed;
  }
  EXPECT_EQ(log->lost(), 2);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr(kFolder));
  EXPECT_THAT(warnings_[0], HasSubstr("the disk is full"));

  files_.FailAt(0, absl::OkStatus(), 0);
  ASSERT_TRUE(log->WriteScalar(4, "loss", 1).ok());
  EXPECT_TRUE(log->Flush().ok());
  EXPECT_NE(log->path(), first);
  EXPECT_THAT(Steps(), ElementsAre(1, 4)) << "the first file may end in half a record";
  EXPECT_EQ(log->Close().code(), absl::StatusCode::kResourceExhausted) << "it is not forgotten";
  EXPECT_EQ(log->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ListEventFiles(&files_, kFolder)->size(), 2u) << "failed attempts leave no files";
}

TEST_F(LogWriterTest, ADiskThatHangsHoldsNobodyUpAndTakesNoMemory) {
  Event hangs, goes_on;
  options_.max_waiting_bytes = 4096;
  options_.patience = absl::Milliseconds(1);
  auto log = Open();
  files_.before = [&] {
    hangs.Set();
    ASSERT_TRUE(goes_on.Wait(absl::Now() + kLong));
  };
  ASSERT_TRUE(log->WriteScalar(0, "loss", 1).ok());
  EXPECT_EQ(log->Flush().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(hangs.Wait(absl::Now() + kLong));
  for (int step = 1; step <= 1000; ++step) ASSERT_TRUE(log->WriteScalar(step, "loss", 1).ok());
  EXPECT_GT(log->lost(), 500);
  EXPECT_EQ(log->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(warnings_.size(), 1u);
  const int64_t kept = 1000 - log->lost();
  EXPECT_EQ(log->Close().code(), absl::StatusCode::kDeadlineExceeded);
  goes_on.Set();
  // The destructor waits for what is being written.
  log.reset();
  EXPECT_EQ(Steps().size(), static_cast<size_t>(kept) + 1);
}

TEST_F(LogWriterTest, AFolderThatCannotBeMadeIsSaidAtOnce) {
  files_.FailAt(0, absl::PermissionDeniedError("no"), 1000);
  EXPECT_EQ(LogWriter::Open(kFolder, options_).status().code(),
            absl::StatusCode::kPermissionDenied);
  options_.flush_interval = absl::ZeroDuration();
  EXPECT_EQ(LogWriter::Open(kFolder, options_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LogWriterTest, ScalarsThatAreNotFiniteAreWritten) {
  const auto log = Open();
  ASSERT_TRUE(log->WriteScalar(1, "loss", std::nan("")).ok());
  ASSERT_TRUE(log->WriteScalar(2, "loss", -std::numeric_limits<double>::infinity()).ok());
  ASSERT_TRUE(log->Close().ok());
  const auto events = Events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::isnan(events[0].summary().value(0).tensor().float_val(0)));
  EXPECT_TRUE(std::isinf(events[1].summary().value(0).tensor().float_val(0)));
}

TEST_F(LogWriterTest, HistogramsLeaveOutWhatIsNotFiniteAndSayItOnce) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto log = Open();
  ASSERT_TRUE(
      log->WriteHistogram(1, "w", Tensor::Vector<float>({1, std::nanf(""), 2, kInf, -kInf})).ok());
  ASSERT_TRUE(log->WriteHistogram(2, "w", Tensor::Vector<float>({kInf})).ok());
  ASSERT_TRUE(log->Close().ok());
  EXPECT_EQ(log->non_finite(), 4);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("'w'"));
  EXPECT_THAT(warnings_[0], HasSubstr("3 of 5"));

  const auto events = Events();
  ASSERT_EQ(events.size(), 2u);
  for (const tensorflow::Event& event : events) {
    const tensorflow::TensorProto& buckets = event.summary().value(0).tensor();
    ASSERT_EQ(buckets.tensor_shape().dim_size(), 2);
    EXPECT_EQ(buckets.tensor_shape().dim(0).size(), 30);
  }
}

TEST_F(LogWriterTest, WhatCannotBeShownIsAnErrorOfTheCall) {
  const auto log = Open();
  EXPECT_EQ(log->WriteScalar(1, "", 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log->WriteHistogram(1, "h", Tensor::Vector<std::string>({"a"})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log->WriteImages(1, "i", Tensor::Zeros(kUint8, {2, 2})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log->WriteText(1, "t", Tensor::Vector<float>({1})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(log->Close().ok());
  EXPECT_TRUE(Steps().empty());
}

}  // namespace
}  // namespace tandem
