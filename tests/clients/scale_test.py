"""Many sessions, and a result that hardly fits into a message."""

import os
import pathlib
import select
import subprocess
import sys
import unittest

import numpy as np
import tensorflow as tf

from cluster import START_SECONDS, free_ports

v1 = tf.compat.v1

PYTHON_PROCESSES, SESSIONS_OF_EACH, OF_PROGRAM = 4, 10, 60
SESSIONS = PYTHON_PROCESSES * SESSIONS_OF_EACH + OF_PROGRAM


class ScaleTest(unittest.TestCase):

    def setUp(self):
        port = free_ports(1)[0]
        self.target = f"grpc://localhost:{port}"
        server = self.launch([os.path.abspath(os.environ["TANDEM_SERVER"]), f"--port={port}",
                              f"--max_sessions={SESSIONS}"])
        self.wait_for_line(server, "serving ")

    def launch(self, command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={key: value for key, value in os.environ.items()
                                        if key not in ("TF_CONFIG", "TANDEM_DEVICES")})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def wait_for_line(self, process, start):
        self.assertTrue(select.select([process.stdout], [], [], START_SECONDS)[0], start)
        self.assertTrue(process.stdout.readline().startswith(start), start)

    def session(self):
        return v1.Session(self.target, config=v1.ConfigProto(operation_timeout_in_ms=200_000))

    def test_a_hundred_sessions_of_five_processes_at_once(self):
        script = str(pathlib.Path(__file__).with_name("many_sessions.py"))
        processes = [self.launch([sys.executable, "-B", script, self.target, str(SESSIONS_OF_EACH)])
                     for _ in range(PYTHON_PROCESSES)]
        processes.append(self.launch([os.path.abspath(os.environ["MANY_SESSIONS"]), self.target,
                                      str(OF_PROGRAM)]))
        for process in processes:
            self.wait_for_line(process, "open")
        with tf.Graph().as_default():
            y = tf.constant(1.0) + 1.0
            # All are open: the server's limit is their number.
            with self.session() as session, self.assertRaises(tf.errors.ResourceExhaustedError):
                session.run(y)
            for process in processes:
                process.stdin.write("go on\n")
                process.stdin.flush()
            for process in processes:
                self.assertEqual(process.wait(START_SECONDS), 0)
            with self.session() as session:
                self.assertEqual(session.run(y), 2)

    def test_a_fetch_of_a_gibibyte_and_a_half(self):
        elements = 3 << 27
        with tf.Graph().as_default(), self.session() as session:
            value = tf.cast(tf.range(elements, dtype=tf.int32) % 1021, tf.float32)
            fetched = session.run(value)
        self.assertEqual(fetched.nbytes, 3 << 29)
        for first in range(0, elements, 1 << 24):
            part = fetched[first:first + (1 << 24)]
            wanted = np.arange(first, first + len(part), dtype=np.int32) % 1021
            self.assertTrue(np.array_equal(part, wanted.astype(np.float32)), first)

    def test_a_value_that_no_message_can_hold_is_an_error(self):
        with tf.Graph().as_default(), self.session() as session:
            value = tf.zeros([(2 << 30) // 4 + 1])
            with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
                session.run(value)
            self.assertIn("2 GiB", caught.exception.message)
            self.assertEqual(session.run(value[0]), 0)

