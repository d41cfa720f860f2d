#!/usr/bin/env python3
"""Servers beside TensorFlow's: server_speed.py TANDEM_SERVER PROGRAM [--rounds=N] [--flag=FLAG …]

The same Python client runs one op, fetches 16 MiB, and lets a step take 16 MiB from another task, in
turn on servers of Tandem and of TensorFlow; a client in C++ (PROGRAM is tools/benchmarks:server_speed)
does the first two on Tandem's, and feeds 16 MiB, through shared memory and in messages, beside a bare
gRPC call. Prints medians of all rounds, and ratios with the smallest and the largest of the rounds.
FLAGs are for Tandem's servers.

    bazel build //tools:tandem_server //tools/benchmarks:server_speed
    $(tools/lib/venv.sh) tools/benchmarks/server_speed.py bazel-bin/tools/tandem_server \\
        bazel-bin/tools/benchmarks/server_speed
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf  # pylint: disable=wrong-import-position
from tensorflow.core.protobuf import rewriter_config_pb2  # pylint: disable=wrong-import-position

v1 = tf.compat.v1
SECONDS = 2
FLOATS = 4 << 20  # 16 MiB.

TENSORFLOW_TASK = """
import json, sys
import tensorflow as tf
server = tf.distribute.Server({"worker": json.loads(sys.argv[1])}, job_name="worker",
                              task_index=int(sys.argv[2]))
print("serving", flush=True)
server.join()
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Servers:
    """Two tasks of one kind, each a process."""

    def __init__(self, command_of):
        addresses = [f"localhost:{port}" for port in free_ports(2)]
        self.target = f"grpc://{addresses[0]}"
        self.processes = [subprocess.Popen(command_of(addresses, task), stdout=subprocess.PIPE)
                          for task in range(2)]
        for process in self.processes:
            if not process.stdout.readline():
                raise RuntimeError("a server did not start")

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def unoptimized():
    """What runs is what is measured."""
    config = v1.ConfigProto(operation_timeout_in_ms=100_000)
    config.graph_options.optimizer_options.opt_level = -1
    rewrites = config.graph_options.rewrite_options
    rewrites.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    rewrites.arithmetic_optimization = rewriter_config_pb2.RewriterConfig.OFF
    rewrites.disable_meta_optimizer = True
    return config


def median_micros(work):
    for _ in range(20):
        work()
    times = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


class Client:
    """One session, which lives for all rounds."""

    def __init__(self, target):
        with tf.Graph().as_default() as graph:
            here, there = "/job:worker/task:0", "/job:worker/task:1"
            ones = v1.ones_initializer()
            self.x = v1.placeholder(tf.float32, [])
            with tf.device(here):
                self.y = self.x + 1.0
                own = v1.get_variable("own", [FLOATS], initializer=ones, use_resource=True)
            with tf.device(there):
                others = v1.get_variable("others", [FLOATS], initializer=ones, use_resource=True)
            self.value = own.read_value()
            with tf.device(there):
                sent = others.read_value()
            with tf.device(here):
                self.taken = tf.identity(sent).op
            self.session = v1.Session(target, graph=graph, config=unoptimized())
            self.session.run(v1.global_variables_initializer())

    def measure(self):
        return {
            "one_op": median_micros(lambda: self.session.run(self.y, {self.x: 1.0})),
            "fetch": median_micros(lambda: self.session.run(self.value)),
            "between_tasks": median_micros(lambda: self.session.run(self.taken)),
        }


def measure_program(program, target):
    output = subprocess.run([program, target], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(micros) for name, micros in
            (line.split() for line in output.splitlines())}


def report(rounds):
    print("| what | microseconds, median |\n| --- | --- |")
    for who in rounds[0]:
        for what in rounds[0][who]:
            print(f"| {who}: {what} | "
                  f"{statistics.median(figures[who][what] for figures in rounds):.0f} |")
    print("\n| ratio | median | of the rounds | wanted |\n| --- | --- | --- | --- |")
    for name, over, under, wanted in [
            ("one op, of TensorFlow's time", ("tandem", "one_op"), ("tensorflow", "one_op"),
             "at most 0.6"),
            ("rate of a 16 MiB fetch", ("tensorflow", "fetch"), ("tandem", "fetch"),
             "at least 1.3"),
            ("rate between two tasks", ("tensorflow", "between_tasks"),
             ("tandem", "between_tasks"), "at least 4"),
            ("rate of a fetch in C++", ("tensorflow", "fetch"), ("C++", "fetch"), "at least 3"),
            ("the same, in messages", ("tensorflow", "fetch"), ("C++", "fetch_in_messages"), "-"),
            ("rate of a feed in C++, of that in messages", ("C++", "feed_in_messages"),
             ("C++", "feed"), "-"),
            ("one op in C++, of a bare call's time", ("C++", "one_op"), ("C++", "bare_call"),
             "at most 1.5"),
            ("the same as a callable", ("C++", "callable"), ("C++", "bare_call"), "-"),
            ("the same, started without waiting", ("C++", "started_callable"),
             ("C++", "bare_call"), "-")]:
        ratios = [figures[over[0]][over[1]] / figures[under[0]][under[1]] for figures in rounds]
        print(f"| {name} | {statistics.median(ratios):.2f} | "
              f"{min(ratios):.2f} to {max(ratios):.2f} | {wanted} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flag", action="append", default=[])
    arguments = parser.parse_args()
    server, program = os.path.abspath(arguments.server), os.path.abspath(arguments.program)
    servers = {}
    try:
        servers["tandem"] = Servers(lambda addresses, task: [
            server, "--cluster=" + json.dumps({"worker": addresses}), "--job=worker",
            f"--task={task}", *arguments.flag])
        servers["tensorflow"] = Servers(lambda addresses, task: [
            sys.executable, "-c", TENSORFLOW_TASK, json.dumps(addresses), str(task)])
        clients = {who: Client(pair.target) for who, pair in servers.items()}
        rounds = []
        for _ in range(arguments.rounds):
            figures = {who: client.measure() for who, client in clients.items()}
            figures["C++"] = measure_program(program, servers["tandem"].target)
            rounds.append(figures)
        report(rounds)
    finally:
        for pair in servers.values():
            pair.close()


if __name__ == "__main__":
    main()
