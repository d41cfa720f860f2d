#!/usr/bin/env python3
"""Writes the SavedModels of this folder and what TensorFlow computes with them.

  tf1/         TensorFlow 1: a graph of its own with references, a resource, a variable in parts, an
               asset and a main op; two graphs, tagged "serve" and "serve,raw"
  tf2/         TensorFlow 2: a tf.Module with functions, a loop and an asset; two signatures need ops
               that Tandem does not have
  keras/       Keras: model.export
  frozen.pb    the function of tf2 with its variables as constants
  frozen.pbtxt the same as text

  expected.json  for each model and signature: inputs, and the outputs that TensorFlow gives

Needs the package tensorflow. Running it again changes some bytes (names that count up, random
identifiers) but no results.
"""

import json
import os
import pathlib
import shutil

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

HERE = pathlib.Path(__file__).resolve().parent
ASSET = pathlib.Path("greeting.txt")


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def values_of(array):
    array = np.asarray(array)
    flat = array.reshape(-1).tolist()
    if array.dtype.kind in "SO":
        flat = [v.decode() if isinstance(v, bytes) else v for v in flat]
    dtype = "string" if array.dtype.kind in "SUO" else array.dtype.name
    return {"dtype": dtype, "shape": list(array.shape), "values": flat}


def case(signature, inputs, outputs):
    return {
        "signature": signature,
        "inputs": {name: values_of(value) for name, value in inputs.items()},
        "outputs": {name: values_of(value) for name, value in outputs.items()},
    }


def needs_missing_ops(x):
    """Three ops that few programs have, two kinds."""
    distances = tf.reshape(x, [-1])
    chosen = tf.raw_ops.KMC2ChainInitialization(distances=distances, seed=1)
    again = tf.raw_ops.KMC2ChainInitialization(distances=distances * 2, seed=1)
    return tf.raw_ops.Betainc(a=x, b=x, x=x) + tf.cast(chosen + again, tf.float32)


def make_tf1():
    v1 = tf.compat.v1
    folder = remove("tf1")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        reference = v1.get_variable("reference", use_resource=False, dtype=tf.float32,
                                    initializer=np.array([[1, 2], [3, 4]], np.float32))
        bias = v1.get_variable("bias", use_resource=True, dtype=tf.float32,
                               initializer=np.array([0.5, -0.5], np.float32))
        parts = v1.get_variable("parts", shape=[4, 2], use_resource=True,
                                initializer=v1.random_uniform_initializer(seed=1),
                                partitioner=v1.fixed_size_partitioner(2))
        y = tf.nn.relu(tf.matmul(x, reference) + bias, name="y")
        row = v1.placeholder(tf.int32, [None], name="row")
        looked_up = tf.gather(tf.concat(list(parts), axis=0), row, name="looked_up")
        asset = tf.constant(str(ASSET), name="asset_path")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        path = v1.get_variable("path", dtype=tf.string, initializer="", use_resource=False,
                               collections=[v1.GraphKeys.LOCAL_VARIABLES])
        initialize = tf.group(v1.assign(path, asset), name="initialize")
        # Nobody needs it.
        needs_missing_ops(x)
        session.run(v1.global_variables_initializer())
        session.run(v1.local_variables_initializer())

        predict = "tensorflow/serving/predict"
        signatures = {
            "serving_default": v1.saved_model.build_signature_def(
                {"x": v1.saved_model.build_tensor_info(x)},
                {"y": v1.saved_model.build_tensor_info(y)}, predict),
            "look_up": v1.saved_model.build_signature_def(
                {"row": v1.saved_model.build_tensor_info(row)},
                {"values": v1.saved_model.build_tensor_info(looked_up)}, predict),
            "where": v1.saved_model.build_signature_def(
                {}, {"path": v1.saved_model.build_tensor_info(path)}, predict),
        }
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map=signatures,
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), main_op=initialize)
        raw = tf.matmul(x, reference, name="raw")
        builder.add_meta_graph(["serve", "raw"], signature_def_map={
            "serving_default": v1.saved_model.build_signature_def(
                {"x": v1.saved_model.build_tensor_info(x)},
                {"raw": v1.saved_model.build_tensor_info(raw)}, predict)},
            saver=v1.train.Saver())
        builder.save()

        data = np.array([[1, -1], [2, 3], [-4, 5]], np.float32)
        rows = np.array([3, 0], np.int32)
        cases = [
            case("serving_default", {"x": data}, {"y": session.run(y, {x: data})}),
            case("serving_default", {"x": data[:1]}, {"y": session.run(y, {x: data[:1]})}),
            case("look_up", {"row": rows}, {"values": session.run(looked_up, {row: rows})}),
        ]
    return cases


class Module(tf.Module):

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable([[1.0, -2.0], [0.5, 4.0]], name="kernel")
        self.bias = tf.Variable([0.25, -0.75], name="bias", trainable=False)
        self.calls = tf.Variable(0, dtype=tf.int64, name="calls", trainable=False)
        # Two variables of one name.
        self.layers = [tf.Variable([1.0, 2.0], name="v"), tf.Variable([10.0], name="v")]
        self.greeting = tf.saved_model.Asset(str(ASSET))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def predict(self, x):
        return {"y": tf.tanh(self.affine(x))}

    @tf.function
    def affine(self, x):
        return x @ self.kernel + self.bias

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="base"),
                                  tf.TensorSpec([], tf.int32, name="exponent")])
    def power(self, base, exponent):
        result = tf.ones_like(base)
        for _ in tf.range(exponent):
            result *= base
        if exponent > 2:
            large = tf.constant(True)
        else:
            large = tf.constant(False)
        return {"result": result, "large": large}

    @tf.function(input_signature=[])
    def count(self):
        return {"calls": self.calls.assign_add(1), "all": tf.concat(self.layers, axis=0)}

    @tf.function(input_signature=[])
    def where(self):
        return {"path": tf.identity(self.greeting.asset_path)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def missing(self, x):
        return {"y": needs_missing_ops(x)}


def make_tf2():
    folder = remove("tf2")
    module = Module()
    signatures = {"serving_default": module.predict, "power": module.power, "count": module.count,
                  "where": module.where, "missing": module.missing}
    tf.saved_model.save(module, folder, signatures=signatures)
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        module.predict.get_concrete_function())
    graph = frozen.graph.as_graph_def()
    graph.ClearField("library")
    tf.io.write_graph(graph, ".", "frozen.pb", as_text=False)
    tf.io.write_graph(graph, ".", "frozen.pbtxt", as_text=True)

    x = np.array([[0.5, -1], [0.125, 0.25], [2, 3]], np.float32)
    base = np.array([2, -3], np.float32)
    loaded = tf.saved_model.load(folder)
    run = lambda name, **inputs: {
        key: value.numpy() for key, value in loaded.signatures[name](
            **{name: tf.constant(value) for name, value in inputs.items()}).items()}
    cases = [case("serving_default", {"x": x}, run("serving_default", x=x)),
             case("serving_default", {"x": x[:1]}, run("serving_default", x=x[:1]))]
    for exponent in (np.int32(0), np.int32(3)):
        cases.append(case("power", {"base": base, "exponent": exponent},
                          run("power", base=base, exponent=exponent)))
    for _ in range(2):
        cases.append(case("count", {}, run("count")))
    return cases


def make_keras():
    folder = remove("keras")
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([
        tf.keras.layers.Input([6, 6, 1]),
        tf.keras.layers.Conv2D(3, 3, activation="relu"),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.MaxPooling2D(2),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.5),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile("sgd", "mse")
    generator = np.random.default_rng(1)
    images = generator.standard_normal([8, 6, 6, 1]).astype(np.float32)
    model.fit(images, generator.random([8, 4]), verbose=0)
    model.export(folder, verbose=False)
    data = images[:3]
    name = model.inputs[0].name
    loaded = tf.saved_model.load(folder)
    output = loaded.signatures["serving_default"](**{name: tf.constant(data)})
    return [case("serving_default", {name: data},
                 {key: value.numpy() for key, value in output.items()})]


def main():
    # Paths of this machine would end up in the models.
    os.chdir(HERE)
    ASSET.write_text("hello\n")
    expected = {"tf1": make_tf1(), "tf2": make_tf2(), "keras": make_keras()}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    ASSET.unlink()


if __name__ == "__main__":
    main()
