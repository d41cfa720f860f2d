// SummaryFile: the writer of summaries that graphs of TensorFlow 2 have as a resource. It is made
// with its handle (SummaryWriter), begins a file (core/io/event.h) when the graph says into which
// folder (CreateSummaryFileWriter), and is forgotten when it is closed (CloseSummaryWriter).
//
// Threads: any; but kernels call what waits for the disk on a file thread (file_thread.h).
#ifndef TANDEM_KERNELS_IO_SUMMARY_WRITER_H_
#define TANDEM_KERNELS_IO_SUMMARY_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/io/event.h"
#include "core/io/file.h"
#include "core/kernel/kernel.h"
#include "core/kernel/resource.h"

namespace tandem::io {

class SummaryFile final : public Resource {
 public:
  explicit SummaryFile(std::string name) : name_(std::move(name)) {}

  // Begins a file, unless there is one: that goes on, wherever it lies. `files` outlives the
  // writer. Errors: EventWriter::Open's.
  absl::Status Begin(FileSystem* files, const std::string& folder,
                     const EventWriterOptions& options);
  // NotFound: no file was begun, or the writer was closed. Errors of the file come again with every
  // call.
  absl::Status Write(tensorflow::Event event);
  absl::Status Flush();
  absl::Status Close();

  std::string DebugString() const override { return "summary writer"; }

 private:
  absl::Status CheckBegun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  Mutex mu_;
  std::unique_ptr<EventWriter> writer_ ABSL_GUARDED_BY(mu_);
};

// The writer that input 0 is the handle of. NotFound: it was closed, or is another process's.
// InvalidArgument: the input is no scalar, is empty, or leads to something else.
absl::StatusOr<RefPtr<SummaryFile>> WriterInput(KernelContext& c);

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_SUMMARY_WRITER_H_
