"""TensorFlow's own client against tandem_server."""

import os
import signal
import subprocess

import numpy as np
import tensorflow as tf

from side_by_side import NUMBER_TYPES, SideBySide, numbers, strings

v1 = tf.compat.v1


class ServerTest(SideBySide):

    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen(
            [os.path.abspath(os.environ["TANDEM_SERVER"]), "--port=0"], stdout=subprocess.PIPE,
            text=True, env={key: value for key, value in os.environ.items()
                            if key not in ("TF_CONFIG", "TANDEM_DEVICES")})
        self.addCleanup(self.end)
        line = self.server.stdout.readline()
        self.assertRegex(line, "^serving .* at grpc://localhost:[0-9]+")
        self.target = line.split(" at ")[1].split()[0].rstrip(",")

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(60)
        finally:
            self.server.kill()
            self.server.stdout.close()

    def session(self):
        return v1.Session(self.target, config=v1.ConfigProto(operation_timeout_in_ms=60000))

    def test_softmax_regression_trains(self):
        random = np.random.default_rng(1)
        truth = random.normal(size=[20, 5])
        features = random.normal(size=[400, 20]).astype(np.float32)
        labels = (features @ truth).argmax(1)
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, [None, 20])
            y = v1.placeholder(tf.int64, [None])
            w = v1.get_variable("w", [20, 5], initializer=v1.zeros_initializer())
            b = v1.get_variable("b", [5], initializer=v1.zeros_initializer())
            logits = tf.matmul(x, w) + b
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
            right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
            losses = {}
            for target in (self.target, ""):  # The second is TensorFlow alone.
                with v1.Session(target) as session:
                    session.run(v1.global_variables_initializer())
                    losses[target] = [session.run([loss, train], {x: features, y: labels})[0]
                                      for _ in range(100)]
                    accuracy = session.run(right, {x: features, y: labels})
                    self.assertGreater(accuracy, 0.95)
        np.testing.assert_allclose(losses[self.target], losses[""], rtol=1e-4)

    def test_every_type_is_fed_and_fetched(self):
        with tf.Graph().as_default(), self.session() as session:
            for dtype in NUMBER_TYPES + [tf.string]:
                with self.subTest(dtype.name):
                    value = strings([2, 3]) if dtype == tf.string else numbers(dtype, [2, 3])
                    fed = v1.placeholder(dtype, [2, 3])
                    self.assert_same({"value": session.run(tf.identity(fed), {fed: value})},
                                     {"value": value})

    def test_a_saver_saves_and_restores_on_the_server(self):
        with tf.Graph().as_default(), self.session() as session:
            value = numbers(tf.float32, [4, 5])
            w = v1.get_variable("w", initializer=value)
            session.run(v1.global_variables_initializer())
            saver = v1.train.Saver()
            prefix = saver.save(session, self.path("model"))
            self.assert_same({"w": tf.train.load_variable(prefix, "w")}, {"w": value})
            session.run(w.assign(tf.zeros([4, 5])))
            saver.restore(session, prefix)
            self.assert_same({"w": session.run(w)}, {"w": value})

    def test_errors_have_tensorflows_class_and_name_the_op(self):
        with tf.Graph().as_default(), self.session() as session:
            x = v1.placeholder(tf.float32, None, "x")
            y = tf.matmul(tf.ones([2, 3]), x, name="product")
            with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
                session.run(y, {x: np.ones([4, 5])})
            self.assertEqual(caught.exception.op.name, "product")

    def test_an_op_without_a_kernel_is_named(self):
        with tf.Graph().as_default(), self.session() as session:
            with self.assertRaises(tf.errors.OpError) as caught:
                session.run(tf.raw_ops.Betainc(a=0.5, b=0.5, x=0.5))
            self.assertIn("Betainc", caught.exception.message)

    def test_an_op_that_is_not_known_matters_to_steps_that_need_it(self):
        with tf.Graph().as_default(), self.session() as session:
            x = tf.constant(3.0) * 2.0
            unknown = tf.raw_ops.DecodeWav(contents=tf.constant(b""))  # Nobody asks for it.
            y = tf.identity(unknown.audio)
            self.assertEqual(session.run(x), 6.0)
            with self.assertRaises(tf.errors.NotFoundError) as caught:
                session.run([x, y])
            self.assertIn("DecodeWav", caught.exception.message)
            # What is fed is not computed.
            self.assertEqual(session.run(y, {unknown.audio: [[1.0]]}), [[1.0]])

    def test_a_queue_and_variables_of_both_kinds_have_one_name(self):
        with tf.Graph().as_default(), self.session() as session:
            queue = v1.FIFOQueue(2, [tf.float32], [[]], shared_name="v")
            first = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, shared_name="v")
            second = tf.raw_ops.VarHandleOp(shape=[], dtype=tf.float32, shared_name="v")
            session.run([queue.enqueue(1.0), tf.raw_ops.Assign(ref=first, value=2.0).op,
                         tf.raw_ops.AssignVariableOp(resource=second, value=3.0)])
            self.assertEqual(session.run([queue.dequeue(), tf.identity(first),
                                          tf.raw_ops.ReadVariableOp(resource=second,
                                                                    dtype=tf.float32)]),
                             [1.0, 2.0, 3.0])

    def test_a_loop_of_the_first_version(self):
        with tf.Graph().as_default(), self.session() as session:
            result = v1.while_loop(lambda i, s: i < 10, lambda i, s: (i + 1, s + i), [0, 0])
            self.assertEqual(session.run(result), [10, 45] if isinstance(result, list)
                             else (10, 45))
