// All layers. Images are [batch, height, width, channels], sequences [batch, steps, features];
// everything is float32.
//
//   nn::LayerPtr model = nn::Sequential({
//       nn::Conv2D({.filters = 64, .kernel = {3, 3}, .activation = "relu"}),
//       nn::MaxPool2D({.pool = {2, 2}}),
//       nn::Flatten(),
//       nn::Dense({.units = 10}),
//   });
//
//   header           layers
//   activation.h     Activation, and the list of activations
//   attention.h      MultiHeadAttention
//   batch_norm.h     BatchNorm
//   convolution.h    Conv2D, DepthwiseConv2D
//   dense.h          Dense
//   dropout.h        Dropout
//   embedding.h      Embedding
//   layer_norm.h     LayerNorm
//   lstm.h           Lstm
//   merge.h          Add, Concatenate: of several inputs
//   model.h          Model: layers put together to a graph, the functional form
//   pooling.h        MaxPool2D, AveragePool2D, GlobalAveragePool2D
//   reshape.h        Flatten, Reshape
//   sequential.h     Sequential, Residual: one layer after the other
//   wrappers.h       Named, Frozen: a layer with something changed
//
// initializer.h has what variables begin with, loss.h and metric.h what a model is judged by. To
// write a layer, see layer_call.h; any of the files above is an example.
//
// Where Keras has a layer, options, defaults, names and shapes of variables, and results are those
// of Keras 3.
#ifndef TANDEM_STRATEGIES_NN_LAYER_H_
#define TANDEM_STRATEGIES_NN_LAYER_H_

#include "strategies/nn/activation.h"
#include "strategies/nn/attention.h"
#include "strategies/nn/base.h"
#include "strategies/nn/batch_norm.h"
#include "strategies/nn/convolution.h"
#include "strategies/nn/dense.h"
#include "strategies/nn/dropout.h"
#include "strategies/nn/embedding.h"
#include "strategies/nn/initializer.h"
#include "strategies/nn/layer_norm.h"
#include "strategies/nn/lstm.h"
#include "strategies/nn/merge.h"
#include "strategies/nn/model.h"
#include "strategies/nn/pooling.h"
#include "strategies/nn/reshape.h"
#include "strategies/nn/sequential.h"
#include "strategies/nn/wrappers.h"

#endif  // TANDEM_STRATEGIES_NN_LAYER_H_
