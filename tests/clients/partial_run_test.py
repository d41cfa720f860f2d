"""Partial runs of TensorFlow's client: servers of Tandem answer as those of TensorFlow do."""

import threading
import unittest

import tensorflow as tf

from cluster import Cluster

v1 = tf.compat.v1

SCENARIOS = []


def scenario(run):
    """`run` takes a session and says, step by step, what came out."""
    SCENARIOS.append(run)
    return run


class Graph:
    """total = a + b; product = total * c; "taken" waits for a queue."""

    def __init__(self, session):
        self.session = session
        with session.graph.as_default():
            self.a, self.b, self.c = (v1.placeholder(tf.float32, [], name) for name in "abc")
            self.total = tf.add(self.a, self.b, "total")
            self.product = tf.multiply(self.total, self.c, "product")
            queue = v1.FIFOQueue(1, [tf.float32], [[]])
            self.taken = tf.add(queue.dequeue(), 0.0, "taken")
            self.put = queue.enqueue(7.0)
            self.quotient = tf.math.floordiv(6, v1.placeholder(tf.int32, [], "d"), "quotient")
            self.d = session.graph.get_tensor_by_name("d:0")
            switch = v1.placeholder(tf.bool, [], "which")
            self.which = switch
            self.no, self.yes = (tf.identity(branch)
                                 for branch in tf.raw_ops.Switch(data=self.a, pred=switch))
            self.count = v1.get_variable("count", initializer=0.0, use_resource=True)
            with tf.control_dependencies([self.total]):
                self.counted = self.count.assign_add(1.0).op

    def setup(self, fetches, feeds):
        return self.session.partial_run_setup(fetches, feeds)

    def outcome(self, handle, fetches, feeds=None):
        """The values, or the class of the error."""
        try:
            return self.session.partial_run(handle, fetches, feeds or {})
        except tf.errors.OpError as error:
            return type(error)


@scenario
def bit_by_bit(session):
    g = Graph(session)
    for _ in range(3):
        handle = g.setup([g.total, g.product], [g.a, g.b, g.c])
        yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
        yield g.outcome(handle, g.product, {g.c: 3})


@scenario
def two_at_once(session):
    g = Graph(session)
    one = g.setup([g.total, g.product], [g.a, g.b, g.c])
    other = g.setup([g.total, g.product], [g.a, g.b, g.c])
    yield g.outcome(one, g.total, {g.a: 1, g.b: 2})
    yield g.outcome(other, g.total, {g.a: 10, g.b: 20})
    yield g.outcome(one, g.product, {g.c: 3})
    yield g.outcome(other, g.product, {g.c: 4})


@scenario
def an_inner_value_is_fed(session):
    g = Graph(session)
    handle = g.setup([g.product], [g.total, g.c])
    yield g.outcome(handle, g.product, {g.total: 5, g.c: 3})


@scenario
def a_run_that_is_over(session):
    g = Graph(session)
    handle = g.setup([g.total], [g.a, g.b])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})


@scenario
def a_run_that_nobody_set_up(session):
    g = Graph(session)
    g.setup([g.total], [g.a, g.b])
    yield g.outcome("4711", g.total, {g.a: 1, g.b: 2})


@scenario
def a_fetch_before_its_feed(session):
    g = Graph(session)
    handle = g.setup([g.total, g.product], [g.a, g.b, g.c])
    yield g.outcome(handle, g.product, {g.a: 1, g.b: 2})


@scenario
def a_feed_that_was_not_declared(session):
    g = Graph(session)
    handle = g.setup([g.total, g.product], [g.a, g.b])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2, g.c: 3})


@scenario
def a_fetch_that_was_not_declared(session):
    g = Graph(session)
    handle = g.setup([g.total], [g.a, g.b, g.c])
    yield g.outcome(handle, g.product, {g.a: 1, g.b: 2, g.c: 3})


@scenario
def a_feed_given_twice(session):
    g = Graph(session)
    handle = g.setup([g.total, g.product], [g.a, g.b, g.c])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
    yield g.outcome(handle, g.product, {g.a: 1, g.c: 2})


@scenario
def a_fetch_asked_for_twice(session):
    g = Graph(session)
    handle = g.setup([g.total, g.product], [g.a, g.b, g.c])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
    yield g.outcome(handle, [g.total, g.product], {g.c: 2})


@scenario
def an_op_that_fails(session):
    g = Graph(session)
    handle = g.setup([g.quotient, g.total], [g.d, g.a, g.b])
    yield g.outcome(handle, g.quotient, {g.d: 0})
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})


@scenario
def a_target_runs_once(session):
    g = Graph(session)
    session.run(g.count.initializer)
    handle = g.setup([g.total, g.counted], [g.a, g.b])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
    yield session.run(g.count.read_value())


@scenario
def other_steps_go_on_meanwhile(session):
    g = Graph(session)
    handle = g.setup([g.total, g.taken], [g.a, g.b])
    yield g.outcome(handle, g.total, {g.a: 1, g.b: 2})
    session.run(g.put)
    yield g.outcome(handle, g.taken)


@scenario
def the_branch_that_is_not_taken(session):
    g = Graph(session)
    handle = g.setup([g.yes, g.no], [g.a, g.which])
    yield g.outcome(handle, g.yes, {g.a: 1, g.which: True})
    yield g.outcome(handle, g.no)


class PartialRunTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.tandem = Cluster({"worker": 1})
        cls.addClassCleanup(cls.tandem.close)
        cls.tensorflow = Cluster({"worker": 1}, tensorflow={"worker:0": 1})
        cls.addClassCleanup(cls.tensorflow.close)

    def session(self, cluster, milliseconds=60_000):
        config = v1.ConfigProto(operation_timeout_in_ms=milliseconds, isolate_session_state=True)
        return v1.Session(cluster.target("worker:0"), graph=tf.Graph(), config=config)

    def test_the_answers_are_tensorflows(self):
        for run in SCENARIOS:
            with self.subTest(run.__name__):
                outcomes = []
                for cluster in (self.tandem, self.tensorflow):
                    with self.session(cluster) as session:
                        outcomes.append(list(run(session)))
                self.assertEqual(outcomes[0], outcomes[1])

    def test_a_call_that_takes_too_long_ends_the_run(self):
        with self.session(self.tandem, milliseconds=300) as session:
            g = Graph(session)
            handle = g.setup([g.taken, g.total], [g.a, g.b])
            self.assertIs(g.outcome(handle, g.taken, {g.a: 1}), tf.errors.DeadlineExceededError)
            # The run may still be about to end.
            self.assertIn(g.outcome(handle, g.total, {g.b: 1}),
                          (tf.errors.InvalidArgumentError, tf.errors.DeadlineExceededError))

    def test_closing_the_session_ends_a_call_that_waits(self):
        session = self.session(self.tandem)
        g = Graph(session)
        handle = g.setup([g.taken, g.total], [g.a, g.b])
        self.assertEqual(g.outcome(handle, g.total, {g.a: 1, g.b: 2}), 3)
        outcomes = []
        call = threading.Thread(target=lambda: outcomes.append(g.outcome(handle, g.taken)))
        call.start()
        session.close()
        call.join()
        self.assertIn(outcomes[0], (tf.errors.CancelledError, tf.errors.AbortedError,
                                    tf.errors.FailedPreconditionError))
