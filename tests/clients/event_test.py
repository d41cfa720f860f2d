"""Event files: TensorBoard lists what Tandem logged, and Tandem reads what TensorFlow logged."""

import base64
import glob
import json
import struct
import time

import numpy as np
import tensorflow as tf
from tensorboard import context as tensorboard_context
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.data import server_ingester
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import grpc_util

from side_by_side import SideBySide, numbers


class TensorBoardReads(SideBySide):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.weights = random.normal(size=[50, 20]).astype(np.float32)
        self.pictures = random.integers(0, 256, [2, 8, 6, 3]).astype(np.uint8)
        run = self.path("logs/run")
        self.formats("write_events", run,
                     self.write_tensors({"weights": self.weights, "pictures": self.pictures}))
        self.events = event_accumulator.EventAccumulator(
            run, size_guidance={event_accumulator.TENSORS: 0})
        self.events.Reload()

    def values(self, tag):
        return [(event.step, tf.make_ndarray(event.tensor_proto))
                for event in self.events.Tensors(tag)]

    def plugin(self, tag):
        return self.events.SummaryMetadata(tag).plugin_data.plugin_name

    def test_every_tag_with_its_plugin(self):
        tags = {tag: self.plugin(tag) for tag in self.events.Tags()["tensors"]}
        self.assertEqual(tags, {
            "loss": "scalars", "train/rate": "scalars", "weights": "histograms",
            "weights/edges": "histograms", "pictures": "images", "notes": "text",
            "_hparams_/session_start_info": "hparams", "_hparams_/session_end_info": "hparams",
        })

    def test_scalars(self):
        found = self.values("loss")
        self.assertEqual([step for step, _ in found], list(range(20)))
        self.assertEqual([value for _, value in found],
                         [np.float32(1) / np.float32(step + 1) for step in range(20)])
        self.assertEqual(self.events.SummaryMetadata("loss").summary_description, "The loss")

    def test_histograms(self):
        (step, found), = self.values("weights")
        counts, edges = np.histogram(self.weights.astype(np.float64), 10)
        self.assertEqual(step, 20)
        self.assertEqual(found.shape, (10, 3))
        self.assertEqual(found[:, 2].sum(), self.weights.size)
        np.testing.assert_allclose(found[:, 0], edges[:-1], rtol=1e-6)
        np.testing.assert_allclose(found[:, 1], edges[1:], rtol=1e-6)
        # An element that lies on an edge but for rounding may be on either side.
        self.assertLessEqual(np.abs(found[:, 2] - counts).max(), 1)

        (_, found), = self.values("weights/edges")
        self.assertEqual(found[:, 2].sum(), self.weights.size)
        self.assertEqual(found[0, 0], self.weights.min())
        self.assertEqual(found[-1, 1], self.weights.max())

    def test_images(self):
        (_, found), = self.values("pictures")
        width, height, *pictures = found.tolist()
        self.assertEqual((width, height), (b"6", b"8"))
        for picture, wanted in zip(pictures, self.pictures, strict=True):
            np.testing.assert_array_equal(tf.io.decode_png(picture).numpy(), wanted)

    def test_text(self):
        (_, found), = self.values("notes")
        self.assertEqual(found.reshape(-1).tolist(), ["**bold** \u00e4".encode()])

    def test_the_graph(self):
        graph = self.events.Graph()
        self.assertEqual([(node.name, node.op) for node in graph.node],
                         [("x", "Placeholder"), ("y", "Square")])

    def test_run_metadata(self):
        self.assertEqual(self.events.Tags()["run_metadata"], ["step 20"])
        metadata = self.events.RunMetadata("step 20")
        self.assertEqual(metadata.step_stats.dev_stats[0].device, "/device:CPU:0")

    def test_hyperparameters(self):
        def data(tag):
            content = self.events.SummaryMetadata(tag).plugin_data.content
            return plugin_data_pb2.HParamsPluginData.FromString(content)
        start = data("_hparams_/session_start_info").session_start_info
        self.assertEqual(start.hparams["rate"].number_value, 0.25)
        self.assertEqual(start.hparams["optimizer"].string_value, "adam")
        self.assertIs(start.hparams["nesterov"].bool_value, True)
        self.assertEqual(start.start_time_secs, 1_700_000_000)
        end = data("_hparams_/session_end_info").session_end_info
        self.assertEqual(end.end_time_secs, 1_700_000_009)

    def test_the_fast_loader(self):
        """TensorBoard's server for data, which its page uses, is stricter than its Python."""
        ingester = server_ingester.SubprocessServerDataIngester(
            server_binary=server_ingester.get_server_binary(), logdir=self.path("logs"),
            reload_interval=-1, channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
            samples_per_plugin={})
        ingester.start()
        self.addCleanup(ingester._stdin_handle.close)  # Ends it. pylint: disable=protected-access
        context, provider = tensorboard_context.RequestContext(), ingester.data_provider
        # It reads the files after it has begun to serve; the file's last event has this plugin.
        deadline = time.monotonic() + 60
        while "_hparams_/session_end_info" not in provider.list_tensors(
                context, experiment_id="", plugin_name="hparams").get("run", {}):
            self.assertLess(time.monotonic(), deadline, "the file was not read to its end")
            time.sleep(0.05)
        scalars = provider.list_scalars(context, experiment_id="", plugin_name="scalars")
        self.assertEqual(sorted(scalars["run"]), ["loss", "train/rate"])
        self.assertEqual(scalars["run"]["loss"].max_step, 19)
        tensors = provider.list_tensors(context, experiment_id="", plugin_name="histograms")
        self.assertEqual(sorted(tensors["run"]), ["weights", "weights/edges"])
        text = provider.list_tensors(context, experiment_id="", plugin_name="text")
        self.assertEqual(sorted(text["run"]), ["notes"])
        images = provider.list_blob_sequences(context, experiment_id="", plugin_name="images")
        self.assertEqual(sorted(images["run"]), ["pictures"])
        graphs = provider.list_blob_sequences(context, experiment_id="", plugin_name="graphs")
        self.assertEqual(sorted(graphs["run"]), ["__run_graph__"])


class TensorFlowLogs(SideBySide):
    """Tandem reads."""

    def read(self, folder):
        path, = glob.glob(folder + "/*tfevents*")
        return [json.loads(line) for line in self.formats("read_events", path).splitlines()]

    def test_the_second_version(self):
        weights = numbers(tf.float16, [30])[4:]
        with tf.summary.create_file_writer(self.path("v2")).as_default():
            for step in range(12):
                tf.summary.scalar("loss", step / 2, step)
            tf.summary.histogram("weights", weights, 3)
            tf.summary.text("notes", "hello", 4)
            tf.summary.image("picture", np.zeros([1, 2, 3, 3], np.uint8), 5)
        events = self.read(self.path("v2"))
        self.assertEqual(events[0]["file_version"], "brain.Event:2")
        values = [(int(event.get("step", 0)), value) for event in events[1:]
                  for value in event["summary"]["value"]]
        loss = [(step, value) for step, value in values if value["tag"] == "loss"]
        self.assertEqual([step for step, _ in loss], list(range(12)))
        for step, value in loss:
            tensor = value["tensor"]
            number = tensor["float_val"][0] if "float_val" in tensor else struct.unpack(
                "<f", base64.b64decode(tensor["tensor_content"]))[0]
            self.assertEqual(number, step / 2)
            self.assertEqual(value["metadata"]["plugin_data"]["plugin_name"], "scalars")
        self.assertEqual([(step, value["tag"]) for step, value in values[12:]],
                         [(3, "weights"), (4, "notes"), (5, "picture")])

    def test_the_first_version(self):
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            loss = v1.placeholder(tf.float32, [], "loss")
            summary = v1.summary.merge([v1.summary.scalar("loss_1", loss),
                                        v1.summary.histogram("spread", [loss, 2 * loss])])
            with v1.Session() as session, v1.summary.FileWriter(self.path("v1"), graph) as writer:
                for step in range(3):
                    writer.add_summary(session.run(summary, {loss: step + 0.5}), step)
        events = self.read(self.path("v1"))
        self.assertIn("graph_def", events[1])
        summaries = [event for event in events if "summary" in event]
        self.assertEqual([int(event.get("step", 0)) for event in summaries], [0, 1, 2])
        for step, event in enumerate(summaries):
            scalar, histogram = event["summary"]["value"]
            self.assertEqual((scalar["tag"], scalar["simple_value"]), ("loss_1", step + 0.5))
            self.assertEqual(histogram["histo"]["num"], 2.0)
