// FuseBiasAndActivation: a product or a convolution, the bias behind it and the activation behind
// that become one node, whose result goes through memory once.
//
//   MatMul | Conv2D  →  BiasAdd, or Add of a vector  →  Relu, Relu6, Elu, LeakyRelu, Tanh, Sigmoid
//
// become _FusedMatMul or _FusedConv2D (TensorFlow's ops and attributes), the activation if there is
// one. The values in between must have no other consumer. So the activation of a training step goes
// in too where its gradient wants its result (Relu), and stays outside where it wants its argument
// (LeakyRelu).
//
// The result is the same up to rounding: a convolution may add the bias before it rounds, and types
// of 16 bits are rounded once.
#ifndef TANDEM_CORE_PASSES_FUSE_BIAS_AND_ACTIVATION_H_
#define TANDEM_CORE_PASSES_FUSE_BIAS_AND_ACTIVATION_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// REQUIRES: all nodes are placed. Errors are our own bugs.
absl::Status FuseBiasAndActivation(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_FUSE_BIAS_AND_ACTIVATION_H_
