#include "runtime/input/functions.h"

#include <map>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem::data {
namespace {

template <typename Function>
class Registry {
 public:
  // Never destroyed.
  static Registry& Process() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  bool Add(std::string name, Function function) {
    MutexLock lock(mu_);
    return functions_.emplace(std::move(name), std::move(function)).second;
  }

  absl::StatusOr<const Function*> Find(const char* stage, const std::string& name) {
    MutexLock lock(mu_);
    const auto found = functions_.find(name);
    if (found != functions_.end()) return &found->second;
    std::string names;
    for (const auto& [known, function] : functions_) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", known);
    }
    return errors::InvalidArgument(
        stage, ": no function '", name, "' is registered in this process; there ",
        names.empty() ? "are none" : absl::StrCat("are ", names), " (runtime/input/functions.h)");
  }

 private:
  Mutex mu_;
  // A map's entries stay where they are.
  std::map<std::string, Function> functions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

bool RegisterMapFunction(std::string name, MapFunction function) {
  return Registry<MapFunction>::Process().Add(std::move(name), std::move(function));
}

bool RegisterDatasetFunction(std::string name, DatasetFunction function) {
  return Registry<DatasetFunction>::Process().Add(std::move(name), std::move(function));
}

absl::StatusOr<const MapFunction*> FindMapFunction(const std::string& name) {
  return Registry<MapFunction>::Process().Find("Map", name);
}

absl::StatusOr<const DatasetFunction*> FindDatasetFunction(const std::string& name) {
  return Registry<DatasetFunction>::Process().Find("Interleave", name);
}

}  // namespace tandem::data
