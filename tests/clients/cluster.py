"""Clusters of server processes, Tandem's and TensorFlow's, on this machine."""

import json
import os
import pathlib
import select
import socket
import subprocess
import sys

import tensorflow as tf

v1 = tf.compat.v1

# TensorFlow takes long to import on a machine with much to do.
START_SECONDS = 200
STEP_MILLISECONDS = 100_000


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Cluster:
    """Tasks, each a process of its own, as in Cluster({"ps": 1, "worker": 2}).

    `tensorflow` has the tasks that TensorFlow serves, as in {"worker:1": 2}, with numbers of
    threads; the others are Tandem's. The test is to call close() in the end, which kills all.
    """

    def __init__(self, jobs, tensorflow=None):
        tasks = [f"{job}:{index}" for job, count in jobs.items() for index in range(count)]
        self.addresses = {task: f"localhost:{port}"
                          for task, port in zip(tasks, free_ports(len(tasks)))}
        self.jobs = {job: [self.addresses[f"{job}:{index}"] for index in range(count)]
                     for job, count in jobs.items()}
        self.tensorflow = tensorflow or {}
        self.processes = {}
        try:
            for task in tasks:
                self.launch(task)
            for task in tasks:
                self.wait_until_it_serves(task)
        except BaseException:
            self.close()
            raise

    def launch(self, task):
        job, index = task.split(":")
        cluster = json.dumps(self.jobs)
        if task in self.tensorflow:
            program = [sys.executable, "-B",
                       str(pathlib.Path(__file__).with_name("tensorflow_task.py")),
                       cluster, job, index, str(self.tensorflow[task])]
        else:
            program = [os.path.abspath(os.environ["TANDEM_SERVER"]), f"--cluster={cluster}",
                       f"--job={job}", f"--task={index}"]
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("TF_CONFIG", "TANDEM_DEVICES")}
        self.processes[task] = subprocess.Popen(program, stdout=subprocess.PIPE, env=environment)

    def wait_until_it_serves(self, task):
        """Each program prints a line when it does."""
        output = self.processes[task].stdout
        if not select.select([output], [], [], START_SECONDS)[0] or not output.readline():
            raise RuntimeError(f"{task} did not start, or ended at once")

    def start(self, task):
        """Starts a task that was killed, at its old address."""
        self.launch(task)
        self.wait_until_it_serves(task)

    def kill(self, task):
        process = self.processes.pop(task)
        process.kill()
        process.wait()
        process.stdout.close()

    def close(self):
        for task in list(self.processes):
            self.kill(task)

    def target(self, task):
        return f"grpc://{self.addresses[task]}"

    def config(self, **options):
        return v1.ConfigProto(operation_timeout_in_ms=STEP_MILLISECONDS, **options)

    def session(self, task, **options):
        return v1.Session(self.target(task), config=self.config(**options))
