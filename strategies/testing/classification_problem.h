// A small problem that a two-layer net learns in a few hundred steps: the class of an example is
// the greatest of its first four features.
#ifndef TANDEM_STRATEGIES_TESTING_CLASSIFICATION_PROBLEM_H_
#define TANDEM_STRATEGIES_TESTING_CLASSIFICATION_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"
#include "strategies/trainer/trainer.h"

namespace tandem::testing {

constexpr int64_t kFeatures = 6;
constexpr int64_t kClasses = 4;

// Batch `number`: float32 [size, kFeatures] and int32 [size].
std::vector<Tensor> ClassificationBatch(int64_t number, int64_t size = 20);

// Epochs of the batches 0 … count-1.
OpenEpoch ClassificationEpochs(int64_t count, int64_t size = 20);

}  // namespace tandem::testing

#endif  // TANDEM_STRATEGIES_TESTING_CLASSIFICATION_PROBLEM_H_
