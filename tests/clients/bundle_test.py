"""Checkpoints, in both directions."""

import glob
import json
import os

import numpy as np
import tensorflow as tf

from side_by_side import NUMBER_TYPES, SHAPES, SideBySide, numbers, strings

v1 = tf.compat.v1


def every_tensor():
    tensors = {}
    for dtype in NUMBER_TYPES:
        for shape in SHAPES:
            tensors[f"{dtype.name}/{'x'.join(map(str, shape)) or 'scalar'}"] = numbers(dtype, shape)
    for shape in [[], [0], [1], [2, 3], [200]]:
        tensors[f"string/{'x'.join(map(str, shape)) or 'scalar'}"] = strings(shape)
    # Names that sort and share beginnings in all ways, and enough of them for many blocks.
    for i in range(3000):
        tensors[f"many/{'a' * (i % 40)}{i}"] = np.float32(i)
    return tensors


class TandemWrites(SideBySide):
    """TensorFlow reads."""

    def write(self, tensors, shards=1):
        prefix = self.path("ckpt/model-7")
        self.formats("write_bundle", self.write_tensors(tensors), prefix, shards)
        return prefix

    def test_every_type_and_shape(self):
        tensors = every_tensor()
        for shards in (1, 3):
            with self.subTest(shards=shards):
                reader = tf.train.load_checkpoint(self.write(tensors, shards))
                self.assert_same({name: reader.get_tensor(name) for name in tensors}, tensors)

    def test_list_variables(self):
        tensors = {"w": numbers(tf.float32, [3, 4]), "b": numbers(tf.bfloat16, []),
                   "s": strings([2])}
        prefix = self.write(tensors)
        self.assertEqual(tf.train.list_variables(prefix), [("b", []), ("s", [2]), ("w", [3, 4])])
        types = tf.train.load_checkpoint(prefix).get_variable_to_dtype_map()
        self.assertEqual(types, {"w": tf.float32, "b": tf.bfloat16, "s": tf.string})

    def test_the_state_file_names_the_newest(self):
        prefix = self.write({"w": numbers(tf.float32, [3])})
        self.assertEqual(tf.train.latest_checkpoint(os.path.dirname(prefix)), prefix)
        state = tf.train.get_checkpoint_state(os.path.dirname(prefix))
        self.assertEqual(list(state.all_model_checkpoint_paths), [prefix])

    def test_a_saver_restores(self):
        tensors = {"w": numbers(tf.float32, [30, 40]), "scope/step": numbers(tf.int64, [])}
        for shards in (1, 2):
            prefix = self.write(tensors, shards)
            for resource in (False, True):
                with self.subTest(shards=shards, resource=resource), tf.Graph().as_default():
                    for name, value in tensors.items():
                        v1.get_variable(name, value.shape, tf.as_dtype(value.dtype),
                                        v1.zeros_initializer(), use_resource=resource)
                    with v1.Session() as session:
                        v1.train.Saver().restore(session, prefix)
                        found = {v.op.name: session.run(v) for v in v1.global_variables()}
                    self.assert_same(found, tensors)

    def test_a_checkpoint_object_restores_names(self):
        """tf.train.Checkpoint reads bundles without a graph of objects by the variables' names."""
        value = numbers(tf.float32, [5])
        prefix = self.write({"w": value, "save_counter": np.int64(3)})
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.get_variable("w", [5], initializer=v1.zeros_initializer())
            status = tf.train.Checkpoint(v=variable).restore(prefix)
            status.initialize_or_restore(session)
            self.assert_same({"w": session.run(variable)}, {"w": value})

    def test_parts_of_partitioned_variables(self):
        tensors = {"table": numbers(tf.float32, [5, 3]), "numbers": numbers(tf.int64, [4, 2, 2])}
        prefix = self.path("parts")
        self.formats("write_slices", self.write_tensors(tensors), prefix)
        reader = tf.train.load_checkpoint(prefix)
        self.assert_same({name: reader.get_tensor(name) for name in tensors}, tensors)
        part = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["table"],
                                    shape_and_slices=["5 3 1,3:1,2"], dtypes=[tf.float32])[0]
        self.assert_same({"part": part.numpy()}, {"part": tensors["table"][1:4, 1:3]})

    def test_convert_makes_what_a_saver_reads(self):
        tensors = every_tensor()
        prefix = self.write(tensors)
        moved = self.path("moved/model")
        self.call("TANDEM", "checkpoint", "convert", prefix, moved, "--shards=5")
        self.assertEqual(len(glob.glob(moved + ".data-*-of-00005")), 5)
        reader = tf.train.load_checkpoint(moved)
        self.assert_same({name: reader.get_tensor(name) for name in tensors}, tensors)


class TensorFlowWrites(SideBySide):
    """Tandem reads."""

    def read(self, path, *names):
        tensors = self.path("read")
        self.formats("read_bundle", path, tensors, *names)
        return self.read_tensors(tensors)

    def test_every_type_and_shape(self):
        tensors = every_tensor()
        prefix = self.path("model")
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors),
                          shape_and_slices=[""] * len(tensors),
                          tensors=[tf.constant(value) for value in tensors.values()])
        self.assert_same(self.read(prefix), tensors)
        self.call("TANDEM", "checkpoint", "verify", prefix)

    def test_a_saver_of_variables_of_both_kinds(self):
        tensors = {"a": numbers(tf.float32, [3, 4]), "scope/b": numbers(tf.float64, []),
                   "scope/c": numbers(tf.int32, [0, 2])}
        for resource in (False, True):
            for sharded in (False, True):
                with self.subTest(resource=resource, sharded=sharded), tf.Graph().as_default():
                    for name, value in tensors.items():
                        v1.get_variable(name, initializer=value, use_resource=resource)
                    prefix = self.path(f"saver{resource}{sharded}/model")
                    os.makedirs(os.path.dirname(prefix))
                    with v1.Session() as session:
                        session.run(v1.global_variables_initializer())
                        saver = v1.train.Saver(sharded=sharded)
                        saved = saver.save(session, prefix, global_step=3)
                    self.assert_same(self.read(saved), tensors)
                    # The folder stands for the newest.
                    self.assert_same(self.read(os.path.dirname(prefix)), tensors)

    def test_a_saver_of_partitioned_variables(self):
        with tf.Graph().as_default():
            table = v1.get_variable("table", [7, 3], initializer=v1.random_uniform_initializer(),
                                    partitioner=v1.fixed_size_partitioner(3))
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                saved = v1.train.Saver().save(session, self.path("model"))
                value = session.run(tf.convert_to_tensor(table))
        self.assert_same(self.read(saved), {"table": value})

    def test_merged_shards(self):
        first, second = numbers(tf.float32, [3]), strings([4])
        parts = [self.path("part1"), self.path("part2")]
        tf.raw_ops.SaveV2(prefix=parts[0], tensor_names=["a"], shape_and_slices=[""],
                          tensors=[tf.constant(first)])
        tf.raw_ops.SaveV2(prefix=parts[1], tensor_names=["b"], shape_and_slices=[""],
                          tensors=[tf.constant(second)])
        merged = self.path("merged")
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=merged)
        self.assert_same(self.read(merged), {"a": first, "b": second})

    def test_a_graph_of_objects_by_path(self):
        inner = tf.train.Checkpoint(w=tf.Variable(numbers(tf.float32, [2, 3])))
        root = tf.train.Checkpoint(step=tf.Variable(np.int64(41)), inner=inner)
        setattr(root, "with.dot", tf.Variable(numbers(tf.bfloat16, [4])))
        prefix = root.save(self.path("objects/ckpt"))
        found = self.read(prefix, "inner/w", "step", "inner/w/.ATTRIBUTES/VARIABLE_VALUE")
        wanted = inner.w.numpy()
        self.assert_same(found, {"inner/w": wanted, "step": np.int64(41),
                                 "inner/w/.ATTRIBUTES/VARIABLE_VALUE": wanted})

    def test_keras_weights_and_optimizer(self):
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([
            tf.keras.Input([28, 28, 1]), tf.keras.layers.Conv2D(4, 3, name="conv"),
            tf.keras.layers.BatchNormalization(name="norm"), tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, name="dense")])
        model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(True))
        images = np.random.default_rng(1).normal(size=[64, 28, 28, 1]).astype(np.float32)
        model.fit(images, np.arange(64) % 10, batch_size=16, verbose=0)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        manager = tf.train.CheckpointManager(checkpoint, self.path("keras"), max_to_keep=3)
        manager.save()

        everything = self.read(self.path("keras"))
        listed = json.loads(self.call("TANDEM", "checkpoint", "ls", self.path("keras"), "--json"))
        wanted = {}
        for name, _ in tf.train.list_variables(manager.latest_checkpoint):
            if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
                wanted[name] = tf.train.load_variable(manager.latest_checkpoint, name)
        self.assert_same(everything, wanted)
        self.assertEqual(sorted(t["name"] for t in listed["tensors"]), sorted(wanted))

        # The first of these objects is the input.
        layers = "model/_functional/_operations/"
        by_path = {
            layers + "1/_kernel": model.get_layer("conv").kernel.numpy(),
            layers + "2/gamma": model.get_layer("norm").gamma.numpy(),
            layers + "4/_kernel": model.get_layer("dense").kernel.numpy(),
            "optimizer/_iterations": model.optimizer.iterations.numpy(),
        }
        self.assert_same(self.read(self.path("keras"), *by_path), by_path)
