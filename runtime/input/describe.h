// Descriptions of input pipelines that tell whether two of them give the same elements.
#ifndef TANDEM_RUNTIME_INPUT_DESCRIBE_H_
#define TANDEM_RUNTIME_INPUT_DESCRIBE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/input/stage.h"

namespace tandem::data {

// A line for each stage, in the order in which elements go through them:
//
//   Range(start=0, step=1, stop=100)
//   Shuffle(buffer=100, reshuffle=1, seed=7)
//   Batch(drop_remainder=0, size=8)
//
// Equal descriptions mean equal elements, as long as files and functions of the same names are the
// same; what does not change elements is left out: Prefetch, and numbers of threads. Tensors and
// long lists go by their sizes and their checksums (CRC-32C), which reads all of them once.
//
// Threads: any.
std::string Describe(const Stage& stage);

// Where two descriptions differ, for messages; empty: nowhere.
std::string DifferenceOf(absl::string_view there, absl::string_view here);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_DESCRIBE_H_
