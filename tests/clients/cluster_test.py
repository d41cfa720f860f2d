"""TensorFlow's own client trains over several tasks of Tandem."""

import concurrent.futures

import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

from cluster import Cluster
from side_by_side import SideBySide

v1 = tf.compat.v1

FEATURES, CLASSES, ROWS = 20, 5, 120


def examples():
    random = np.random.default_rng(1)
    truth = random.normal(size=[FEATURES, CLASSES])
    features = random.normal(size=[ROWS, FEATURES]).astype(np.float32)
    return features, (features @ truth).argmax(1)


class Model:
    """Softmax regression in the default graph; variables go where the device scope puts them."""

    def __init__(self, use_resource=True):
        self.x = v1.placeholder(tf.float32, [None, FEATURES])
        self.y = v1.placeholder(tf.int64, [None])
        self.step = v1.train.get_or_create_global_step()
        self.variables = [
            v1.get_variable(name, shape, initializer=v1.zeros_initializer(),
                            use_resource=use_resource)
            for name, shape in (("w", [FEATURES, CLASSES]), ("b", [CLASSES]))]
        self.loss = self.loss_of(self.x, self.y)

    def loss_of(self, x, y):
        logits = tf.matmul(x, self.variables[0]) + self.variables[1]
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    def train(self):
        return v1.train.GradientDescentOptimizer(0.5, use_locking=True).minimize(
            self.loss, global_step=self.step)


class ClusterTest(SideBySide):
    """A parameter server and two workers, for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster({"ps": 1, "worker": 2})
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        super().setUp()
        v1.Session.reset(self.cluster.target("worker:0"))
        self.features, self.labels = examples()

    def feeds(self, model, worker=None):
        """All examples, or the half of a worker."""
        rows = slice(worker, None, 2) if worker is not None else slice(None)
        return {model.x: self.features[rows], model.y: self.labels[rows]}

    def losses_of_tensorflow_alone(self, rows_of_steps):
        with tf.Graph().as_default(), v1.Session() as session:
            model = Model()
            train = model.train()
            session.run(v1.global_variables_initializer())
            return [session.run([model.loss, train], self.feeds(model, worker))[0]
                    for worker in rows_of_steps]

    def replica(self, worker, use_resource=True):
        """A worker's graph and session, as in between-graph replication."""
        graph = tf.Graph()
        with graph.as_default(), v1.device(v1.train.replica_device_setter(
                cluster=self.cluster.jobs, worker_device=f"/job:worker/task:{worker}")):
            model = Model(use_resource)
            model.train_op = model.train()
            model.init = v1.global_variables_initializer()
        session = v1.Session(self.cluster.target(f"worker:{worker}"), graph,
                             config=self.cluster.config(
                                 device_filters=["/job:ps", f"/job:worker/task:{worker}"]))
        self.addCleanup(session.close)
        return model, session

    def train_in_turns(self, use_resource):
        replicas = [self.replica(worker, use_resource) for worker in (0, 1)]
        (first, session0), (second, session1) = replicas
        session0.run(first.init)
        order = [0, 1] * 20
        losses = []
        for worker in order:
            model, session = replicas[worker]
            losses.append(session.run([model.loss, model.train_op], self.feeds(model, worker))[0])
        np.testing.assert_allclose(losses, self.losses_of_tensorflow_alone(order), rtol=1e-4)
        self.assertEqual(session1.run(second.step), len(order))

    def test_workers_in_turns_train_as_one_that_gets_their_batches(self):
        self.train_in_turns(use_resource=True)

    def test_workers_in_turns_train_variables_of_the_first_version(self):
        self.train_in_turns(use_resource=False)

    def test_workers_at_once_lose_no_step(self):
        replicas = [self.replica(0), self.replica(1)]
        model, session = replicas[0]
        session.run(model.init)
        before = session.run(model.loss, self.feeds(model))

        def train(worker):
            model, session = replicas[worker]
            for _ in range(50):
                session.run(model.train_op, self.feeds(model, worker))

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(train, worker) for worker in (0, 1)]:
                done.result(200)
        self.assertEqual(session.run(model.step), 100)
        self.assertLess(session.run(model.loss, self.feeds(model)), before / 2)

    def test_towers_on_three_tasks_train_as_one_graph(self):
        tasks = ["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"]
        with tf.Graph().as_default(), self.cluster.session("worker:0") as session:
            with tf.device(tasks[0]):
                model = Model()
            optimizer = v1.train.GradientDescentOptimizer(0.5)
            losses, gradients = [], []
            for task, x, y in zip(tasks, tf.split(model.x, 3), tf.split(model.y, 3)):
                with tf.device(task):
                    losses.append(model.loss_of(x, y))
                    gradients.append(tf.gradients(losses[-1], model.variables))
            with tf.device(tasks[0]):
                loss = tf.add_n(losses) / 3
                means = [tf.add_n(list(each)) / 3 for each in zip(*gradients)]
                train = optimizer.apply_gradients(zip(means, model.variables))
            session.run(v1.global_variables_initializer())
            found = [session.run([loss, train], self.feeds(model))[0] for _ in range(30)]
        np.testing.assert_allclose(found, self.losses_of_tensorflow_alone([None] * 30), rtol=1e-4)

    def test_devices_of_all_tasks_are_listed(self):
        with tf.Graph().as_default(), self.cluster.session("worker:1") as session:
            self.assertEqual(
                sorted(device.name for device in session.list_devices()),
                [f"/job:{task}/device:CPU:0" for task in
                 ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")])

    def test_a_saver_saves_each_tasks_part_and_restores_it(self):
        values = {}
        with tf.Graph().as_default(), self.cluster.session("worker:0") as session:
            variables = []
            for index, task in enumerate(["ps/task:0", "worker/task:0", "worker/task:1"]):
                with tf.device(f"/job:{task}"):
                    values[f"v{index}"] = np.arange(12, dtype=np.float32).reshape(3, 4) + index
                    variables.append(v1.get_variable(f"v{index}", initializer=values[f"v{index}"]))
            saver = v1.train.Saver(sharded=True)
            zeros = [variable.assign(tf.zeros([3, 4])) for variable in variables]
            session.run(v1.global_variables_initializer())
            prefix = saver.save(session, self.path("model"), global_step=7)
            self.assertEqual(dict(tf.train.list_variables(prefix)),
                             {name: [3, 4] for name in values})
            self.assert_same({name: tf.train.load_variable(prefix, name) for name in values},
                             values)
            session.run(zeros)
            saver.restore(session, v1.train.latest_checkpoint(self.folder))
            self.assert_same(dict(zip(values, session.run(variables))), values)

    def test_the_trace_of_a_step_makes_a_timeline_of_all_tasks(self):
        with tf.Graph().as_default(), self.cluster.session("worker:0") as session:
            with tf.device("/job:ps"):
                a = tf.random.uniform([20, 20], name="made_on_ps")
            with tf.device("/job:worker/task:1"):
                b = tf.matmul(a, a, name="product_on_worker")
            metadata = v1.RunMetadata()
            session.run(b, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE),
                        run_metadata=metadata)
        nodes = {node.node_name: device.device for device in metadata.step_stats.dev_stats
                 for node in device.node_stats}
        self.assertIn("/job:worker/replica:0/task:1", nodes["product_on_worker"])
        trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(
            show_dataflow=True, show_memory=True)
        self.assertIn("product_on_worker", trace)
        self.assertIn("/job:ps/replica:0/task:0", trace)

    def test_strings_are_fed_travel_between_tasks_and_come_back(self):
        words = np.array([[b"", b"a\0b"], ["h\u00e4".encode(), b"x" * 100_000]], object)
        with tf.Graph().as_default(), self.cluster.session("worker:0") as session:
            fed = v1.placeholder(tf.string, [2, 2])
            with tf.device("/job:worker/task:1"):
                joined = tf.strings.join([fed, fed], "-")
            with tf.device("/job:ps"):
                again = tf.concat([joined, fed], 0)
            found = session.run({"joined": joined, "again": again}, {fed: words})
        wanted = np.vectorize(lambda word: word + b"-" + word, otypes=[object])(words)
        self.assert_same(found, {"joined": wanted, "again": np.concatenate([wanted, words])})
