"""Models of Keras, made of one kind of layers each, exported by Keras and run by Tandem."""

import numpy as np
import tensorflow as tf

from side_by_side import SideBySide

layers = tf.keras.layers


class KerasLayers(SideBySide):

    def setUp(self):
        super().setUp()
        tf.keras.utils.set_random_seed(1)

    def assert_runs(self, model, *inputs, is_random=False):
        folder = self.path("model")
        model.export(folder, verbose=False)
        words = ["saved_model", "run", folder]
        for tensor, value in zip(model.inputs, inputs):
            np.save(self.path(tensor.name + ".in.npy"), value)
            words += ["--input", f"{tensor.name}=@{self.path(tensor.name + '.in.npy')}"]
        wanted = model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)
        wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        for i in range(len(wanted)):
            words += ["--save", f"output_{i}={self.path(f'output_{i}.npy')}"]
        self.call("TANDEM", *words)
        for i, value in enumerate(wanted):
            found = np.load(self.path(f"output_{i}.npy"))
            if is_random:
                self.assertEqual(found.shape, value.shape)
            else:
                np.testing.assert_allclose(found, value.numpy(), rtol=1e-4, atol=1e-4)

    def assert_each_runs(self, shape, *branches, low=-1, high=1, is_random=False):
        """One model with an output for each of the layers (or lists of layers)."""
        x = tf.keras.Input(shape, name="x")
        outputs = []
        for branch in branches:
            y = x
            for layer in branch if isinstance(branch, list) else [branch]:
                y = layer(y)
            outputs.append(y)
        data = np.random.default_rng(1).uniform(low, high, [2] + list(shape))
        self.assert_runs(tf.keras.Model(x, outputs), data.astype(np.float32), is_random=is_random)

    def test_attention(self):
        query = tf.keras.Input([5, 8], name="query")
        value = tf.keras.Input([6, 8], name="value")
        outputs = [
            layers.MultiHeadAttention(2, 4)(query, value),
            layers.MultiHeadAttention(2, 4)(query, query, use_causal_mask=True),
            layers.GroupQueryAttention(4, 4, 2)(query, value),
            layers.Attention(use_scale=True)([query, value]),
            layers.AdditiveAttention()([query, value]),
        ]
        rng = np.random.default_rng(1)
        self.assert_runs(tf.keras.Model([query, value], outputs),
                         rng.normal(size=[2, 5, 8]).astype(np.float32),
                         rng.normal(size=[2, 6, 8]).astype(np.float32))

    def test_a_transformer_block(self):
        x = tf.keras.Input([6], dtype="int32", name="tokens")
        y = layers.Embedding(11, 8)(x)
        y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y))
        y = layers.LayerNormalization()(y + layers.Dense(8)(layers.Dense(16, "gelu")(y)))
        model = tf.keras.Model(x, layers.Dense(3, "softmax")(layers.GlobalAveragePooling1D()(y)))
        self.assert_runs(model, np.arange(12, dtype=np.int32).reshape(2, 6) % 11)

    def test_activations(self):
        names = ["celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu",
                 "hard_tanh", "leaky_relu", "log_sigmoid", "log_softmax", "mish", "relu6", "selu",
                 "sigmoid", "silu", "soft_shrink", "softmax", "softplus", "softsign", "squareplus",
                 "tanh", "tanh_shrink", "glu", "sparse_plus", "sparsemax"]
        gelu_by_tanh = lambda x: tf.keras.activations.gelu(x, approximate=True)
        self.assert_each_runs([4, 6], *[layers.Activation(name) for name in names],
                              layers.Activation(gelu_by_tanh), layers.PReLU(),
                              layers.ReLU(6, 0.1, 0.2), layers.LeakyReLU(0.1), low=-3, high=3)

    def test_sequences(self):
        self.assert_each_runs(
            [8, 3], layers.Conv1D(4, 3, dilation_rate=2, padding="causal"),
            layers.Conv1DTranspose(4, 3, strides=2), layers.SeparableConv1D(4, 3),
            layers.MaxPooling1D(), layers.AveragePooling1D(2), layers.UpSampling1D(2),
            layers.ZeroPadding1D(2), layers.Cropping1D(1),
            layers.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d"))

    def test_recurrent(self):
        self.assert_each_runs(
            [5, 3], layers.GRU(4, return_sequences=True), layers.GRU(4, reset_after=False),
            layers.LSTM(4), layers.SimpleRNN(4), layers.Bidirectional(layers.LSTM(3)),
            layers.TimeDistributed(layers.Dense(3)), [layers.Masking(), layers.LSTM(3)])

    def test_images(self):
        self.assert_each_runs(
            [8, 8, 3], layers.Conv2D(4, 3, dilation_rate=2, padding="same"),
            layers.Conv2D(6, 3, groups=3), layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
            layers.SeparableConv2D(4, 3), layers.SeparableConv2D(4, 3, dilation_rate=2),
            layers.DepthwiseConv2D(3, dilation_rate=2), layers.GroupNormalization(3),
            layers.BatchNormalization(), layers.MaxPooling2D(), layers.AveragePooling2D(3, 2),
            layers.GlobalMaxPooling2D(), layers.ZeroPadding2D(1), layers.Cropping2D(1))

    def test_resized_images(self):
        self.assert_each_runs(
            [8, 8, 3], layers.UpSampling2D(2), layers.UpSampling2D(2, interpolation="bilinear"),
            layers.UpSampling2D(2, interpolation="bicubic"), layers.Resizing(5, 6),
            layers.Resizing(5, 6, interpolation="nearest"),
            layers.Resizing(5, 6, interpolation="bicubic"),
            layers.Resizing(5, 6, interpolation="area"),
            layers.Resizing(5, 4, crop_to_aspect_ratio=True),
            layers.Resizing(5, 4, pad_to_aspect_ratio=True), layers.CenterCrop(4, 4),
            layers.Rescaling(1 / 255.), layers.Normalization(mean=0.5, variance=2.0))

    def test_volumes(self):
        self.assert_each_runs(
            [4, 6, 6, 2], layers.Conv3D(4, 3), layers.Conv3D(3, 2, strides=2, padding="same"),
            layers.Conv3DTranspose(4, 3, strides=2), layers.MaxPooling3D(),
            layers.AveragePooling3D(2), layers.GlobalAveragePooling3D(), layers.UpSampling3D(),
            layers.ZeroPadding3D(), layers.Cropping3D(1), layers.ConvLSTM2D(3, 3))

    def test_random_layers(self):
        # They are random in exported models, too.
        self.assert_each_runs(
            [8, 8, 3], layers.RandomFlip(), layers.RandomRotation(0.1), layers.RandomZoom(0.1),
            layers.RandomTranslation(0.1, 0.1), layers.RandomContrast(0.1),
            layers.RandomBrightness(0.1), layers.GaussianNoise(0.1), layers.Dropout(0.5),
            is_random=True)

    def test_applications(self):
        applications = tf.keras.applications
        image = np.random.default_rng(1).uniform(0, 1, [1, 64, 64, 3]).astype(np.float32)
        for make, options in ((applications.MobileNetV2, {"alpha": 0.35}),
                              (applications.EfficientNetB0, {})):
            with self.subTest(make.__name__):
                model = make(weights=None, input_shape=(64, 64, 3), classes=10, **options)
                self.assert_runs(model, image)
