"""SavedModels, in both directions."""

import json
import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

from side_by_side import SideBySide

v1 = tf.compat.v1

STRATEGIES = ["one_device", "mirrored", "central_storage"]


def some_images(count):
    return np.random.default_rng(1).normal(size=[count, 6, 6, 1]).astype(np.float32)


class TandemWrites(SideBySide):
    """TensorFlow runs."""

    def export(self, strategy="mirrored"):
        images = some_images(16)
        np.save(self.path("images.npy"), images)
        folder = self.path("served/" + strategy)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        self.call("EXPORT_PROGRAM", strategy, self.path("images.npy"), folder,
                  self.path("logits.npy"))
        return folder, images, np.load(self.path("logits.npy"))

    def assert_close(self, found, logits):
        np.testing.assert_allclose(found["logits"], logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(logits), rtol=1e-4,
                                   atol=1e-5)

    def test_tensorflow_2_loads(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                folder, images, logits = self.export(strategy)
                model = tf.saved_model.load(folder)
                self.assertEqual(list(model.signatures), ["serving_default"])
                serve = model.signatures["serving_default"]
                self.assertEqual(serve.structured_input_signature[1]["images"],
                                 tf.TensorSpec([None, 6, 6, 1], tf.float32, name="images"))
                for count in (16, 1):  # The batch is free.
                    found = serve(images=tf.constant(images[:count]))
                    self.assert_close({k: v.numpy() for k, v in found.items()}, logits[:count])
                self.assertEqual(model.conv2d.kernel.shape, [3, 3, 1, 4])
                self.assertTrue(model.dense.bias.trainable)
                self.assertFalse(model.batch_norm.moving_mean.trainable)

    def test_tensorflow_1_loads(self):
        folder, images, logits = self.export()
        with tf.Graph().as_default(), v1.Session() as session:
            signature = v1.saved_model.load(session, ["serve"], folder).signature_def[
                "serving_default"]
            found = session.run({k: t.name for k, t in signature.outputs.items()},
                                {signature.inputs["images"].name: images})
        self.assert_close(found, logits)

    def test_saved_model_cli_shows_and_runs(self):
        folder, _, logits = self.export()
        cli = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli"]
        shown = subprocess.run(cli + ["show", "--dir", folder, "--all"], check=True,
                               capture_output=True, timeout=200).stdout.decode()
        self.assertIn("signature_def['serving_default']", shown)
        self.assertIn("shape: (-1, 6, 6, 1)", shown)
        out = self.path("out")
        os.mkdir(out)
        subprocess.run(cli + ["run", "--dir", folder, "--tag_set", "serve", "--signature_def",
                              "serving_default", "--inputs",
                              "images=" + self.path("images.npy"), "--outdir", out],
                       check=True, capture_output=True, timeout=200)
        self.assert_close({name: np.load(os.path.join(out, name + ".npy"))
                           for name in ("logits", "probabilities")}, logits)

    def test_variables_can_be_changed_and_saved_again(self):
        folder, images, _ = self.export()
        model = tf.saved_model.load(folder)
        model.dense.kernel.assign(tf.zeros_like(model.dense.kernel))
        model.dense.bias.assign([1, 2, 3])
        again = self.path("again")
        tf.saved_model.save(model, again, signatures=model.signatures["serving_default"])
        np.save(self.path("x.npy"), images)
        self.call("TANDEM", "saved_model", "run", again, "--input",
                  "images=@" + self.path("x.npy"), "--save", "logits=" + self.path("y.npy"))
        np.testing.assert_allclose(np.load(self.path("y.npy")), [[1, 2, 3]] * len(images))


class TensorFlowWrites(SideBySide):
    """Tandem runs."""

    def assert_runs(self, folder, inputs, wanted, *options):
        words = ["saved_model", "run", folder, *options]
        for name, value in inputs.items():
            np.save(self.path(name + ".in.npy"), value)
            words += ["--input", f"{name}=@{self.path(name + '.in.npy')}"]
        for name in wanted:
            words += ["--save", f"{name}={self.path(name + '.out.npy')}"]
        self.call("TANDEM", *words)
        for name, value in wanted.items():
            np.testing.assert_allclose(np.load(self.path(name + ".out.npy")), value, rtol=1e-4,
                                       atol=1e-5)

    def assert_keras_runs(self, model, data):
        folder = self.path("keras")
        model.export(folder, verbose=False)
        self.assert_runs(folder, {model.inputs[0].name: data},
                         {"output_0": model(data, training=False).numpy()})

    def test_keras_images(self):
        layers = tf.keras.layers
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([
            layers.Input([12, 12, 3]), layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(), layers.DepthwiseConv2D(3), layers.ReLU(6.0),
            layers.MaxPooling2D(2), layers.Conv2D(4, 1), layers.GlobalAveragePooling2D(),
            layers.Dropout(0.2), layers.Dense(5, activation="softmax")])
        data = np.random.default_rng(1).normal(size=[3, 12, 12, 3]).astype(np.float32)
        self.assert_keras_runs(model, data)

    def test_keras_sequences(self):
        layers = tf.keras.layers
        tf.keras.utils.set_random_seed(1)
        tokens = tf.keras.Input([7], dtype="int32", name="tokens")
        x = layers.Embedding(20, 8)(tokens)
        x = layers.LayerNormalization()(x)
        x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
        x = layers.GRU(5)(x)
        model = tf.keras.Model(tokens, layers.Dense(2)(x))
        self.assert_keras_runs(model, np.arange(14, dtype=np.int32).reshape(2, 7))

    def test_tensorflow_1(self):
        folder = self.path("simple")
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 3], name="x")
            w = v1.get_variable("w", [3, 2], use_resource=False)
            y = tf.nn.sigmoid(tf.matmul(x, w))
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
            data = np.ones([2, 3], np.float32)
            wanted = session.run(y, {x: data})
        self.assert_runs(folder, {"x": data}, {"y": wanted})

    def test_show_lists_what_tensorflow_lists(self):
        class Module(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float64, name="a"),
                                          tf.TensorSpec(None, tf.int32, name="b")])
            def both(self, a, b):
                return {"sum": a + 1, "same": b}

        module = Module()
        folder = self.path("module")
        tf.saved_model.save(module, folder, signatures={"both": module.both})
        shown = json.loads(self.call("TANDEM", "saved_model", "show", folder, "--all", "--json"))
        graph = shown["graphs"][0]
        self.assertEqual(graph["tags"], ["serve"])
        signature, = graph["signatures"]
        self.assertEqual([(t["name"], t["dtype"], t["shape"]) for t in signature["inputs"]],
                         [("a", "float64", [-1, 2]), ("b", "int32", None)])
        self.assertEqual([t["name"] for t in signature["outputs"]], ["same", "sum"])
        self.assertIn("both", [function["path"] for function in graph["functions"]])
