// Checkpoint: a checkpoint that is there, written by Tandem or TensorFlow, with any number of
// shards. Load, below, gets what a program wants out of one.
//
// Tensors are known by their name in the checkpoint; by the name of the variable in the program
// that wrote it; or, where TensorFlow 2 or Keras wrote it, by the path of their object
// (object_graph.h).
#ifndef TANDEM_RUNTIME_CHECKPOINT_CHECKPOINT_H_
#define TANDEM_RUNTIME_CHECKPOINT_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/io/bundle_reader.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"
#include "runtime/checkpoint/object_graph.h"
#include "runtime/checkpoint/write.h"

namespace tandem {

// Names of this beginning are those of notes: what Tandem keeps beside the variables of a program,
// such as where a run stands in its data. They are read as other tensors are, and not listed.
inline constexpr char kNotePrefix[] = "_tandem/";

// Threads: any; does not change. Lifetime: `files` outlives it.
class Checkpoint {
 public:
  struct Options {
    FileSystem* files = PosixFileSystem();
    // Open reads everything and compares the sums. Off: what is read later is compared then.
    bool verify = true;
  };
  // A checkpoint of a folder that cannot be loaded, and why.
  using PassedOver = std::pair<std::string, absl::Status>;

  // Opens a checkpoint: `path` is its prefix or one of its files; or a folder, whose newest good
  // one it is. Newer ones that are damaged or incomplete are passed over, with a line in the log
  // that says which and why.
  //   NotFound  there is none.
  //   DataLoss  it is damaged, or all of the folder are; the message says how each.
  // and errors of the files.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                                          const Options& options);
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path) {
    return Open(path, Options());
  }

  // The same, with more to do before a checkpoint counts as good: `accept` reads what it needs. One
  // for which it returns DataLoss, or Unknown (the disk failed), is passed over; any other error is
  // final.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAccepted(
      const std::string& path, const Options& options,
      absl::FunctionRef<absl::Status(const Checkpoint&)> accept);

  const std::string& prefix() const { return reader_->prefix(); }
  const BundleReader& bundle() const { return *reader_; }
  // Null: it has none, as TensorFlow 1 and Tandem write.
  const ObjectGraph* objects() const { return objects_.has_value() ? &*objects_ : nullptr; }
  // Newer ones of the folder that Open passed over, the newest first.
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }

  // The names of the tensors, sorted, without the graph of objects and notes.
  std::vector<std::string> Names() const;
  // The name in the checkpoint of what is called `name`, in one of the three ways. NotFound
  // suggests near names.
  absl::StatusOr<std::string> Resolve(absl::string_view name) const;
  // A tensor that is called `name` in one of the three ways. Errors: those of Resolve and of
  // BundleReader::Read.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // Reads everything and compares the sums. The first error.
  absl::Status Verify() const;

 private:
  explicit Checkpoint(std::unique_ptr<BundleReader> reader) : reader_(std::move(reader)) {}

  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPrefix(const std::string& prefix,
                                                                const Options& options);
  absl::Status ReadObjects();

  std::unique_ptr<BundleReader> reader_;
  absl::optional<ObjectGraph> objects_;
  // Empty: several have the name.
  std::map<std::string, std::string, std::less<>> keys_by_full_name_;
  std::vector<PassedOver> passed_over_;
};

// True for what Checkpoint::Names leaves out.
bool IsBookkeeping(absl::string_view name);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_CHECKPOINT_H_
