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
#include "absl/types/optional.h"
#include "core/io/compression.h"
#include "core/io/example_parser.h"
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
  // One for each field of a record, or for each of `columns`: float32, float64, int32, int64, bool
  // or string.
  std::vector<DataType> types;
  bool header = true;  // The first record of each file has names, and is no element.
  char delimiter = ',';
  // Double quotes are special. Else they are characters like others, and a line is a record.
  bool quotes = true;
  // The columns that are wanted, in this order, by the names in each file's header; without headers
  // by their numbers, from "0". None at all: every field.
  std::vector<std::string> columns;
  // None at all, or one for each type: a scalar that stands in for an empty field and for one that
  // reads `missing`, or Tensor() where there is no such thing. Without, an empty field is an empty
  // string, and an error in other types.
  std::vector<Tensor> defaults;
  std::string missing;
};

struct RecordsOptions {
  // Nothing: as the contents of each file show.
  absl::optional<Compression> compression;
  // Go on behind damaged records, and count them (Iterator::damaged). Else they are errors.
  bool skip_damaged = false;
};

struct ImageOptions {
  // Resized to this size, bilinearly and whatever the shape was; 0, 0: as it is.
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;           // 1 gray, 3 colours, 4 with alpha (PNG only); 0: as in the file.
  DataType dtype = kFloat32;  // float32 from 0 to 1, or uint8.
  int threads = 0;            // As MapOptions has them.
};

class Dataset {
 public:
  explicit Dataset(StagePtr stage) : stage_(std::move(stage)) {}

  // Sources. Idx, TextLines and Csv read files plain or gzipped, as their contents are.

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
  // with file, line, field for what is no value of the field's type, and for a column that a file
  // does not have.
  static Dataset Csv(std::vector<std::string> paths, CsvOptions options);
  // A string for each record of TFRecord files (core/io/record.h). Open: NotFound. Next: DataLoss,
  // with file and offset, for a damaged record; the data set does not go on behind it.
  static Dataset Records(std::vector<std::string> paths, RecordsOptions options = {});
  // Row i of each array, as FromTensors; one array a file, or arrays of one file by their names
  // (none: all of them, in the file's order). Open: InvalidArgument for a file that is damaged or
  // of a kind that core/io/npy.h does not read, for an array without rows, for different numbers of
  // them; NotFound.
  static Dataset Npy(std::vector<std::string> paths);
  static Dataset Npz(std::string path, std::vector<std::string> names = {});
  // The paths of the files that match at least one of the patterns, in ascending order of their
  // bytes, each once. In a pattern *, ? and [a-z] stand for parts of one name. Files are looked for
  // when the data set is opened; a saved position is refused when there are others by then. Open:
  // NotFound for a pattern that matches no file.
  //
  //   Files({"train-*.tfrecord"})
  //       .Shuffle(10000, seed)                                 // The files.
  //       .Shard(workers, worker)                               // Some files for each worker.
  //       .InterleaveFiles(Dataset::Records({}), {.cycle = 8})
  //       .Shuffle(10000, seed)                                 // The records.
  //
  // A Shard behind InterleaveFiles gives each worker some records of all files.
  static Dataset Files(std::vector<std::string> patterns);
  // The images (.png, .jpg, .jpeg) of a folder whose sub-folders are classes: the path of each,
  // which may lie in further folders, and its label, an int64 scalar; by class and path. The labels
  // are indices into ImageClasses (image_files.h). Open: NotFound; InvalidArgument when there is no
  // class or no image.
  //
  //   ImageFiles("flowers").Shuffle(100000, seed).ReadImages({.height = 224, .width = 224})
  static Dataset ImageFiles(std::string directory);

  // Stages.

  // Keeps a buffer of so many elements and gives a random one of them each time: a uniform shuffle
  // when the data set fits into it. Open: InvalidArgument for a buffer below 1.
  Dataset Shuffle(int64_t buffer, uint64_t seed, ShuffleOptions options = {}) const;
  // Elements of a function registered by name (functions.h), in the order of the input. Open:
  // InvalidArgument when there is no such function. Next: the function's error, with the element's
  // index.
  Dataset Map(std::string function, MapOptions options = {}) const;
  // Elements that are serialized tf.Examples, a string or (after Batch) a vector of them, become
  // the tensors of their features, in the order of `features` and in the shapes that
  // core/io/example_parser.h has. What a feature gives:
  //   fixed, padded  values
  //   sparse         indices, values, dense_shape
  //   ragged         values, and of a batch row_splits
  // Open: InvalidArgument for impossible features. Next: InvalidArgument with the element's index
  // for what is no example or lacks a feature.
  Dataset ParseExamples(std::vector<FeatureSpec> features, MapOptions options = {}) const;
  // The same of tf.SequenceExamples; one string is a batch of one. The tensors of the context's
  // features come first. In feature lists padded gives values and lengths; ragged gives values,
  // row_splits and inner_row_splits.
  Dataset ParseSequenceExamples(std::vector<FeatureSpec> context,
                                std::vector<FeatureSpec> feature_lists,
                                MapOptions options = {}) const;
  // The first component, a string with the bytes of a PNG or JPEG file, becomes the image [height,
  // width, channels]; the others stay. Next: the error of core/io/image.h, with the element's
  // index.
  Dataset DecodeImages(ImageOptions options = {}) const;
  // The same where the first component is the path of such a file. Messages have it, too.
  Dataset ReadImages(ImageOptions options = {}) const;
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
  // The elements of this data set are paths; of each, `each` is read with that path in place of the
  // paths (or the path) of its source. Open: InvalidArgument when `each` does not begin with files.
  Dataset InterleaveFiles(const Dataset& each, InterleaveOptions options = {}) const;
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
