"""many_sessions.py TARGET COUNT: so many sessions at once, each in a thread, with a graph of its own.

Prints "open" when all of them have run a step, and goes on when a line comes in.
"""

import concurrent.futures
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
STEPS = 20


class Program:

    def __init__(self, target, number):
        self.number = number
        with tf.Graph().as_default() as graph:
            self.x = v1.placeholder(tf.float32, [None])
            self.y = self.x * float(number)
            self.session = v1.Session(target, graph=graph,
                                      config=v1.ConfigProto(operation_timeout_in_ms=100_000))
        self.step(1)

    def step(self, step):
        y = self.session.run(self.y, {self.x: np.full(100, step, np.float32)})
        np.testing.assert_array_equal(y, np.full(100, step * self.number, np.float32))

    def steps(self):
        for step in range(STEPS):
            self.step(step)
        self.session.close()


def main():
    target, count = sys.argv[1], int(sys.argv[2])
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        programs = list(threads.map(lambda number: Program(target, number), range(count)))
        print("open", flush=True)
        sys.stdin.readline()
        for ended in [threads.submit(program.steps) for program in programs]:
            ended.result()


if __name__ == "__main__":
    main()
