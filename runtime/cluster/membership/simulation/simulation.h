// Simulation: a job of several processes under a virtual clock, with a network, an arbiter, a disk
// and processes that fail in all ways that a seed can think of, and with a simple synchronous
// training on top of each node. The same seed gives the same run, event by event.
//
// For the first minute faults happen: messages are lost, late, twice and out of order; links are
// cut in one or both directions; processes crash, are started again, stand still, are told to
// leave, and give their group up; the arbiter and the disk are slow or gone. Then all heals, and a
// bounded time later the job has to train again, with everybody.
//
// After each event these are checked:
//   - a generation (run and number) is the same wherever it is seen: it has one chief
//   - a process leaves a group before it enters another, and enters only groups that it is part of
//   - a barrier opens only when all members of its generation have come
//   - no completed step is lost to a process that has it; what counts as committed, all have
//   - no chief writes a checkpoint once a later generation has started, and checkpoints' steps
//   never
//     go back
//   - all members save at the step that they agreed on
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_SIMULATION_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cluster/membership/options.h"

namespace tandem::membership {

struct SimulationOptions {
  uint64_t seed = 0;
  Mutation mutation = Mutation::kNone;
  // Of the faults that the seed makes, those with these numbers do not happen.
  std::vector<int> without_faults;
  bool logs = false;
};

struct SimulationResult {
  // What was violated; empty: nothing.
  std::string failure;
  std::vector<std::string> log;
  int num_faults = 0;
  // What the run has seen, to know that it was worth while.
  int num_generations = 0;
  int num_elections = 0;  // Generations whose chief is not that of the one before.
  int num_barriers = 0;
  int num_saves = 0;
  int num_refused_writes = 0;
  int num_stops = 0;
  int64_t steps = 0;
  double recovery_seconds = 0;  // From the end of the faults until all train.
};

SimulationResult Simulate(const SimulationOptions& options);

// Leaves out one fault after the other while it still fails. The result of the shortest, with its
// log.
SimulationResult Shrink(SimulationOptions options);

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_SIMULATION_SIMULATION_H_
