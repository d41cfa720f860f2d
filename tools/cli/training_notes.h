// What a checkpoint tells of the training that wrote it (strategies/trainer/training_state.h), for
// people and for programs.
#ifndef TANDEM_TOOLS_CLI_TRAINING_NOTES_H_
#define TANDEM_TOOLS_CLI_TRAINING_NOTES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/checkpoint.h"
#include "strategies/trainer/training_state.h"

namespace tandem::cli {

struct TrainingNotes {
  TrainingState state;  // Without what callbacks and the strategy keep, which may be large.
  std::vector<std::string> callbacks;  // Their names.
};
// FailedPrecondition: no training wrote the checkpoint. DataLoss: a note is damaged.
absl::StatusOr<TrainingNotes> ReadTrainingNotes(const Checkpoint& checkpoint);

// Lines, each with its end; the results of the epochs as a table.
std::string TrainingText(const TrainingNotes& notes);
nlohmann::json TrainingJson(const TrainingNotes& notes);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_TRAINING_NOTES_H_
