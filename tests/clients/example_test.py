"""tf.Example and tf.SequenceExample, in both directions."""

import numpy as np
import tensorflow as tf

from side_by_side import SideBySide

TYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}


def feature(values):
    if values.dtype == np.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if values.dtype == np.int64:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def values(random, dtype, count):
    if dtype == "float32":
        return random.normal(size=count).astype(np.float32)
    if dtype == "int64":
        return random.integers(-2**63, 2**63 - 1, count) >> random.integers(0, 63, count)
    return np.array([random.bytes(n) for n in random.integers(0, 90, count)] + [None], object)[:-1]


def spec_of(word):
    """The words of formats/examples.cc as TensorFlow's specifications."""
    form, key, dtype, *shape = word.split(":")
    shape = [int(dim) for dim in shape[0].split("x")] if shape else []
    dtype = TYPES[dtype]
    return key, {
        "fixed": lambda: tf.io.FixedLenFeature(shape, dtype),
        "padded": lambda: tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=True),
        "sparse": lambda: tf.io.VarLenFeature(dtype),
        "ragged": lambda: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64),
    }[form]()


def parts(key, tensor):
    if isinstance(tensor, tf.SparseTensor):
        return {key + "/values": tensor.values, key + "/indices": tensor.indices,
                key + "/dense_shape": tensor.dense_shape}
    if isinstance(tensor, tf.RaggedTensor):
        found = {key + "/values": tensor.flat_values, key + "/row_splits": tensor.row_splits}
        if tensor.ragged_rank == 2:
            found[key + "/inner_row_splits"] = tensor.values.row_splits
        return found
    return {key + "/values": tensor}


def arrays(tensors):
    return {key: tensor.numpy() for key, tensor in tensors.items()}


class Examples(SideBySide):

    FEATURES = [f"{form}:{dtype}_{form}:{dtype}{shape}" for dtype in TYPES
                for form, shape in (("fixed", ":2x3"), ("padded", ""), ("sparse", ""),
                                    ("ragged", ""))]

    def test_tandem_parses_what_tensorflow_wrote(self):
        random = np.random.default_rng(1)
        records = []
        for _ in range(50):
            features = {}
            for word in self.FEATURES:
                form, key, dtype = word.split(":")[:3]
                count = 6 if form == "fixed" else random.integers(0, 9)
                if form == "fixed" or random.random() < 0.8:
                    features[key] = feature(values(random, dtype, count))
            records.append(tf.train.Example(
                features=tf.train.Features(feature=features)).SerializeToString())
        path = self.path("examples")
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        self.formats("parse_examples", path, self.path("parsed"), *self.FEATURES)

        wanted = {}
        parsed = tf.io.parse_example(tf.constant(records), dict(map(spec_of, self.FEATURES)))
        for key, tensor in parsed.items():
            wanted.update(parts(key, tensor))
        self.assert_same(self.read_tensors(self.path("parsed")), arrays(wanted))

    def test_tensorflow_parses_what_tandem_built(self):
        random = np.random.default_rng(2)
        tensors = {dtype: values(random, dtype, 40 * 6).reshape(40, 2, 3) for dtype in TYPES}
        path = self.path("examples")
        self.formats("write_examples", self.write_tensors(tensors), path)
        records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
        parsed = tf.io.parse_example(
            tf.constant(records),
            {name: tf.io.FixedLenFeature([2, 3], dtype) for name, dtype in TYPES.items()})
        self.assert_same(arrays(parsed), tensors)
        # What both serialize is equal, too.
        again = tf.train.Example.FromString(records[0])
        self.assertEqual(again.SerializeToString(deterministic=True), records[0])

    def test_a_missing_feature_is_an_error_on_both_sides(self):
        path = self.path("examples")
        record = tf.train.Example(features=tf.train.Features(
            feature={"other": feature(np.array([1], np.int64))})).SerializeToString()
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(record)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.io.parse_example([record], dict([spec_of("fixed:a:int64:1")]))
        self.assertIn("'a'", self.call("FORMATS", "parse_examples", path, self.path("parsed"),
                                       "fixed:a:int64:1", code=1))


class SequenceExamples(SideBySide):

    CONTEXT = ["fixed:label:int64:1", "sparse:weights:float32", "ragged:names:string"]
    LISTS = ["padded:pairs:float32:2", "sparse:numbers:int64", "ragged:words:string"]

    def test_tandem_parses_what_tensorflow_wrote(self):
        random = np.random.default_rng(3)
        records = []
        for _ in range(30):
            context, lists = {}, {}
            for word in self.CONTEXT:
                form, key, dtype = word.split(":")[:3]
                count = 1 if form == "fixed" else random.integers(0, 5)
                context[key] = feature(values(random, dtype, count))
            for word in self.LISTS:
                form, key, dtype = word.split(":")[:3]
                lists[key] = tf.train.FeatureList(feature=[
                    feature(values(random, dtype, 2 if form == "padded" else random.integers(0, 4)))
                    for _ in range(random.integers(0, 6))])
            records.append(tf.train.SequenceExample(
                context=tf.train.Features(feature=context),
                feature_lists=tf.train.FeatureLists(feature_list=lists)).SerializeToString())
        path = self.path("sequences")
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        self.formats("parse_sequences", path, self.path("parsed"), *self.CONTEXT, "--", *self.LISTS)

        context, lists, lengths = tf.io.parse_sequence_example(
            records, dict(map(spec_of, self.CONTEXT)), dict(map(spec_of, self.LISTS)))
        wanted = {}
        for key, tensor in context.items():
            wanted.update(parts("context/" + key, tensor))
        for key, tensor in lists.items():
            wanted.update(parts("lists/" + key, tensor))
            if key in lengths:
                wanted[f"lists/{key}/lengths"] = lengths[key]
        self.assert_same(self.read_tensors(self.path("parsed")), arrays(wanted))

    def test_tensorflow_parses_what_tandem_built(self):
        random = np.random.default_rng(4)
        tensors = {"context/label": values(random, "int64", 8).reshape(8, 1),
                   "lists/pairs": values(random, "float32", 8 * 5 * 2).reshape(8, 5, 2),
                   "lists/words": values(random, "string", 8 * 3).reshape(8, 3, 1)}
        path = self.path("sequences")
        self.formats("write_sequences", self.write_tensors(tensors), path)
        records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
        context, lists, _ = tf.io.parse_sequence_example(
            records, {"label": tf.io.FixedLenFeature([1], tf.int64)},
            {"pairs": tf.io.FixedLenSequenceFeature([2], tf.float32),
             "words": tf.io.FixedLenSequenceFeature([1], tf.string)})
        self.assert_same(
            arrays({"context/label": context["label"], "lists/pairs": lists["pairs"],
                    "lists/words": lists["words"]}), tensors)
