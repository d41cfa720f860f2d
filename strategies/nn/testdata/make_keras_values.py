#!/usr/bin/env python3
"""Writes keras_values.txt: what Keras's layers, losses and metrics give for numbers made by formulas.

  tests/golden/setup_venv.sh
  ~/.cache/tandem/venv-tf/bin/python strategies/nn/testdata/make_keras_values.py

Each line is "<case> <array> <sizes> <values>"; a scalar has the sizes "-". The formulas are those of
strategies/nn/testing.cc, which the tests use to make the same inputs and variables.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

lines = []


def write(case, name, array):
    array = np.asarray(array)
    sizes = ",".join(str(s) for s in array.shape) or "-"
    values = " ".join("%.9g" % v for v in array.reshape(-1))
    lines.append(f"{case} {name} {sizes} {values}")


def wave(shape, frequency, phase):
    count = int(np.prod(shape, dtype=np.int64))
    return np.sin(frequency * np.arange(count) + phase).reshape(shape)


def variable_value(name, shape):
    values = 0.5 * wave(shape, 0.9, sum(name.encode()) % 17)
    if name.endswith(("gamma", "variance")):
        values = 1 + values
    return values.astype(np.float32)


def float_input(number, shape):
    return wave(shape, 1.7, 0.3 + number).astype(np.float32)


def int_input(number, shape, limit):
    count = int(np.prod(shape, dtype=np.int64))
    return ((7 * np.arange(count) + 3 * number) % limit).reshape(shape).astype(np.int32)


def run(case, call, inputs, variables, training=False):
    """`variables`: pairs of our name and Keras's variable, or a function that gives them."""
    tensors = [tf.constant(i) for i in inputs]
    floats = [t for t in tensors if t.dtype == tf.float32]
    call(*tensors, training=False)  # Makes the variables.
    pairs = variables() if callable(variables) else variables
    for name, variable in pairs:
        variable.assign(variable_value(name, tuple(variable.shape)))
    with tf.GradientTape() as tape:
        for t in floats:
            tape.watch(t)
        y = call(*tensors, training=training)
        weights = np.cos(0.5 * np.arange(int(np.prod(y.shape))) + 1).reshape(y.shape)
        loss = tf.reduce_sum(y * tf.constant(weights.astype(np.float32)))
    trained = [(n, v) for n, v in pairs if v.trainable]
    gradients = tape.gradient(loss, [v.value for _, v in trained] + floats)
    write(case, "output", y)
    for (name, _), gradient in zip(trained, gradients):
        write(case, "gradient/" + name, tf.convert_to_tensor(gradient))
    for i, gradient in enumerate(gradients[len(trained):]):
        write(case, f"input_gradient/{i}", gradient)
    if training:
        for name, v in pairs:
            if not v.trainable:
                write(case, "after/" + name, v)


def layer(case, layer, inputs, names, training=False):
    """`names`: ours, with the attribute of the layer that has the variable."""

    def call(*tensors, training):
        kwargs = {"training": training} if layer._call_has_training_arg else {}
        return layer(*tensors, **kwargs)

    run(case, call, inputs, lambda: [(n, getattr(layer, a)) for n, a in names], training)


L = keras.layers
BIAS = [("kernel", "kernel"), ("bias", "bias")]


def dense_and_convolutions():
    layer("dense", L.Dense(2, "relu"), [float_input(0, (3, 4))], BIAS)
    layer("dense_of_sequences", L.Dense(2, "softmax", use_bias=False), [float_input(0, (2, 3, 4))],
          BIAS[:1])
    layer("conv2d_same", L.Conv2D(3, (3, 2), (2, 1), "same", activation="relu"),
          [float_input(0, (2, 5, 4, 2))], BIAS)
    layer("conv2d_valid", L.Conv2D(2, (2, 3), use_bias=False), [float_input(0, (1, 4, 5, 3))],
          BIAS[:1])
    layer("conv2d_dilated", L.Conv2D(2, (3, 2), dilation_rate=(2, 3)),
          [float_input(0, (1, 6, 5, 2))], BIAS)
    layer("depthwise_same", L.DepthwiseConv2D((3, 2), 2, "same", depth_multiplier=2,
                                              activation="tanh"), [float_input(0, (2, 5, 4, 2))],
          BIAS)
    layer("depthwise_dilated", L.DepthwiseConv2D((2, 2), dilation_rate=(2, 2), use_bias=False),
          [float_input(0, (1, 4, 5, 3))], BIAS[:1])


def pooling():
    x = [float_input(0, (2, 5, 4, 2))]
    layer("max_pool2d", L.MaxPooling2D(2), x, [])
    layer("max_pool2d_same", L.MaxPooling2D((3, 2), (2, 1), "same"), x, [])
    layer("average_pool2d", L.AveragePooling2D(2), x, [])
    layer("average_pool2d_same", L.AveragePooling2D((3, 2), (2, 1), "same"), x, [])
    layer("global_average_pool2d", L.GlobalAveragePooling2D(), x, [])


NORM = [("gamma", "gamma"), ("beta", "beta"), ("moving_mean", "moving_mean"),
        ("moving_variance", "moving_variance")]


def normalization():
    for rank, shape in ((2, (6, 3)), (3, (4, 2, 3)), (4, (4, 3, 2, 2))):
        x = [float_input(0, shape)]
        layer(f"batch_norm_{rank}", L.BatchNormalization(momentum=0.9), x, NORM, training=True)
        layer(f"batch_norm_{rank}_inference", L.BatchNormalization(), x, NORM)
    layer("batch_norm_plain", L.BatchNormalization(center=False, scale=False, epsilon=0.1),
          [float_input(0, (6, 3))], NORM[2:], training=True)
    layer("layer_norm", L.LayerNormalization(), [float_input(0, (2, 3, 4))], NORM[:2])
    layer("layer_norm_plain", L.LayerNormalization(center=False, scale=False, epsilon=0.1),
          [float_input(0, (3, 4))], [])


def sequences():
    layer("embedding", L.Embedding(5, 3), [int_input(0, (2, 4), 5)], [("embeddings", "embeddings")])
    for case, sequences, bias in (("lstm", False, True), ("lstm_sequences", True, True),
                                  ("lstm_without_bias", False, False)):
        lstm = L.LSTM(3, return_sequences=sequences, use_bias=bias)
        names = [("kernel", "kernel"), ("recurrent_kernel", "recurrent_kernel"), ("bias", "bias")]
        run(case, lambda x, training: lstm(x), [float_input(0, (2, 4, 3))],
            lambda: [(n, getattr(lstm.cell, a)) for n, a in names[:3 if bias else 2]])


def attention_variables(attention, bias=True):
    parts = [("query", attention._query_dense), ("key", attention._key_dense),
             ("value", attention._value_dense), ("attention_output", attention._output_dense)]
    pairs = []
    for name, part in parts:
        pairs.append((name + "/kernel", part.kernel))
        if bias:
            pairs.append((name + "/bias", part.bias))
    return pairs


def attention():
    a = L.MultiHeadAttention(2, 3)
    run("attention_self", lambda x, training: a(x, x), [float_input(0, (2, 3, 4))],
        lambda: attention_variables(a))
    b = L.MultiHeadAttention(2, 3, use_bias=False)
    run("attention_causal", lambda x, training: b(x, x, use_causal_mask=True),
        [float_input(0, (2, 4, 3))], lambda: attention_variables(b, False))
    c = L.MultiHeadAttention(2, 3, value_dim=2, output_shape=5)
    run("attention_three", lambda q, v, k, training: c(q, v, k),
        [float_input(0, (2, 3, 4)), float_input(1, (2, 4, 3)), float_input(2, (2, 4, 2))],
        lambda: attention_variables(c))
    d = L.MultiHeadAttention(1, 2)
    mask = (int_input(3, (2, 3, 4), 3) > 0)
    run("attention_masked", lambda q, v, k, training: d(q, v, k, attention_mask=mask),
        [float_input(0, (2, 3, 2)), float_input(1, (2, 4, 2)), float_input(2, (2, 4, 2))],
        lambda: attention_variables(d))


def activations():
    names = ("elu exponential gelu hard_sigmoid leaky_relu linear log_softmax relu relu6 selu "
             "sigmoid silu softmax softplus softsign swish tanh")
    for name in names.split():
        activation = keras.activations.get(name)
        run("activation_" + name, lambda x, training: activation(x), [4 * float_input(0, (3, 5))],
            [])


def losses():
    n = keras.losses
    logits = 3 * float_input(0, (4, 3))
    steps = 3 * float_input(0, (2, 4, 3))
    classes = int_input(1, (4,), 3)
    step_classes = int_input(1, (2, 4), 3)
    soft = np.exp(float_input(1, (4, 3)))
    soft = (soft / soft.sum(-1, keepdims=True)).astype(np.float32)
    step_soft = np.exp(float_input(1, (2, 4, 3)))
    step_soft = (step_soft / step_soft.sum(-1, keepdims=True)).astype(np.float32)
    targets = float_input(1, (4, 3))
    step_targets = float_input(1, (2, 4, 3))
    bits = int_input(1, (4, 3), 2)
    sparse = lambda y, x: n.sparse_categorical_crossentropy(y, x, from_logits=True)  # noqa: E731
    dense = lambda y, x: n.categorical_crossentropy(y, x, from_logits=True)  # noqa: E731
    sigmoid = lambda y, x: n.binary_crossentropy(  # noqa: E731
        tf.cast(y, tf.float32), x, from_logits=True)
    cases = [
        ("sparse", sparse, classes, logits),
        ("sparse_steps", sparse, step_classes, steps),
        ("softmax", dense, soft, logits),
        ("softmax_steps", dense, step_soft, steps),
        ("sigmoid", sigmoid, bits, logits),
        ("mean_squared", n.mean_squared_error, targets, logits),
        ("mean_squared_steps", n.mean_squared_error, step_targets, steps),
        ("huber", n.huber, targets, logits),
        ("huber_half", lambda y, x: n.huber(y, x, delta=0.5), targets, logits),
    ]
    for case, function, labels, outputs in cases:
        x = tf.constant(outputs)
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = function(tf.constant(labels), x)
            # One number an example, whatever else it has.
            values = tf.reduce_mean(tf.reshape(values, [values.shape[0], -1]), -1)
            weights = np.cos(0.5 * np.arange(values.shape[0]) + 1).astype(np.float32)
            total = tf.reduce_sum(values * weights)
        write("loss_" + case, "labels", labels)
        write("loss_" + case, "outputs", outputs)
        write("loss_" + case, "values", values)
        write("loss_" + case, "gradient", tape.gradient(total, x))


def metrics():
    m = keras.metrics
    outputs = float_input(0, (23, 5))
    classes = int_input(1, (23,), 5)
    probabilities = (0.5 + 0.5 * float_input(2, (23,))).astype(np.float32)
    bits = (probabilities + float_input(3, (23,)) > 0.5).astype(np.int32)
    targets = float_input(4, (23, 5))
    one_hot = np.eye(5, dtype=np.float32)[classes]
    cases = [
        ("accuracy", m.SparseCategoricalAccuracy(), classes, outputs),
        ("accuracy_one_hot", m.CategoricalAccuracy(), one_hot, outputs),
        ("binary_accuracy", m.BinaryAccuracy(threshold=0.4), bits, probabilities),
        ("top_2", m.SparseTopKCategoricalAccuracy(k=2), classes, outputs),
        ("mean_squared_error", m.MeanSquaredError(), targets, outputs),
        ("mean_absolute_error", m.MeanAbsoluteError(), targets, outputs),
        ("auc", m.AUC(), bits, probabilities),
        ("auc_coarse", m.AUC(num_thresholds=5), bits, probabilities),
        ("auc_logits", m.AUC(from_logits=True), bits, (4 * probabilities - 2).astype(np.float32)),
    ]
    for case, metric, labels, values in cases:
        metric.update_state(labels, values)
        write("metric_" + case, "labels", labels)
        write("metric_" + case, "outputs", values)
        write("metric_" + case, "result", metric.result())


def main():
    keras.utils.set_random_seed(1)
    dense_and_convolutions()
    pooling()
    normalization()
    sequences()
    attention()
    activations()
    losses()
    metrics()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_values.txt")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


main()
