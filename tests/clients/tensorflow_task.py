"""A task of a cluster that TensorFlow serves: tensorflow_task.py CLUSTER JOB INDEX THREADS."""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf  # Reads the two when it is imported.


def main():
    cluster, job, index, threads = sys.argv[1:]
    server = tf.distribute.Server(
        json.loads(cluster), job_name=job, task_index=int(index),
        config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=int(threads),
                                        inter_op_parallelism_threads=int(threads)))
    print("serving", flush=True)
    server.join()


if __name__ == "__main__":
    main()
