"""tensorflow_parameter_servers.py: asynchronous steps a second of the demo's CNN under TensorFlow's
ParameterServerStrategy, with a coordinator, workers and servers as processes of this host.

Starts the other processes itself, prints a JSON object, and ends them.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

WARM_UP = 20


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def environment(cluster, job, task):
    config = {"cluster": cluster, "task": {"type": job, "index": task}}
    return {**os.environ, "TF_CONFIG": json.dumps(config)}


def serve(job, task):
    import tensorflow as tf  # pylint: disable=import-outside-toplevel
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.distribute.Server(resolver.cluster_spec(), job_name=job, task_index=task,
                         protocol="grpc").join()


def train(steps):
    import tensorflow as tf  # pylint: disable=import-outside-toplevel
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    layers = tf.keras.layers
    with strategy.scope():
        model = tf.keras.Sequential([
            layers.Input((28, 28, 1)), layers.Conv2D(64, 3, activation="relu"), layers.MaxPool2D(),
            layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)])
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    def data():
        images = tf.random.stateless_normal([64, 28, 28, 1], [1, 2])
        labels = tf.random.stateless_uniform([64], [3, 4], 0, 10, tf.int32)
        return tf.data.Dataset.from_tensors((images, labels)).repeat()

    iterator = iter(coordinator.create_per_worker_dataset(data))

    @tf.function
    def step(iterator):
        def replica(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, model(images, training=True)))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss
        return strategy.run(replica, args=next(iterator))

    for _ in range(WARM_UP):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    begin = time.perf_counter()
    for _ in range(steps):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    return steps / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--serve", nargs=2, metavar=("JOB", "TASK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return
    ports = free_ports(options.workers + options.servers + 1)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"worker": addresses[:options.workers], "ps": addresses[options.workers:-1],
               "chief": addresses[-1:]}
    others = []
    try:
        for job in ("worker", "ps"):
            for task in range(len(cluster[job])):
                others.append(subprocess.Popen(
                    [sys.executable, os.path.abspath(__file__), "--serve", job, str(task)],
                    env=environment(cluster, job, task), stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL))
        os.environ.update(environment(cluster, "chief", 0))
        print(json.dumps({"steps_per_second": train(options.steps)}), flush=True)
    finally:
        for process in others:
            process.kill()
            process.wait()
        sys.stdout.flush()
        # The strategy's threads wait for servers that are gone.
        os._exit(0)  # pylint: disable=protected-access


main()
