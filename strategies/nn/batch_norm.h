#ifndef TANDEM_STRATEGIES_NN_BATCH_NORM_H_
#define TANDEM_STRATEGIES_NN_BATCH_NORM_H_

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct BatchNormOptions {
  double momentum = 0.99;  // In [0, 1]: what the moving statistics keep in each step.
  double epsilon = 1e-3;   // Positive.
  bool center = true;      // Adds beta.
  bool scale = true;       // Multiplies with gamma.
  // The statistics of a step are those of the global batch instead of each replica's part. Costs a
  // reduction over the replicas forward and one backward.
  bool synchronized = false;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Initializer moving_mean_initializer = "zeros";
  Initializer moving_variance_initializer = "ones";
};
// Normalizes each channel (the last dimension of [batch, …, channels]) over everything else (Ioffe
// and Szegedy 2015): y = (x - mean) / sqrt(variance + epsilon) · gamma + beta.
//
// While training, mean and variance are the batch's, and the moving ones are updated at the end of
// the step: moving ← moving · momentum + batch's · (1 - momentum), averaged over the replicas. The
// variance has n in its denominator, as in Keras 3. A replica without examples changes nothing.
// Otherwise, and while frozen, the moving statistics are used.
//
// Variables: gamma, beta, moving_mean, moving_variance [channels]; the latter two are not trained.
LayerPtr BatchNorm(BatchNormOptions options = {});

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_BATCH_NORM_H_
