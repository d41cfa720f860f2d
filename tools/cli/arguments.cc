#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kExitCode[] = "tandem/exit_code";

}  // namespace

void SetExitCode(absl::Status* status, int code) {
  status->SetPayload(kExitCode, absl::Cord(absl::StrCat(code)));
}

absl::optional<int> ExitCodeOf(const absl::Status& status) {
  const absl::optional<absl::Cord> text = status.GetPayload(kExitCode);
  int code = 0;
  if (!text.has_value() || !absl::SimpleAtoi(std::string(*text), &code)) return absl::nullopt;
  return code;
}

absl::StatusOr<Arguments> Arguments::Parse(const std::vector<std::string>& words,
                                           const std::vector<std::string>& with_value,
                                           const std::vector<std::string>& switches) {
  Arguments result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!absl::StartsWith(word, "--") || word == "--") {
      result.positional_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (absl::c_linear_search(switches, name)) {
      if (equals != std::string::npos) {
        return errors::InvalidArgument("--", name, " takes no value");
      }
      result.flags_.emplace_back(name, "");
    } else if (absl::c_linear_search(with_value, name)) {
      if (equals != std::string::npos) {
        result.flags_.emplace_back(name, word.substr(equals + 1));
      } else if (i + 1 < words.size()) {
        result.flags_.emplace_back(name, words[++i]);
      } else {
        return errors::InvalidArgument("--", name, " wants a value: --", name, "=…");
      }
    } else {
      std::vector<std::string> known(with_value);
      known.insert(known.end(), switches.begin(), switches.end());
      return errors::InvalidArgument("there is no flag --", name, DidYouMean(name, known));
    }
  }
  return result;
}

std::vector<std::string> Arguments::All(absl::string_view flag) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : flags_) {
    if (name == flag) values.push_back(value);
  }
  return values;
}

std::string Arguments::Last(absl::string_view flag, absl::string_view otherwise) const {
  const std::vector<std::string> values = All(flag);
  return values.empty() ? std::string(otherwise) : values.back();
}

bool Arguments::Has(absl::string_view flag) const { return !All(flag).empty(); }

}  // namespace tandem::cli
