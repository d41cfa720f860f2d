#!/usr/bin/env python3
"""How quickly a server is ready and how much memory it takes, Tandem's beside TensorFlow's.

    tools/benchmarks/server_start.py bazel-bin/tools/tandem_server

Needs TensorFlow (and gRPC, which comes with it) in the interpreter. Servers are started in turn. A
server is ready when it answers its first call, GetStatus; from its process's start on. Its memory is
what is resident then, before it has seen a graph. Prints medians, the processor time until then, which
says more on a busy machine, and Tandem's over TensorFlow's.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import grpc

TENSORFLOW_SERVER = """
import sys
import tensorflow as tf
tf.distribute.Server({"worker": [sys.argv[1]]}, job_name="worker", task_index=0).join()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


def processor_seconds(pid):
    return sum(int(path.read_text().split()[0])
               for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def wait_until_it_answers(process, port):
    """Tries to connect until somebody listens, and calls."""
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.0005)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        get_status = channel.unary_unary("/tensorflow.WorkerService/GetStatus")
        get_status(b"", timeout=60, wait_for_ready=True)


def measure(command):
    """Seconds until a server is ready, those of a processor, and the bytes it takes."""
    port = free_port()
    with tempfile.TemporaryFile() as log:
        begin = time.monotonic()
        process = subprocess.Popen(command(port), stdout=log, stderr=log)
        try:
            wait_until_it_answers(process, port)
            seconds = time.monotonic() - begin
            return seconds, processor_seconds(process.pid), resident_bytes(process.pid)
        finally:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", help="the program tandem_server")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()

    def tandem(port):
        return [arguments.server, f"--cluster={json.dumps({'worker': [f'127.0.0.1:{port}']})}"]

    def tensorflow(port):
        return [sys.executable, "-c", TENSORFLOW_SERVER, f"127.0.0.1:{port}"]

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    found = {"Tandem": [], "TensorFlow": []}
    for _ in range(arguments.rounds):
        found["Tandem"].append(measure(tandem))
        found["TensorFlow"].append(measure(tensorflow))
    medians = {}
    for name, results in found.items():
        medians[name] = [statistics.median(values) for values in zip(*results)]
        seconds, processor, size = medians[name]
        least = min(each[0] for each in results)
        print(f"{name:10}  ready after {1e3 * seconds:8.1f} ms (at best {1e3 * least:.1f}), "
              f"of a processor {1e3 * processor:8.1f} ms   {size / 2**20:7.1f} MiB")
    ratios = [a / b for a, b in zip(medians["Tandem"], medians["TensorFlow"])]
    print(f"{'ratio':10}  {ratios[0]:.4f} of the time, {ratios[1]:.4f} of the processor's, "
          f"{ratios[2]:.3f} of the memory")


if __name__ == "__main__":
    main()
