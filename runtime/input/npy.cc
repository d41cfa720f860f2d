// Npy: rows of NumPy arrays, one .npy file a component. Attributes: paths. Npz: the same of arrays
// in one .npz file. Attributes: paths, names (none: all arrays of the file).
#include "core/io/npy.h"

#include "core/base/status.h"
#include "core/io/npz.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

// Adds an array as a component. `name` says in messages which it is.
absl::Status AddColumn(const std::string& kind, const std::string& name, Tensor array,
                       std::vector<Column>* columns) {
  if (array.shape().IsScalar() || array.shape().dim(0) == 0) {
    return errors::InvalidArgument(kind, ": ", name, ": found ", DataTypeName(array.dtype()),
                                   array.shape().DebugString(),
                                   ", expected an array with at least one row");
  }
  const int64_t rows = columns->empty() ? array.shape().dim(0) : (*columns)[0].data.shape().dim(0);
  if (array.shape().dim(0) != rows) {
    return errors::InvalidArgument(kind, ": ", name, ": found ", array.shape().dim(0),
                                   " rows, expected ", rows, " as the first array has");
  }
  Shape row = array.shape();
  row.RemoveDim(0);
  columns->push_back({std::move(array), std::move(row)});
  return absl::OkStatus();
}

absl::StatusOr<OpenedStagePtr> OpenNpy(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  if (paths->strings.empty()) {
    return errors::InvalidArgument("Npy: the data set is empty: no files were given");
  }
  std::vector<Column> columns;
  for (const std::string& path : paths->strings) {
    absl::StatusOr<Tensor> array = ReadNpy(path);
    if (!array.ok()) return WithContext(array.status(), "Npy");
    TANDEM_RETURN_IF_ERROR(AddColumn("Npy", path, *std::move(array), &columns));
  }
  return MakeTableStage("Npy", std::make_unique<ColumnRows>(std::move(columns)));
}

absl::StatusOr<OpenedStagePtr> OpenNpz(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string path, stage.String("paths"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const names, stage.List("names"));
  const absl::StatusOr<NpzReader> reader = NpzReader::Open(PosixFileSystem(), path);
  if (!reader.ok()) return WithContext(reader.status(), "Npz");
  const std::vector<std::string>& wanted =
      names->strings.empty() ? reader->names() : names->strings;
  if (wanted.empty()) return errors::InvalidArgument("Npz: ", path, ": holds no arrays");
  std::vector<Column> columns;
  for (const std::string& name : wanted) {
    absl::StatusOr<Tensor> array = reader->Read(name);
    if (!array.ok()) return WithContext(array.status(), "Npz");
    TANDEM_RETURN_IF_ERROR(
        AddColumn("Npz", absl::StrCat(path, ": '", name, "'"), *std::move(array), &columns));
  }
  return MakeTableStage("Npz", std::make_unique<ColumnRows>(std::move(columns)));
}

const bool registered =
    RegisterStage("Npy", /*inputs=*/0, OpenNpy) && RegisterStage("Npz", /*inputs=*/0, OpenNpz);

}  // namespace
}  // namespace tandem::data
