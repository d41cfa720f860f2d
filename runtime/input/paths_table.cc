#include "runtime/input/paths_table.h"

#include <algorithm>
#include <memory>

#include "core/base/status.h"
#include "core/io/crc32c.h"
#include "runtime/input/table.h"

namespace tandem::data {

absl::StatusOr<OpenedStagePtr> MakePathsStage(const char* kind, std::vector<std::string> paths,
                                              absl::optional<std::vector<int64_t>> labels) {
  uint32_t fingerprint = 0;
  for (const std::string& path : paths) {
    // With the zero at its end, which no path contains.
    fingerprint = ExtendCrc32c(fingerprint, path.c_str(), path.size() + 1);
  }
  const Shape shape({static_cast<int64_t>(paths.size())});
  std::vector<Column> columns;
  TANDEM_ASSIGN_OR_RETURN(Tensor names, Tensor::Create(kString, shape));
  std::move(paths.begin(), paths.end(), names.MutableElements<std::string>().begin());
  columns.push_back({std::move(names), Shape()});
  if (labels) {
    TANDEM_ASSIGN_OR_RETURN(Tensor numbers, Tensor::Create(kInt64, shape));
    std::copy(labels->begin(), labels->end(), numbers.MutableElements<int64_t>().begin());
    columns.push_back({std::move(numbers), Shape()});
  }
  return MakeTableStage(kind, std::make_unique<ColumnRows>(std::move(columns)), fingerprint);
}

}  // namespace tandem::data
