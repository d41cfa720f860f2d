// Algorithms of collective operations: functions that write a member's schedule. One a file in
// algorithms/, registered there; docs/adding/collective.md says how to add one.
#ifndef TANDEM_RUNTIME_COLLECTIVE_ALGORITHM_H_
#define TANDEM_RUNTIME_COLLECTIVE_ALGORITHM_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/collective/schedule.h"

namespace tandem::collective {

struct Algorithm {
  const char* name = "";
  // Steps one after the other and bytes that a member sends, for an all-reduce (or what the
  // algorithm is for) of b bytes over n members.
  const char* cost = "";
  bool (*solves)(const Problem& problem) = nullptr;
  // REQUIRES: solves(problem), and size > 1. Every member's schedule is written by the same call,
  // but for the rank: messages between two members must be posted by both in the same order. All
  // members must get the same bits.
  void (*build)(const Problem& problem, ScheduleBuilder& b) = nullptr;
};

struct AlgorithmRegistration {
  explicit AlgorithmRegistration(const Algorithm& algorithm);
};

// All that are registered, by name.
std::vector<const Algorithm*> Algorithms();
// Null: there is none of this name.
const Algorithm* FindAlgorithm(absl::string_view name);

// A number for messages; equal in all processes.
uint32_t AlgorithmNumber(absl::string_view name);
// "another algorithm" when none has the number.
const char* AlgorithmName(uint32_t number);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_ALGORITHM_H_
