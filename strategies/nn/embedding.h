#ifndef TANDEM_STRATEGIES_NN_EMBEDDING_H_
#define TANDEM_STRATEGIES_NN_EMBEDDING_H_

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct EmbeddingOptions {
  int64_t input_dim = 0;   // Inputs are in [0, input_dim).
  int64_t output_dim = 0;  // Size of the vector of each.
  Initializer embeddings_initializer = "random_uniform";
  // Where the table lies in n parts (parameter servers): part p has rows p, p + n, p + 2n, …, so
  // that words that are used often and have near numbers lie apart.
  bool spread_rows = false;
};
// A vector for each whole number: int32 or int64 [batch, …] to [batch, …, output_dim]. A number out
// of range is InvalidArgument when the step runs. The gradient is sparse: optimizers touch only the
// rows that were looked up, and with parameter servers only those rows travel.
// Variable: embeddings [input_dim, output_dim].
LayerPtr Embedding(EmbeddingOptions options);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_EMBEDDING_H_
