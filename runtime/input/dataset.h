// Dataset: an input pipeline as a value, put together step by step.
//
//   auto train = data::Mnist("tools/datasets/mnist").Shuffle(60000, /*seed=*/1).Batch(64);
//   for (uint64_t epoch = 0; epoch < 5; ++epoch) {
//     TANDEM_ASSIGN_OR_RETURN(auto iterator, train.Open(epoch));
//     for (;;) {
//       TANDEM_ASSIGN_OR_RETURN(auto batch, iterator->Next());
//       if (!batch) break;
//       …
//     }
//   }
//
// Nothing is read or checked before Open, whose status names the stage that is wrong. Copies are
// cheap and share what was loaded.
//
// Order: the sequence depends on the description, the seeds and the iteration's number alone, never
// on threads.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_INPUT_DATASET_H_
#define TANDEM_RUNTIME_INPUT_DATASET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/input/element.h"
#include "runtime/input/iterator.h"
#include "runtime/input/stage.h"

namespace tandem::data {

struct ShuffleOptions {
  // Draws another order in each iteration; else all iterations have the order of the first.
  bool reshuffle = true;
};

struct MapOptions {
  // Calls of the function at the same time. 0: one for each core. 1: on the reading thread.
  int threads = 1;
};

struct PaddedBatchOptions {
  bool drop_remainder = false;
  // For each component the sizes to pad to; -1, or no shapes at all: the largest in the batch.
  std::vector<std::vector<int64_t>> shapes;
  // For each component a scalar of its type; none at all: zeros and empty strings.
  std::vector<Tensor> values;
};

struct InterleaveOptions {
  int64_t cycle = 4;  // Data sets that are read at the same time.
  int64_t block = 1;  // Elements from one before the next one's turn.
};

struct CsvOptions {
  // One for each field of a line: float32, float64, int32, int64, bool or string.
  std::vector<DataType> types;
  bool header = true;  // The first line of each file has names, and is skipped.
  char delimiter = ',';
};

class Dataset {
 public:
  explicit Dataset(StagePtr stage) : stage_(std::move(stage)) {}

  // Sources. Those of files read them plain or gzipped, as their contents are.

  // Element i is row i of each tensor. Open: InvalidArgument when there is none, a scalar, tensors
  // of different first sizes, or no row.
  static Dataset FromTensors(std::vector<Tensor> tensors);
  // int64 scalars start, start + step, … before stop. Open: InvalidArgument for a step of 0.
  static Dataset Range(int64_t start, int64_t stop, int64_t step = 1);
  static Dataset Range(int64_t stop) { return Range(0, stop); }
  // Element i is item i of each file, in the file's type. The files have the IDX format and as many
  // items as one another. A path without .gz also finds the file that has it. Open: NotFound;
  // DataLoss for a file that is cut off, or goes on after its data; InvalidArgument when a file is
  // no IDX file, holds no item, or the numbers of items differ. Messages have file, offset, what
  // was expected and what was found.
  static Dataset Idx(std::vector<std::string> paths);
  // A string scalar for each line, without its end. Open: NotFound. Next: DataLoss for a damaged
  // gzip file.
  static Dataset TextLines(std::vector<std::string> paths);
  // A scalar for each field of a record (RFC 4180: fields may be quoted, and then hold delimiters,
  // line ends and doubled quotes). Empty lines are skipped. Open: NotFound. Next: InvalidArgument
  // with file, line, field for what is no value of the field's type.
  static Dataset Csv(std::vector<std::string> paths, CsvOptions options);

  // Stages.

  // Keeps a buffer of so many elements and gives a random one of them each time: a uniform shuffle
  // when the data set fits into it. Open: InvalidArgument for a buffer below 1.
  Dataset Shuffle(int64_t buffer, uint64_t seed, ShuffleOptions options = {}) const;
  // Elements of a function registered by name (functions.h), in the order of the input. Open:
  // InvalidArgument when there is no such function. Next: the function's error, with the element's
  // index.
  Dataset Map(std::string function, MapOptions options = {}) const;
  // Stacks n elements of equal types and shapes; the last batch may be smaller unless
  // drop_remainder. Open: InvalidArgument for n below 1. Next: InvalidArgument, with the element's
  // index, when shapes differ. An error among its elements takes the whole batch with it.
  Dataset Batch(int64_t n, bool drop_remainder = false) const;
  // As Batch, after padding each component at the ends of its dimensions.
  Dataset PaddedBatch(int64_t n, PaddedBatchOptions options = {}) const;
  // `count` iterations in a row; -1: without end (InvalidArgument from Next if one is empty).
  Dataset Repeat(int64_t count = -1) const;
  // The elements i, i + n, i + 2n, … Open: InvalidArgument unless 0 <= i < n.
  Dataset Shard(int64_t n, int64_t i) const;
  Dataset Take(int64_t count) const;  // All, when count is -1.
  Dataset Skip(int64_t count) const;  // All, when count is -1.
  // A registered function makes a data set of each element; theirs are read in turn.
  Dataset Interleave(std::string function, InterleaveOptions options = {}) const;
  // A thread of its own reads up to n elements ahead. Open: InvalidArgument for n below 1.
  Dataset Prefetch(int64_t n) const;
  // Keeps in memory what a complete pass gave, for later ones. Its input is always read as in
  // iteration 0: a shuffle before it has one order for ever.
  Dataset Cache() const;

  // Begins iteration number `iteration`. The first call loads the files of sources that keep their
  // data in memory.
  absl::StatusOr<std::unique_ptr<Iterator>> Open(uint64_t iteration = 0) const;

  // The number of elements of an iteration, kInfiniteCardinality or kUnknownCardinality. Opens the
  // stages.
  absl::StatusOr<int64_t> Cardinality() const;

  // As a serialized tandem.InputStage, which another process can turn back; functions go by their
  // names, files by their paths.
  absl::StatusOr<std::string> Serialize() const;
  static absl::StatusOr<Dataset> Parse(absl::string_view bytes);

  const StagePtr& stage() const { return stage_; }

 private:
  Dataset Then(std::string kind, Stage::Attrs attrs) const;

  StagePtr stage_;
};

enum class MnistSplit { kTrain, kTest };

struct MnistOptions {
  MnistSplit split = MnistSplit::kTrain;
  DataType label_type = kInt64;  // Or int32.
};

// The MNIST digits, or any set in the same four files: an image, float32[28,28,1] from 0 to 1, and
// its label, a scalar. `directory` holds the files under their usual names, plain or gzipped. Open:
// as Idx; a file that is labelled as the other kind, or has images of other sizes or labels above
// 9, is InvalidArgument.
Dataset Mnist(std::string directory, MnistOptions options = {});

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_DATASET_H_
