// What a record holds, for `tandem records head`.
#ifndef TANDEM_TOOLS_CLI_RECORD_TEXT_H_
#define TANDEM_TOOLS_CLI_RECORD_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tandem::cli {

// Lines, each with its end: the features of a tf.Example or tf.SequenceExample with their first
// values, or the first bytes of something else.
std::string RecordText(absl::string_view record);

// {"kind": "Example", "features": {…}}, {"kind": "SequenceExample", "context": {…},
// "feature_lists": {…}} or {"kind": "bytes", "base64": "…"}. Strings of features are in base64,
// too.
nlohmann::json RecordJson(absl::string_view record);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_RECORD_TEXT_H_
