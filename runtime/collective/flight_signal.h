// SIGUSR2 writes the flight records of all groups of this process.
#ifndef TANDEM_RUNTIME_COLLECTIVE_FLIGHT_SIGNAL_H_
#define TANDEM_RUNTIME_COLLECTIVE_FLIGHT_SIGNAL_H_

#include "absl/status/status.h"

namespace tandem::collective {

class Group;

// From now on SIGUSR2 writes them (in a thread of its own), instead of ending the process. Calls
// after the first change nothing. For programs; a library leaves signals alone.
absl::Status WriteFlightRecordsOnSignal();

// What the signal does.
void WriteAllFlightRecords(const char* why);

// Groups enter and leave by themselves.
void AddToFlightSignal(const Group* group);
void RemoveFromFlightSignal(const Group* group);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_FLIGHT_SIGNAL_H_
