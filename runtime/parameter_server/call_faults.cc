#include "runtime/parameter_server/call_faults.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

constexpr char kVariable[] = "TANDEM_PARAMETER_FAULTS";

bool ReadProbability(absl::string_view text, double* value) {
  return absl::SimpleAtod(text, value) && *value >= 0 && *value <= 1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CallFaults>> CallFaults::Parse(absl::string_view text) {
  Options options;
  for (const absl::string_view entry : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    bool is_read = false;
    if (field.first == "lose") {
      is_read = ReadProbability(field.second, &options.lose);
    } else if (field.first == "double") {
      is_read = ReadProbability(field.second, &options.twice);
    } else if (field.first == "seed") {
      is_read = absl::SimpleAtoi(field.second, &options.seed);
    } else if (field.first == "method") {
      options.method = std::string(field.second);
      is_read = !options.method.empty();
    }
    if (!is_read) {
      return errors::InvalidArgument("'", entry,
                                     "': faults are lose=<probability>, double=<probability>, "
                                     "seed=<number>, method=<name>");
    }
  }
  return std::make_shared<CallFaults>(std::move(options));
}

absl::StatusOr<std::shared_ptr<CallFaults>> CallFaults::FromEnvironment() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return std::shared_ptr<CallFaults>();
  absl::StatusOr<std::shared_ptr<CallFaults>> faults = Parse(text);
  if (!faults.ok()) return WithContext(faults.status(), kVariable);
  return faults;
}

CallFaults::Decision CallFaults::Next(absl::string_view method) {
  Decision decision;
  if (!options_.method.empty() && options_.method != method) return decision;
  std::uniform_real_distribution<double> uniform(0, 1);
  MutexLock lock(mu_);
  const double loss = uniform(random_);
  decision.loses_request = loss < options_.lose / 2;
  decision.loses_answer = !decision.loses_request && loss < options_.lose;
  decision.comes_twice = uniform(random_) < options_.twice && !decision.loses_request;
  if (decision.loses_request || decision.loses_answer || decision.comes_twice) ++count_;
  return decision;
}

int64_t CallFaults::count() const {
  MutexLock lock(mu_);
  return count_;
}

}  // namespace tandem::parameter_server
