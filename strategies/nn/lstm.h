#ifndef TANDEM_STRATEGIES_NN_LSTM_H_
#define TANDEM_STRATEGIES_NN_LSTM_H_

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct LstmOptions {
  int64_t units = 0;
  bool return_sequences = false;  // Gives the output of each step, not that of the last alone.
  bool use_bias = true;
  bool unit_forget_bias = true;  // The forget gate's bias begins at 1 (Jozefowicz and others 2015).
  Initializer kernel_initializer = "glorot_uniform";
  Initializer recurrent_initializer = "orthogonal";
  Initializer bias_initializer = "zeros";
};
// A long short-term memory (Hochreiter and Schmidhuber 1997) over sequences [batch, steps,
// features], at least one step long, from a state of zeros. Gives [batch, units], or [batch, steps,
// units].
// Variables: kernel [features, 4 units], recurrent_kernel [units, 4 units], bias [4 units]; the
// columns belong to the input gate, the forget gate, the cell and the output gate.
LayerPtr Lstm(LstmOptions options);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LSTM_H_
