#!/usr/bin/env python3
"""Writes what saver_graph_test.cc runs, with TensorFlow: make_saver_graph.py [FOLDER]

saver_graph.pbtxt   a graph of TensorFlow 1 with a partitioned variable, one by reference, and a
                    Saver in shards
model.*             the checkpoint that TensorFlow writes with it
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

v1 = tf.compat.v1


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    with tf.Graph().as_default() as graph, v1.Session() as session:
        rows = v1.get_variable("rows", shape=[5, 2], partitioner=tf.compat.v1.fixed_size_partitioner(2),
                               initializer=v1.constant_initializer(1.5), use_resource=True)
        step = v1.get_variable("step", initializer=7, use_resource=False)
        bump = v1.assign_add(step, 1, name="bump")
        del bump
        saver = v1.train.Saver(list(rows) + [step], sharded=True)
        v1.global_variables_initializer()
        tf.identity(tf.concat(list(rows), 0), name="all_rows")
        tf.identity(step, name="step_now")
        session.run(v1.global_variables_initializer())
        session.run("bump:0")
        saver.save(session, os.path.join(folder, "model"), write_meta_graph=False, write_state=False)
        definition = graph.as_graph_def()
        tf.io.write_graph(definition, folder, "saver_graph.pbtxt")
        print(saver.as_saver_def())


if __name__ == "__main__":
    main()
