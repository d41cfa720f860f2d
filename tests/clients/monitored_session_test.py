"""TensorFlow's MonitoredTrainingSession on a cluster of Tandem, also when tasks of it die."""

import concurrent.futures

import numpy as np
import tensorflow as tf

from cluster import Cluster
from side_by_side import SideBySide

v1 = tf.compat.v1


class Recorder(v1.train.SessionRunHook):
    """Keeps what each step fetched, and calls `on_step` after it."""

    def __init__(self, fetched, on_step=lambda step: None):
        self.fetched = fetched
        self.on_step = on_step
        self.sessions = 0
        self.values = []

    def after_create_session(self, session, coord):
        self.sessions += 1

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.fetched)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)
        self.on_step(int(run_values.results["step"]))


class MonitoredSessionTest(SideBySide):

    def setUp(self):
        super().setUp()
        self.cluster = Cluster({"ps": 1, "worker": 2})
        self.addCleanup(self.cluster.close)

    def build(self, worker=0):
        """A least squares problem whose variables lie on the parameter server; half of the
        gradient's work is the other worker's."""
        random = np.random.default_rng(3)
        features = random.normal(size=[40, 3]).astype(np.float32)
        labels = (features @ [2, -1, 0.5]).astype(np.float32)
        with v1.device(v1.train.replica_device_setter(
                cluster=self.cluster.jobs, worker_device=f"/job:worker/task:{worker}")):
            step = v1.train.get_or_create_global_step()
            w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
            halves = []
            for task in (0, 1):
                with tf.device(f"/job:worker/task:{task}"):
                    errors = tf.linalg.matvec(features[task::2], w) - labels[task::2]
                    halves.append(tf.reduce_mean(tf.square(errors)))
            loss = tf.add_n(halves)
            v1.summary.scalar("loss", loss)
            with tf.control_dependencies(
                    [v1.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)]):
                after = step.read_value()
        return {"step": after, "loss": loss}

    def train(self, hooks, last_step, folder=None):
        hooks = [*hooks, v1.train.StopAtStepHook(last_step=last_step)]
        with v1.train.MonitoredTrainingSession(
                self.cluster.target("worker:0"), checkpoint_dir=folder or self.folder, hooks=hooks,
                save_checkpoint_steps=10, save_checkpoint_secs=None, save_summaries_steps=5,
                log_step_count_steps=None, config=self.cluster.config()) as session:
            while not session.should_stop():
                session.run(hooks[0].fetched["step"])

    def test_hooks_checkpoints_and_summaries(self):
        with tf.Graph().as_default():
            recorder = Recorder(self.build())
            self.train([recorder, v1.train.NanTensorHook(recorder.fetched["loss"])], 25)
        self.assertEqual([int(value["step"]) for value in recorder.values], list(range(1, 26)))
        losses = [value["loss"] for value in recorder.values]
        self.assertLess(losses[-1], losses[0] / 10)
        newest = tf.train.latest_checkpoint(self.folder)
        self.assertTrue(newest.endswith("-25"), newest)
        self.assertEqual(tf.train.load_variable(newest, "global_step"), 25)
        events = [event for path in v1.gfile.Glob(self.path("events*"))
                  for event in v1.train.summary_iterator(path)]
        summaries = {event.step: value.simple_value for event in events
                     for value in event.summary.value if value.tag == "loss"}
        self.assertTrue(summaries)
        for step, loss in summaries.items():
            np.testing.assert_allclose(loss, losses[step - 1], rtol=1e-5)

    def test_a_second_session_goes_on_from_the_checkpoint(self):
        for last_step in (10, 20):
            with tf.Graph().as_default():
                recorder = Recorder(self.build())
                v1.Session.reset(self.cluster.target("worker:0"))
                self.train([recorder], last_step)
                self.assertEqual([int(value["step"]) for value in recorder.values],
                                 list(range(last_step - 9, last_step + 1)))

    def test_training_goes_on_after_a_killed_task(self):
        # A parameter server takes its variables with it. With a worker nothing is lost, but
        # TensorFlow restores the last checkpoint there, too.
        for task in ("worker:1", "ps:0", "worker:0"):
            with self.subTest(task), tf.Graph().as_default():
                v1.Session.reset(self.cluster.target("worker:0"))
                killed = []

                def kill_once(step, task=task, killed=killed):
                    if step == 15 and not killed:
                        killed.append(step)
                        self.cluster.kill(task)
                        self.cluster.start(task)

                recorder = Recorder(self.build(), kill_once)
                self.train([recorder], 30, folder=self.path(task))
                self.assertEqual([int(value["step"]) for value in recorder.values],
                                 [*range(1, 16), *range(11, 31)])
                self.assertEqual(recorder.sessions, 2)
                self.assertLess(recorder.values[-1]["loss"], recorder.values[0]["loss"] / 10)

    def test_the_second_worker_waits_for_the_chief(self):
        with tf.Graph().as_default():
            recorder = Recorder(self.build())
            self.train([recorder], 5)
        with tf.Graph().as_default():
            fetched = self.build(worker=1)
            with v1.train.MonitoredTrainingSession(
                    self.cluster.target("worker:1"), is_chief=False,
                    config=self.cluster.config()) as session:
                self.assertEqual(session.run(fetched["step"]), 6)

    def test_a_step_that_waits_for_a_killed_task_ends_and_a_new_session_works(self):
        with tf.Graph().as_default():
            with tf.device("/job:ps"):
                begun = v1.FIFOQueue(1, [tf.int32], [[]], shared_name="begun")
                begin, wait_for_begin = begun.enqueue(1), begun.dequeue()
            with tf.device("/job:worker/task:1"), tf.control_dependencies([begin]):
                never = v1.FIFOQueue(1, [tf.int32], [[]], shared_name="never").dequeue()
            with tf.device("/job:worker/task:1"):
                three = tf.constant(1) + 2
            with concurrent.futures.ThreadPoolExecutor(1) as threads, \
                    self.cluster.session("worker:0") as session:
                waiting = threads.submit(session.run, never)
                session.run(wait_for_begin)
                self.cluster.kill("worker:1")
                lost = waiting.exception(100)
                # What monitored sessions recover from.
                self.assertIsInstance(lost, (tf.errors.UnavailableError, tf.errors.AbortedError))
                self.assertIn("/job:worker/replica:0/task:1", lost.message)
            self.cluster.start("worker:1")
            with self.cluster.session("worker:0") as session:
                self.assertEqual(session.run(three), 3)
