// LogWriter: what TensorBoard shows of a run, written beside the program that makes it.
//
//   TANDEM_ASSIGN_OR_RETURN(auto log, LogWriter::Open("logs/run1"));
//   log->WriteHyperparameters({{"rate", 0.1}, {"optimizer", "adam"}});
//   for (int64_t step = 1; …; ++step) TANDEM_RETURN_IF_ERROR(log->WriteScalar(step, "loss", loss));
//   log->WriteRunEnd(RunStatus::kSuccess);
//   TANDEM_RETURN_IF_ERROR(log->Close());
//
// The folder is the run; slashes in a tag make groups. Values with one tag are one series. The
// forms of the values, and what each plugin can show, are in core/io/summary.h; a trainer logs by
// itself (strategies/trainer/log_callback.h).
//
// A thread of the writer's own puts events into a file (core/io/event.h) and flushes them, at an
// interval, when there are many, on Flush, and at the end. Nobody who writes ever waits for the
// disk. Every writer begins a file of its own; a run may have several, which are read in the order
// of their names.
//
// Errors
//   A value that cannot be shown, or an empty tag, is InvalidArgument from the call that writes it;
//   FailedPrecondition after Close. The disk's errors never come from there: what cannot be written
//   is lost, with one warning, and the writer tries again with a new file for what comes later.
//   status() and lost() tell, and Flush and Close return them. So a full disk ends no training, and
//   nobody believes that all was written.
//
// Threads: any; events are in the order of the calls. Lifetime: the file system and the clock
// outlive the writer. Its destructor is Close, and waits for the write that is running.
#ifndef TANDEM_RUNTIME_SUMMARY_LOG_WRITER_H_
#define TANDEM_RUNTIME_SUMMARY_LOG_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/io/file.h"
#include "core/io/histogram.h"
#include "core/io/hyperparameters.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class Event;
class GraphDef;
class RunMetadata;
class Summary;
}  // namespace tensorflow

namespace tandem {

class EventWriter;

struct LogWriterOptions {
  FileSystem* files = PosixFileSystem();
  // The time of events.
  Clock* clock = Clock::Real();
  // The longest that an event waits for its way to the file. What a killed process had not flushed
  // is lost.
  absl::Duration flush_interval = absl::Seconds(10);
  // Events that wait while the disk is too slow take no more memory than this; those beyond are
  // lost, as on a full disk.
  int64_t max_waiting_bytes = int64_t{256} << 20;
  // How long Flush and Close wait for the disk.
  absl::Duration patience = absl::Minutes(1);
};

class LogWriter {
 public:
  // Makes the folder where it is missing, and a file in it. InvalidArgument: options that make no
  // sense. ResourceExhausted: no thread. Errors of the file system.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Open(const std::string& folder,
                                                         const LogWriterOptions& options = {});
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // May be infinite or not a number, which TensorBoard marks. Kept as float32.
  absl::Status WriteScalar(int64_t step, absl::string_view tag, double value,
                           absl::string_view description = "");
  // The elements of a tensor of real numbers or bools, in equal buckets as TensorFlow 2 makes them.
  // Those that are not finite are left out and counted (non_finite()), with one warning for all.
  absl::Status WriteHistogram(int64_t step, absl::string_view tag, const Tensor& values,
                              absl::string_view description = "");
  // What was counted into the buckets of TensorFlow 1.
  absl::Status WriteHistogram(int64_t step, absl::string_view tag, const Histogram& histogram,
                              absl::string_view description = "");
  // [count, height, width, channels], see ImageSummary. Encoded as PNG by the caller's thread.
  absl::Status WriteImages(int64_t step, absl::string_view tag, const Tensor& images,
                           int max_images = 3, absl::string_view description = "");
  // Markdown; a vector or matrix of strings is a table.
  absl::Status WriteText(int64_t step, absl::string_view tag, absl::string_view text,
                         absl::string_view description = "");
  absl::Status WriteText(int64_t step, absl::string_view tag, const Tensor& text,
                         absl::string_view description = "");
  // Values that the caller made (core/io/summary.h), in one event.
  absl::Status WriteSummary(int64_t step, const tensorflow::Summary& values);

  // For the graphs page; a run has one. Errors of ExportGraphDef.
  absl::Status WriteGraph(const Graph& graph);
  absl::Status WriteGraph(const tensorflow::GraphDef& graph);
  // Where time and memory of a step went, shown beside the graph. `tag` occurs once in a run.
  absl::Status WriteRunMetadata(int64_t step, absl::string_view tag,
                                const tensorflow::RunMetadata& metadata);

  // The page of hyperparameters compares runs: their values at the start, and how each ended.
  absl::Status WriteHyperparameters(const Hyperparameters& values, absl::string_view group = "");
  absl::Status WriteRunEnd(RunStatus status);

  // The run goes on at `step`, after an interruption: what an earlier writer logged of this step
  // and later ones is out of date. TensorBoard's default loader keeps it all the same.
  absl::Status WriteRestart(int64_t step);

  // Waits until all events so far are in the file, or lost. The error of the last write.
  // DeadlineExceeded: the disk is too slow, or hangs; the events may get there later.
  absl::Status Flush();
  // Flushes and ends the file. status(), or DeadlineExceeded. Later calls write nothing more.
  absl::Status Close();

  // The error that first lost an event.
  absl::Status status() const;
  int64_t lost() const;  // Events.
  // Elements of histograms that were left out.
  int64_t non_finite() const;
  // The file that events go to now.
  std::string path() const;

 private:
  LogWriter(std::string folder, const LogWriterOptions& options);

  absl::Status Add(tensorflow::Event event) ABSL_LOCKS_EXCLUDED(mu_);
  template <typename V>  // Summary::Value
  absl::Status AddValue(int64_t step, absl::StatusOr<V> value);
  // Notes that `count` events are lost.
  void Lose(int64_t count, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WaitUntilWritten() ABSL_LOCKS_EXCLUDED(mu_);
  // The thread.
  void Serve() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OpenFile() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WriteBatch(std::vector<tensorflow::Event> batch) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string folder_;
  const LogWriterOptions options_;

  // The thread's own, once it runs. Null: a file is to be begun.
  std::unique_ptr<EventWriter> file_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<tensorflow::Event> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // When the events that wait shall be written; in the past: now.
  absl::Time due_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  int64_t added_ ABSL_GUARDED_BY(mu_) = 0;    // Events that were put into `waiting_`.
  int64_t handled_ ABSL_GUARDED_BY(mu_) = 0;  // Those of them that are written, or lost.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status last_ ABSL_GUARDED_BY(mu_);   // Of the last write.
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // The first.
  int64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t non_finite_ ABSL_GUARDED_BY(mu_) = 0;
  std::string path_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SUMMARY_LOG_WRITER_H_
