"""What a training leaves behind, in the eyes of TensorFlow and TensorBoard."""

import gzip
import os
import re
import tempfile

import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from side_by_side import SideBySide

DATA = "tools/datasets/mnist"
EPOCHS = 2


def idx(name):
    with gzip.open(os.path.join(DATA, name)) as file:
        data = file.read()
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


class TrainingTest(SideBySide):
    """A perceptron is trained once, by the demo; every case looks at what it wrote."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.logs = os.path.join(folder.name, "logs")
        cls.checkpoints = os.path.join(folder.name, "checkpoints")
        cls.output = cls().call(
            "DEMO", f"--data={DATA}", "--model=mlp", "--strategy=one_device", "--batch_size=600",
            f"--epochs={EPOCHS}", f"--log_dir={cls.logs}", f"--checkpoint_dir={cls.checkpoints}")

    def events(self, run):
        events = event_accumulator.EventAccumulator(
            os.path.join(self.logs, run), size_guidance={event_accumulator.TENSORS: 0})
        return events.Reload()

    def series(self, run, tag):
        return [(event.step, float(tf.make_ndarray(event.tensor_proto)))
                for event in self.events(run).Tensors(tag)]

    def test_tensorboard_lists_the_curves(self):
        events = self.events("train")
        for tag in ("epoch_loss", "epoch_accuracy", "epoch_learning_rate"):
            with self.subTest(tag):
                self.assertIn(tag, events.Tags()["tensors"])
                self.assertEqual(events.SummaryMetadata(tag).plugin_data.plugin_name, "scalars")
                self.assertEqual([step for step, _ in self.series("train", tag)],
                                 list(range(EPOCHS)))

    def test_the_accuracy_while_training_is_near_that_of_the_test(self):
        last = 100 * self.series("train", "epoch_accuracy")[-1][1]
        self.assertAlmostEqual(last, self.printed_accuracy(), delta=5)

    def printed_accuracy(self):
        return float(re.search(r"test accuracy ([0-9.]+) %", self.output)[1])

    def test_the_loss_falls(self):
        losses = [value for _, value in self.series("train", "epoch_loss")]
        self.assertLess(losses[-1], losses[0])

    def test_tensorboard_shows_the_graph(self):
        ops = {node.op for node in self.events("train").Graph().node}
        self.assertIn("MatMul", ops)

    def test_the_weights_in_the_checkpoint_classify_as_they_did(self):
        newest = tf.train.latest_checkpoint(self.checkpoints)
        self.assertIsNotNone(newest)
        reader = tf.train.load_checkpoint(newest)
        weights = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
                   if re.fullmatch(r".*dense(_1)?/(kernel|bias)", name)}
        self.assertEqual(len(weights), 4, sorted(reader.get_variable_to_shape_map()))
        values = sorted(weights.values(), key=lambda value: value.size)  # 10, 128, 1280, 100352
        images = idx("t10k-images-idx3-ubyte.gz").reshape(10000, 784).astype(np.float32) / 255
        hidden = np.maximum(images @ values[3] + values[1], 0)
        found = (hidden @ values[2] + values[0]).argmax(1)
        accuracy = 100 * np.mean(found == idx("t10k-labels-idx1-ubyte.gz"))
        # An image whose two best classes are as good but for rounding may change sides.
        self.assertAlmostEqual(accuracy, self.printed_accuracy(), delta=0.03)

    def test_the_optimizers_state_is_there(self):
        shapes = dict(tf.train.list_variables(tf.train.latest_checkpoint(self.checkpoints)))
        for variable in ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"):
            for slot in ("momentum", "velocity"):
                self.assertEqual(shapes[f"{variable}/adam/{slot}"], shapes[variable])
