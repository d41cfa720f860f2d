"""Loops over several tasks: TensorFlow's client, and servers of Tandem, alone and beside TensorFlow's.

What they give is compared with what TensorFlow gives in one process.
"""

import concurrent.futures

import numpy as np
import tensorflow as tf

import loops
from cluster import Cluster
from side_by_side import SideBySide

v1 = tf.compat.v1

TASKS = ["/job:worker/task:0", "/job:worker/task:1"]
ROUNDS = [0, 1, 7]


class LoopTest:

    def check_all(self, task, devices):
        """`task` is the session's master."""
        for name, build in loops.LOOPS.items():
            for number in (1, 2):
                # What a loop of the first version keeps for its gradients has to lie beside what it
                # is kept of and what it is kept for; TensorFlow refuses other devices as well.
                if name == "gradients" and number == 1 and devices[0] != devices[1]:
                    continue
                with self.subTest(f"{name}, version {number}"):
                    self.check(build, number, task, devices)

    def check(self, build, number, task, devices):
        wanted, graph = [], tf.Graph()
        with tf.Graph().as_default(), loops.version(number), v1.Session() as session:
            n = v1.placeholder(tf.int32, [])
            results = build(["/cpu:0", "/cpu:0"], n)
            wanted = [session.run(results, {n: rounds}) for rounds in ROUNDS]
        with graph.as_default(), loops.version(number):
            n = v1.placeholder(tf.int32, [])
            results = build(devices, n)
        with graph.as_default(), self.cluster.session(task) as session:
            for rounds, values in zip(ROUNDS, wanted):
                found = session.run(results, {n: rounds})
                self.assertEqual(len(found), len(values))
                for a, b in zip(found, values):
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


class TandemLoopTest(LoopTest, SideBySide):
    """Two tasks of Tandem."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster({"worker": 2})
        cls.addClassCleanup(cls.cluster.close)

    def test_a_body_on_both_tasks_gives_what_one_process_gives(self):
        self.check_all("worker:0", TASKS)

    def test_a_body_all_on_the_other_task(self):
        self.check_all("worker:0", [TASKS[1], TASKS[1]])

    def test_a_thousand_rounds(self):
        for number in (1, 2):
            with self.subTest(number), tf.Graph().as_default(), loops.version(number), \
                    self.cluster.session("worker:0") as session:
                def body(i, x):
                    with tf.device(TASKS[1]):
                        return (x + tf.cast(i, tf.float32),)

                with tf.device(TASKS[0]):
                    total = loops.counted(1000, body, [tf.constant(0.0)])[0]
                self.assertEqual(session.run(total), 499500)

    def test_a_loop_trains_variables_of_the_other_task(self):
        for number in (1, 2):
            with self.subTest(number), tf.Graph().as_default(), loops.version(number), \
                    self.cluster.session("worker:0", isolate_session_state=True) as session:
                with tf.device(TASKS[1]):
                    w = v1.get_variable("w", initializer=[[0.3, -0.6], [0.7, 0.2]])

                def body(_, x):
                    with tf.device(TASKS[1]):
                        return (tf.tanh(tf.linalg.matvec(w, x)),)

                with tf.device(TASKS[0]):
                    y = loops.counted(3, body, [tf.constant([0.5, -0.25])])[0]
                    loss = tf.reduce_sum(tf.square(y - [0.4, 0.1]))
                    train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
                session.run(v1.global_variables_initializer())
                losses = [session.run([loss, train])[0] for _ in range(60)]
                self.assertLess(losses[-1], losses[0] / 20)

    def test_many_steps_of_one_loop_at_once(self):
        with tf.Graph().as_default(), self.cluster.session("worker:0") as session:
            n = v1.placeholder(tf.int32, [])
            results = loops.one_round_at_a_time(TASKS, n)
            wanted = {rounds: session.run(results, {n: rounds}) for rounds in range(8)}
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                found = {rounds: threads.submit(session.run, results, {n: rounds})
                         for rounds in range(8)}
            for rounds, values in wanted.items():
                self.assertEqual(found[rounds].result(), values)


class MixedLoopTest(LoopTest, SideBySide):
    """A task of Tandem and one of TensorFlow; either is the master."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster({"worker": 2}, tensorflow={"worker:1": 2})
        cls.addClassCleanup(cls.cluster.close)

    def test_tandem_is_the_master(self):
        self.check_all("worker:0", TASKS)

    def test_tensorflow_is_the_master(self):
        self.check_all("worker:1", TASKS[::-1])

    def test_a_loop_of_the_master_alone_beside_values_of_the_other(self):
        """TensorFlow spreads even a loop that lies in one task when the other takes part."""
        for master in (0, 1):
            with self.subTest(master), tf.Graph().as_default(), \
                    self.cluster.session(f"worker:{master}") as session:
                with tf.device(TASKS[master]):
                    x = loops.counted(5, lambda i, x: (x * 2.0,), [tf.constant(1.0)])[0]
                with tf.device(TASKS[1 - master]):
                    y = loops.counted(3, lambda i, x: (x + 1.0,), [x])[0]
                self.assertEqual(session.run(y), 35)
