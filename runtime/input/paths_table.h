// Sources whose elements are paths of files that were found when they were opened.
#ifndef TANDEM_RUNTIME_INPUT_PATHS_TABLE_H_
#define TANDEM_RUNTIME_INPUT_PATHS_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

// Rows of a path and, where there are labels, its label (int64). A state is refused when the paths
// are others than where it was saved: files came or went. `kind` lives as long as the process.
// REQUIRES: at least one path; as many labels.
absl::StatusOr<OpenedStagePtr> MakePathsStage(const char* kind, std::vector<std::string> paths,
                                              absl::optional<std::vector<int64_t>> labels);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_PATHS_TABLE_H_
