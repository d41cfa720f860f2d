"""SavedModels that work on text: Keras's text layers and lookup tables, run by Tandem."""

import json

import numpy as np
import tensorflow as tf

from side_by_side import SideBySide

layers = tf.keras.layers

TEXTS = ["The quick brown Fox!", "", "jumps over: the lazy dog", "fox, fox; FOX and hounds",
         "na\u00efve caf\u00e9"]
WORDS = ["fox", "dog", "the", "cat", "", "Fox"]


class TextModels(SideBySide):

    def assert_runs(self, folder, inputs, wanted, *options):
        """Runs a signature: arrays that it gives must be `wanted`, to the last digits of floats."""
        words = ["saved_model", "run", folder, "--json", "--max_values=100000", *options]
        for name, value in inputs.items():
            words += ["--input", f"{name}={json.dumps(value)}"]
        found = json.loads(self.call("TANDEM", *words))["outputs"]
        self.assertEqual(sorted(found), sorted(wanted))
        for name, value in wanted.items():
            value = np.asarray(value)
            if value.dtype == object:
                value = np.vectorize(bytes.decode, otypes=[object])(value)
                texts = np.array(found[name]["values"], object)
                self.assertEqual(texts.reshape(-1).tolist(), value.reshape(-1).tolist(), name)
            else:
                np.testing.assert_allclose(
                    np.reshape(found[name]["values"], found[name]["shape"]), value, rtol=1e-4,
                    atol=1e-5, err_msg=name)

    def assert_keras_runs(self, layer_list, data):
        """A model of layers on strings."""
        tf.keras.utils.set_random_seed(1)
        x = tf.keras.Input([], dtype="string", name="text")
        y = x
        for layer in layer_list:
            y = layer(y)
        model = tf.keras.Model(x, y)
        folder = self.path("model")
        model.export(folder, verbose=False)
        self.assert_runs(folder, {"text": data}, {"output_0": model(tf.constant(data)).numpy()})

    def vectorization(self, **options):
        layer = layers.TextVectorization(**options)
        layer.adapt(TEXTS)
        return layer

    def test_text_vectorization_and_embedding(self):
        self.assert_keras_runs([
            self.vectorization(output_sequence_length=6),
            layers.Embedding(20, 4), layers.GlobalAveragePooling1D(), layers.Dense(2)], TEXTS)

    def test_text_vectorization_of_any_length(self):
        self.assert_keras_runs([self.vectorization(), layers.Embedding(20, 4)], TEXTS)

    def test_text_vectorization_counts(self):
        for mode in ("multi_hot", "count", "tf_idf"):
            with self.subTest(mode):
                self.assert_keras_runs([self.vectorization(output_mode=mode), layers.Dense(2)],
                                       TEXTS)

    def test_text_vectorization_of_pairs(self):
        self.assert_keras_runs([self.vectorization(ngrams=2, output_sequence_length=5)], TEXTS)

    def test_text_vectorization_of_characters(self):
        self.assert_keras_runs([self.vectorization(split="character", output_sequence_length=9)],
                               TEXTS)

    def test_string_lookup(self):
        for options in ({}, {"num_oov_indices": 3}, {"output_mode": "one_hot"}):
            with self.subTest(str(options)):
                lookup = layers.StringLookup(vocabulary=["fox", "dog", "the"], **options)
                self.assert_keras_runs([lookup], WORDS)

    def test_vocabulary_in_a_file(self):
        path = self.path("vocabulary.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("fox\ndog\nthe\n")
        self.assert_keras_runs([layers.StringLookup(vocabulary=path)], WORDS)

    def test_hashing(self):
        for options in ({}, {"salt": [3, 4]}, {"output_mode": "one_hot"}):
            with self.subTest(str(options)):
                self.assert_keras_runs([layers.Hashing(10, **options)], WORDS)

    def test_hashed_crossing(self):
        for options in ({}, {"output_mode": "one_hot"}):
            with self.subTest(str(options)):
                a = tf.keras.Input([], dtype="string", name="a")
                b = tf.keras.Input([], dtype="int64", name="b")
                model = tf.keras.Model([a, b], layers.HashedCrossing(7, **options)((a, b)))
                folder = self.path("model")
                model.export(folder, verbose=False)
                data = {"a": WORDS, "b": [3, -1, 0, 1 << 40, 5, 6]}
                wanted = model([tf.constant(data["a"]), tf.constant(data["b"], tf.int64)])
                self.assert_runs(folder, data, {"output_0": wanted.numpy()})

    def test_numbers_into_buckets(self):
        x = tf.keras.Input([1], name="x")
        y = layers.Discretization([-1.0, 0.0, 2.5])(x)
        model = tf.keras.Model(x, [y, layers.CategoryEncoding(4, "multi_hot")(y)])
        folder = self.path("model")
        model.export(folder, verbose=False)
        data = [[-3.0], [-1.0], [0.5], [7.0]]
        first, second = model(tf.constant(data))
        self.assert_runs(folder, {"x": data},
                         {"output_0": first.numpy(), "output_1": second.numpy()})

    def test_integer_lookup(self):
        x = tf.keras.Input([], dtype="int64", name="x")
        model = tf.keras.Model(x, layers.IntegerLookup(vocabulary=[10, 20, 30])(x))
        folder = self.path("model")
        model.export(folder, verbose=False)
        data = [20, 7, 10, 30]
        self.assert_runs(folder, {"x": data},
                         {"output_0": model(tf.constant(data, tf.int64)).numpy()})

    def test_tables_of_a_module(self):
        path = self.path("vocabulary.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("fox\t1.5\ndog\t-2\n")

        class Module(tf.Module):

            def __init__(self):
                super().__init__()
                lookup = tf.lookup
                self.of_values = lookup.StaticHashTable(
                    lookup.KeyValueTensorInitializer(["fox", "dog"], tf.constant([3, 4], tf.int64)),
                    -1)
                self.of_file = lookup.StaticHashTable(
                    lookup.TextFileInitializer(path, tf.string, 0, tf.float32, 1), 0.0)
                self.back = lookup.StaticHashTable(
                    lookup.KeyValueTensorInitializer(tf.constant([3, 4], tf.int64), ["fox", "dog"]),
                    "none")

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
            def serve(self, words):
                words = tf.strings.strip(tf.strings.lower(words))
                numbers = self.of_values.lookup(words)
                return {"numbers": numbers, "floats": self.of_file.lookup(words),
                        "words": self.back.lookup(numbers), "size": self.of_values.size(),
                        "lengths": tf.strings.length(words),
                        "text": tf.strings.join([words, tf.strings.as_string(numbers)], "=")}

        module = Module()
        folder = self.path("module")
        tf.saved_model.save(module, folder, signatures=module.serve)
        words = ["fox", " Dog ", "cat"]
        wanted = {name: value.numpy() for name, value in module.serve(tf.constant(words)).items()}
        self.assert_runs(folder, {"words": words}, wanted)

    def test_tensorflow_1_table(self):
        v1 = tf.compat.v1
        folder = self.path("v1")
        with tf.Graph().as_default(), v1.Session() as session:
            words = v1.placeholder(tf.string, [None], name="words")
            table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), 0)
            found = table.lookup(words)
            session.run(v1.tables_initializer())
            wanted = session.run(found, {words: ["b", "c"]})
            v1.saved_model.simple_save(session, folder, {"words": words}, {"found": found},
                                       legacy_init_op=v1.tables_initializer())
        self.assert_runs(folder, {"words": ["b", "c"]}, {"found": wanted})
