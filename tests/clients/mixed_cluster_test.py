"""One graph over a task of Tandem and a task of TensorFlow; either may be the master."""

import numpy as np
import tensorflow as tf

from cluster import Cluster
from side_by_side import SideBySide

v1 = tf.compat.v1

TASKS = ["/job:worker/task:0", "/job:worker/task:1"]


class MixedClusterTest(SideBySide):

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster({"worker": 2}, tensorflow={"worker:1": 2})
        cls.addClassCleanup(cls.cluster.close)

    def for_both_masters(self, check):
        """Calls check(session, own, other) with the devices of the master and of the other task."""
        for master in (0, 1):
            with self.subTest("Tandem" if master == 0 else "TensorFlow"), tf.Graph().as_default(), \
                    self.cluster.session(f"worker:{master}", isolate_session_state=True) as session:
                check(session, TASKS[master], TASKS[1 - master])

    def test_values_go_there_and_back(self):
        values = {dtype: np.arange(6).reshape(2, 3).astype(dtype)
                  for dtype in ("float32", "int64", "bool", "complex64", "uint8")}
        values["words"] = np.array([b"a\0", b"", b"x" * 5000], object)
        values["nothing"] = np.zeros([0, 4], np.float32)
        values["large"] = np.random.default_rng(1).normal(size=[700, 900])

        def check(session, own, other):
            fed, fetched = {}, {}
            for name, value in values.items():
                with tf.device(own):
                    x = v1.placeholder(value.dtype if name != "words" else tf.string, value.shape)
                    fed[x] = value
                    there = tf.stack([x, x])
                with tf.device(other):
                    back = tf.reverse(tf.concat([there, there], 0), [0])
                with tf.device(own):
                    fetched[name] = tf.identity(back[3])
            self.assert_same(session.run(fetched, fed), values)

        self.for_both_masters(check)

    def test_a_conditional_takes_the_branch_that_is_fed(self):
        def check(session, own, other):
            with tf.device(own):
                condition = v1.placeholder(tf.bool, [])
                x = tf.constant([1.0, 2.0])
            with tf.device(other):
                y = tf.cond(condition, lambda: x * 3.0, lambda: x - 1.0)
            with tf.device(own):
                z = tf.cond(condition, lambda: y + x, lambda: y * 10.0)
            self.assertEqual(session.run(z, {condition: True}).tolist(), [4, 8])
            self.assertEqual(session.run(z, {condition: False}).tolist(), [0, 10])

        self.for_both_masters(check)

    def test_a_conditional_of_the_first_version(self):
        def check(session, own, other):
            with tf.device(own):
                condition = v1.placeholder(tf.bool, [])
                x = tf.constant([1.0, 2.0])
                dead, alive = tf.raw_ops.Switch(data=x, pred=condition)
            with tf.device(other):
                branches = [dead - 1.0, alive * 3.0]
            with tf.device(own):
                y = tf.raw_ops.Merge(inputs=branches).output
            self.assertEqual(session.run(y, {condition: True}).tolist(), [3, 6])
            self.assertEqual(session.run(y, {condition: False}).tolist(), [0, 1])

        self.for_both_masters(check)

    def test_variables_of_the_other_task_are_trained(self):
        random = np.random.default_rng(2)
        features = random.normal(size=[50, 4]).astype(np.float32)
        labels = (features @ [1, -2, 3, 0.5]).astype(np.float32)

        def check(session, own, other):
            with tf.device(other):
                w = v1.get_variable("w", [4], initializer=v1.zeros_initializer())
            with tf.device(own):
                x, y = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
                loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - y))
                train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
            session.run(v1.global_variables_initializer())
            for _ in range(100):
                session.run(train, {x: features, y: labels})
            np.testing.assert_allclose(session.run(w), [1, -2, 3, 0.5], atol=1e-3)

        self.for_both_masters(check)

    def test_an_error_of_the_other_task_has_its_class_and_its_node(self):
        def check(session, own, other):
            with tf.device(own):
                x = v1.placeholder(tf.float32)
            with tf.device(other):
                y = tf.matmul(x, tf.ones([2, 2]), name=f"product{own[-1]}")
            with tf.device(own):
                z = tf.identity(y)
            with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
                session.run(z, {x: np.ones([2, 3])})
            self.assertEqual(caught.exception.op.name, f"product{own[-1]}")

        self.for_both_masters(check)

    def test_a_trace_has_both_tasks(self):
        def check(session, own, other):
            with tf.device(own):
                x = tf.raw_ops.RandomUniform(shape=[2, 2], dtype=tf.float32, name="mine")
            with tf.device(other):
                y = tf.matmul(x, x, name="yours")
            metadata = v1.RunMetadata()
            session.run(y, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE),
                        run_metadata=metadata)
            devices = {node.node_name: device.device for device in metadata.step_stats.dev_stats
                       for node in device.node_stats}
            self.assertIn(f"task:{own[-1]}/", devices["mine"])
            self.assertIn(f"task:{other[-1]}/", devices["yours"])

        self.for_both_masters(check)
