// Kills the demo program while it trains, and resumes it.
#ifndef TANDEM_TESTS_RESUME_KILL_TRAINING_H_
#define TANDEM_TESTS_RESUME_KILL_TRAINING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::testing {

// Trains with these flags once undisturbed, and then with `kills` kills (SIGKILL) at moments
// between nothing and the time that the first training took, each of which is followed by a start
// with --resume. A training that is done before all kills are is begun anew. Fails unless every
// training ends with the bits of the undisturbed one: variables, slots, and what was noted of
// metrics. `seed` decides on the moments.
void KillAndCompare(const std::vector<std::string>& flags, int kills, uint32_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_RESUME_KILL_TRAINING_H_
