// Kinds of stages that apply a function to each element, in order, on several threads: Map, and
// those whose function is built in.
#ifndef TANDEM_RUNTIME_INPUT_MAP_H_
#define TANDEM_RUNTIME_INPUT_MAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/input/functions.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

// The stage, over its opened input. Its attribute threads: 0, one for each core; 1, the reading
// thread. `label` begins messages. InvalidArgument: too many threads.
absl::StatusOr<OpenedStagePtr> OpenMapStage(const Stage& stage, std::string label,
                                            MapFunction function);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_MAP_H_
