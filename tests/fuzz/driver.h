// Runs a fuzz target over its corpus and over inputs made from it. The words are
//   [--seed=N] [--runs=N] FILE…
// besides GoogleTest's.
//
// The inputs are the same in every run with the same seed: g++ has no coverage to steer by. The one
// that is being tried lies in the file "input" of the test's outputs, so that a crash leaves it
// there. tests/fuzz/libfuzzer.sh runs the same targets with clang's fuzzer, which has.
#ifndef TANDEM_TESTS_FUZZ_DRIVER_H_
#define TANDEM_TESTS_FUZZ_DRIVER_H_

namespace tandem {

// What main() returns.
int RunFuzzTarget(int argc, char** argv);

}  // namespace tandem

#endif  // TANDEM_TESTS_FUZZ_DRIVER_H_
