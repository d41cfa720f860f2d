// Writes a data set as record files, which Dataset::Records reads.
//
//   TANDEM_ASSIGN_OR_RETURN(auto iterator, dataset.Open());
//   TANDEM_ASSIGN_OR_RETURN(
//       const int64_t written,
//       data::WriteRecords(*iterator, PosixFileSystem(), "digits.tfrecord",
//                          {.features = {"image", "label"}, .shards = 4}));
#ifndef TANDEM_RUNTIME_INPUT_WRITE_RECORDS_H_
#define TANDEM_RUNTIME_INPUT_WRITE_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/io/file.h"
#include "core/io/record.h"
#include "runtime/input/iterator.h"

namespace tandem::data {

struct WriteRecordsOptions {
  // Names of the components: an element becomes a tf.Example with a feature for each. None: an
  // element is one string, and that is the record.
  std::vector<std::string> features;
  // More than one: files "PATH-00000-of-00004", "PATH-00001-of-00004", …, to which the elements go
  // in turn.
  int64_t shards = 1;
  RecordWriterOptions records;
};

// Writes what the iterator gives from here on, and returns how many elements that were. The files
// have their names when all of them are complete and on disk, and not before; after an error those
// that were there are the old ones (when giving the names failed, some may be new). The folder must
// be there.
//
// Threads: the calling one; Iterator::Cancel from another ends it.
// Errors: the iterator's; InvalidArgument for elements of other components, with their index, and
// impossible options; the file system's.
absl::StatusOr<int64_t> WriteRecords(Iterator& iterator, FileSystem* files, const std::string& path,
                                     const WriteRecordsOptions& options = {});

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_WRITE_RECORDS_H_
