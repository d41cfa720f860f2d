#ifndef TANDEM_STRATEGIES_NN_ATTENTION_H_
#define TANDEM_STRATEGIES_NN_ATTENTION_H_

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct MultiHeadAttentionOptions {
  int64_t num_heads = 0;
  int64_t key_dim = 0;     // Size of each head's queries and keys.
  int64_t value_dim = 0;   // Of its values; 0: as key_dim.
  int64_t output_dim = 0;  // 0: as the queries' features.
  double dropout = 0;      // In [0, 1): the part of the attention that is dropped while training.
  bool use_bias = true;
  bool causal = false;  // Query i sees keys 0 to i only.
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
};
// Scaled dot-product attention with several heads (Vaswani and others 2017). In each head:
// softmax(query key' / sqrt(key_dim)) value.
//
// Inputs, as in Keras: query; query, value (which is the key too); or query, value, key. All are
// [batch, steps, features]; value and key have equal steps. A fourth input is a mask, bool [batch,
// query steps, key steps]: false where a query must not see a key. Gives [batch, query steps,
// output_dim].
//
// Variables: query/kernel [features, num_heads, key_dim], query/bias [num_heads, key_dim], the same
// for key and value; attention_output/kernel [num_heads, value_dim, output_dim],
// attention_output/bias [output_dim].
LayerPtr MultiHeadAttention(MultiHeadAttentionOptions options);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_ATTENTION_H_
