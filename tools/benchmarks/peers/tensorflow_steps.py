"""tensorflow_steps.py: the models of tools/benchmarks/models.h in TensorFlow; see tools/bench."""

import os
import sys

import steps

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

layers = tf.keras.layers


def cnn():
    return tf.keras.Sequential([
        layers.Input((28, 28, 1)), layers.Conv2D(64, 3, activation="relu", name="conv"),
        layers.MaxPool2D(), layers.Flatten(), layers.Dense(128, activation="relu", name="dense_a"),
        layers.Dense(10, name="dense_b")])


def mlp():
    return tf.keras.Sequential([
        layers.Input((784,)), layers.Dense(128, activation="relu", name="dense_a"),
        layers.Dense(10, name="dense_b")])


def lenet():
    return tf.keras.Sequential([
        layers.Input((32, 32, 3)), layers.Conv2D(6, 5, activation="relu", name="conv_a"),
        layers.MaxPool2D(), layers.Conv2D(16, 5, activation="relu", name="conv_b"),
        layers.MaxPool2D(), layers.Flatten(), layers.Dense(120, activation="relu", name="dense_a"),
        layers.Dense(84, activation="relu", name="dense_b"), layers.Dense(10, name="dense_c")])


def normalized(x, suffix, filters, size, stride):
    x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False,
                      name="conv" + suffix)(x)
    return layers.BatchNormalization(name="norm" + suffix)(x)


def resnet8():
    given = layers.Input((32, 32, 3))
    x = layers.ReLU()(normalized(given, "", 16, 3, 1))
    for block, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2))):
        name = f"_{block}"
        y = layers.ReLU()(normalized(x, name + "_a", filters, 3, stride))
        y = normalized(y, name + "_b", filters, 3, 1)
        if stride != 1 or x.shape[-1] != filters:
            x = normalized(x, name + "_s", filters, 1, stride)
        x = layers.ReLU()(x + y)
    return tf.keras.Model(given, layers.Dense(10, name="dense")(layers.GlobalAveragePooling2D()(x)))


def lstm():
    return tf.keras.Sequential([
        layers.Input((64,), dtype="int32"), layers.Embedding(65, 64, name="embedding"),
        layers.LSTM(128, return_sequences=True, name="lstm"), layers.Dense(65, name="dense")])


def gpt():
    given = layers.Input((128,), dtype="int32")
    x = layers.Embedding(65, 128, name="embedding")(given)
    for block in range(4):
        name = f"_{block}"
        y = layers.LayerNormalization(name=f"norm{name}_a")(x)
        y = layers.MultiHeadAttention(4, 32, name=f"attention{name}")(y, y, use_causal_mask=True)
        x = x + y
        y = layers.LayerNormalization(name=f"norm{name}_b")(x)
        y = layers.Dense(512, activation="gelu", name=f"dense{name}_a")(y)
        x = x + layers.Dense(128, name=f"dense{name}_b")(y)
    x = layers.LayerNormalization(name="norm")(x)
    return tf.keras.Model(given, layers.Dense(65, name="dense")(x))


def adam():
    return tf.keras.optimizers.Adam(1e-3)


def momentum():
    return tf.keras.optimizers.SGD(1e-3, momentum=0.9)


MODELS = {
    "cnn64-b64": (cnn, adam), "mlp-b64": (mlp, adam), "lenet-b4": (lenet, momentum),
    "lenet-b64": (lenet, momentum), "resnet8-b64": (resnet8, momentum),
    "lstm128-b32-t64": (lstm, adam), "gpt4x128-b16-t128": (gpt, adam),
}


def set_weights(model, start):
    for variable in model.variables:
        if "seed_generator" in variable.path:
            continue
        path = variable.path.replace("/lstm_cell/", "/")
        names = [name for name in start.files if path == name or path.endswith("/" + name)]
        if len(names) != 1:
            sys.exit(f"the start file has {names or 'nothing'} for the variable {variable.path}")
        variable.assign(start[names[0]])


def main():
    options = steps.arguments(["graph", "xla"])
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    start = np.load(options.start)
    make_model, make_optimizer = MODELS[options.model]
    model, optimizer = make_model(), make_optimizer()
    set_weights(model, start)
    x, y = tf.constant(start["batch_0"]), tf.constant(start["batch_1"])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)
    jit = options.variant == "xla"

    @tf.function(jit_compile=jit)
    def train(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        variables = model.trainable_variables
        # Dense, also of embeddings: Keras's Adam squares the rows of a sparse gradient one by one
        # before it adds those of equal index, so that it would train another model.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    @tf.function(jit_compile=jit)
    def infer(x):
        return model(x, training=False)

    if options.inference:
        one = x[:1]
        steps.run(options, lambda: infer(one).numpy())
    else:
        steps.run(options, lambda: train(x, y).numpy())


main()
