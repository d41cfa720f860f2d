// What tests of input pipelines share.
#ifndef TANDEM_RUNTIME_INPUT_INPUT_TEST_UTIL_H_
#define TANDEM_RUNTIME_INPUT_INPUT_TEST_UTIL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/input/dataset.h"

namespace tandem::data {

// What an iterator gives from here to its end or first error, each element as text; an error is the
// last entry, "error: …".
std::vector<std::string> Rest(Iterator& iterator);
// The same of a whole iteration; what Open refuses is an error too.
std::vector<std::string> All(const Dataset& dataset, uint64_t iteration = 0);
// The first components of an iteration of int64 tensors, joined. Fails the test on an error.
std::vector<int64_t> Ints(const Dataset& dataset, uint64_t iteration = 0);

// Saves at every position of iteration 1 and expects that a fresh iterator over an equal data set
// (from its serialized form) goes on as the first one does, and that it does so again from a state
// of its own.
void ExpectSameAfterRestoreEverywhere(const Dataset& dataset);

// What Open says.
absl::Status OpenStatus(const Dataset& dataset);
// The first error of an iteration.
absl::Status FirstError(const Dataset& dataset);

// A file in a folder of this test's own; gone with the test's process.
std::string WriteFile(const std::string& name, absl::string_view contents);
std::string Gzip(absl::string_view contents);
// An IDX file's contents.
std::string IdxBytes(uint32_t magic, const std::vector<uint32_t>& sizes, absl::string_view values);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_INPUT_TEST_UTIL_H_
