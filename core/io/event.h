// Event files: what TensorBoard shows of a run. An event file is a record file (core/io/record.h)
// of Event messages, and the folder it lies in is the run. The values in it are made by
// core/io/summary.h.
//
//   TANDEM_ASSIGN_OR_RETURN(auto writer, EventWriter::Open(PosixFileSystem(), "logs/run1"));
//   TANDEM_ASSIGN_OR_RETURN(auto loss, ScalarSummary("loss", 0.5f));
//   TANDEM_RETURN_IF_ERROR(writer->WriteSummary(/*step=*/1, {loss}));
//
// Threads: one at a time for each object. There are none inside: an owner that wants events to
// arrive while nothing new is written calls FlushIfDue from its own.
#ifndef TANDEM_CORE_IO_EVENT_H_
#define TANDEM_CORE_IO_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/io/file.h"
#include "core/io/record.h"
#include "proto/event.pb.h"

namespace tensorflow {
class GraphDef;
class RunMetadata;
}  // namespace tensorflow

namespace tandem {

struct EventWriterOptions {
  // Gives the time of events and says when to flush. Outlives the writer.
  Clock* clock = Clock::Real();
  // Events are handed to the file system after so many of them, and when the last time was so long
  // ago.
  int64_t flush_events = 10;
  absl::Duration flush_interval = absl::Seconds(120);
  // Put behind the file's name, which TensorFlow makes of seconds, host, process and a number:
  // "events.out.tfevents.1700000000.host.4711.0.v2".
  std::string suffix = ".v2";
  // Part of the name; empty: the machine's.
  std::string host;
};

// After an error every call returns it; what was flushed before is safe.
class EventWriter {
 public:
  // Makes the folder where it is missing, and in it a file that nobody else has, which begins with
  // the version of the format and is flushed.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Open(FileSystem* files,
                                                           const std::string& directory,
                                                           const EventWriterOptions& options = {});
  // Closes the file, if Close was not called; errors are lost then.
  ~EventWriter();

  const std::string& path() const { return writer_->path(); }

  // An event without a time gets that of the clock. InvalidArgument: larger than a message can be
  // (2 GiB); the writer goes on.
  absl::Status Write(tensorflow::Event event);
  absl::Status WriteSummary(int64_t step, absl::Span<const tensorflow::Summary::Value> values);
  // For the graphs page. A run has one graph.
  absl::Status WriteGraph(const tensorflow::GraphDef& graph);
  // Where time and memory of one step went; shown beside the graph. `tag` names it and occurs once
  // in a run.
  absl::Status WriteRunMetadata(int64_t step, absl::string_view tag,
                                const tensorflow::RunMetadata& metadata);

  absl::Status Flush();
  // Flushes if there are events and the interval is over.
  absl::Status FlushIfDue();
  absl::Status Close();

 private:
  EventWriter(std::unique_ptr<RecordWriter> writer, const EventWriterOptions& options);

  const EventWriterOptions options_;
  const std::unique_ptr<RecordWriter> writer_;
  int64_t pending_ = 0;
  absl::Time last_flush_;
};

// Reads a file while it is being written, too.
class EventReader {
 public:
  static absl::StatusOr<std::unique_ptr<EventReader>> Open(FileSystem* files,
                                                           const std::string& path);

  // True: `event` is the next one. False: there is none yet; the file ends here, perhaps within an
  // event that is being written, and a later call finds what came meanwhile. DataLoss: the file is
  // damaged here, or a record is no event; nothing behind it is read.
  absl::StatusOr<bool> Read(tensorflow::Event* event);

  // Where the next event begins.
  int64_t position() const { return reader_->position(); }

 private:
  explicit EventReader(std::unique_ptr<RecordReader> reader) : reader_(std::move(reader)) {}

  const std::unique_ptr<RecordReader> reader_;
  absl::Status status_;
};

// The event files in a folder, in the order in which TensorBoard reads them: by name.
absl::StatusOr<std::vector<std::string>> ListEventFiles(FileSystem* files,
                                                        const std::string& directory);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_EVENT_H_
