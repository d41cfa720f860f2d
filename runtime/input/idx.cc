// Idx: items of IDX files, one file a component. Attributes: paths.
#include "core/base/status.h"
#include "runtime/input/idx_file.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

absl::StatusOr<OpenedStagePtr> OpenIdx(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  if (paths->strings.empty()) {
    return errors::InvalidArgument("Idx: the data set is empty: no files were given");
  }
  std::vector<Column> columns;
  for (const std::string& path : paths->strings) {
    absl::StatusOr<Tensor> tensor = ReadIdxFile(path);
    if (!tensor.ok()) return WithContext(tensor.status(), "Idx");
    if (!columns.empty() && tensor->shape().dim(0) != columns[0].data.shape().dim(0)) {
      return errors::InvalidArgument("Idx: ", path, ", offset 4: found ", tensor->shape().dim(0),
                                     " items, expected ", columns[0].data.shape().dim(0), " as in ",
                                     paths->strings[0]);
    }
    Shape row = tensor->shape();
    row.RemoveDim(0);
    columns.push_back({*std::move(tensor), std::move(row)});
  }
  return MakeTableStage("Idx", std::make_unique<ColumnRows>(std::move(columns)));
}

const bool registered = RegisterStage("Idx", /*inputs=*/0, OpenIdx);

}  // namespace
}  // namespace tandem::data
