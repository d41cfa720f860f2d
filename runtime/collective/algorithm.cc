#include "runtime/collective/algorithm.h"

#include <algorithm>

#include "core/base/mutex.h"

namespace tandem::collective {
namespace {

struct Registry {
  Mutex mu;
  std::vector<const Algorithm*> algorithms ABSL_GUARDED_BY(mu);  // By name.
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

AlgorithmRegistration::AlgorithmRegistration(const Algorithm& algorithm) {
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  registry.algorithms.push_back(new Algorithm(algorithm));
  std::sort(registry.algorithms.begin(), registry.algorithms.end(),
            [](const Algorithm* a, const Algorithm* b) {
              return absl::string_view(a->name) < absl::string_view(b->name);
            });
}

std::vector<const Algorithm*> Algorithms() {
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  return registry.algorithms;
}

const Algorithm* FindAlgorithm(absl::string_view name) {
  for (const Algorithm* algorithm : Algorithms()) {
    if (name == algorithm->name) return algorithm;
  }
  return nullptr;
}

uint32_t AlgorithmNumber(absl::string_view name) {
  uint32_t number = 0x811c9dc5;  // FNV-1a.
  for (const char c : name) number = (number ^ static_cast<uint8_t>(c)) * 0x01000193;
  return number;
}

const char* AlgorithmName(uint32_t number) {
  for (const Algorithm* algorithm : Algorithms()) {
    if (AlgorithmNumber(algorithm->name) == number) return algorithm->name;
  }
  return "another algorithm";
}

}  // namespace tandem::collective
