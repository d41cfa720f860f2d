// The hyperparameters of a run, as its log has them (core/io/summary.h).
#ifndef TANDEM_CORE_IO_HYPERPARAMETERS_H_
#define TANDEM_CORE_IO_HYPERPARAMETERS_H_

#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/types/variant.h"

namespace tandem {

class HyperparameterValue {
 public:
  // Implicit, so that {{"rate", 0.1}, {"optimizer", "adam"}, {"nesterov", true}} reads well.
  HyperparameterValue(const char* text) : value_(std::string(text)) {}  // NOLINT
  HyperparameterValue(std::string text) : value_(std::move(text)) {}    // NOLINT
  HyperparameterValue(bool flag) : value_(flag) {}                      // NOLINT
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  HyperparameterValue(T number) : value_(static_cast<double>(number)) {}  // NOLINT

  const absl::variant<bool, double, std::string>& value() const { return value_; }

 private:
  absl::variant<bool, double, std::string> value_;
};
using Hyperparameters = std::map<std::string, HyperparameterValue>;

enum class RunStatus { kUnknown = 0, kSuccess = 1, kFailure = 2, kRunning = 3 };

}  // namespace tandem

#endif  // TANDEM_CORE_IO_HYPERPARAMETERS_H_
