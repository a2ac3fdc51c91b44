"""Small networks in Keras, and functions for TensorFlow Lite, for `make_tensorflow_models`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

ALL = "keras h5 pb tflite"


def example(rng: np.random.Generator, shape: Any, dtype: str) -> Any:
    """An input of a batch of 2."""
    extents = [2, *(7 if extent is None else extent for extent in shape[1:])]
    if "int" in dtype:
        return rng.integers(0, 5, extents).astype(dtype)
    return rng.standard_normal(extents).astype(dtype)


def with_statistics(model: Any) -> Any:
    """Every weight random, those of batch normalisation too."""
    rng = np.random.default_rng(1)
    for weight in model.weights:
        name, value = weight.path.split("/")[-1], np.asarray(weight)
        if name == "moving_variance" or name == "gamma" or name == "variance":
            weight.assign(rng.uniform(0.5, 1.5, value.shape).astype(np.float32))
        elif name in ("beta", "moving_mean", "bias", "mean", "alpha"):
            weight.assign(rng.normal(0, 0.5, value.shape).astype(np.float32))
    return model


def _functional(shape: Any, make: Any, **more: Any) -> Any:
    x = keras.Input(shape, **more)
    return keras.Model(x, make(x))


def _vgg() -> Any:
    return keras.Sequential(
        [keras.Input((16, 15, 3)), L.Conv2D(4, 3, padding="same", activation="relu"),
         L.Conv2D(4, 3, padding="same", activation="relu"), L.MaxPooling2D(), L.Conv2D(6, 3, activation="relu"),
         L.MaxPooling2D(2, padding="same"), L.Flatten(), L.Dropout(0.5), L.Dense(12, activation="tanh"),
         L.Dense(5, activation="softmax")]
    )  # fmt: skip


def _resnet() -> Any:
    def block(x: Any, filters: int, stride: int) -> Any:
        y = L.BatchNormalization()(L.Conv2D(filters, 3, stride, padding="same", use_bias=False)(x))
        y = L.BatchNormalization()(L.Conv2D(filters, 3, padding="same")(L.ReLU()(y)))
        short = L.BatchNormalization()(L.Conv2D(filters, 1, stride)(x)) if stride > 1 else x
        return L.Activation("relu")(L.Add()([y, short]))

    def make(x: Any) -> Any:
        y = L.ZeroPadding2D(3)(x)
        y = L.MaxPooling2D(3, 2)(L.ZeroPadding2D(((1, 1), (1, 1)))(L.Conv2D(4, 7, 2, activation="relu")(y)))
        y = block(block(y, 4, 1), 8, 2)
        return L.Dense(4)(L.GlobalAveragePooling2D()(y))

    return _functional((21, 23, 3), make)


def _mobilenet() -> Any:
    def block(x: Any, filters: int, stride: int) -> Any:
        y = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(12, 1, use_bias=False)(x)))
        if stride == 2:
            y = L.ZeroPadding2D(((0, 1), (0, 1)))(y)
        y = L.DepthwiseConv2D(3, stride, padding="same" if stride == 1 else "valid", use_bias=False)(y)
        y = L.ReLU(6.0)(L.BatchNormalization()(y))
        y = L.BatchNormalization()(L.Conv2D(filters, 1, use_bias=False)(y))
        return L.Add()([x, y]) if stride == 1 and x.shape[-1] == filters else y

    def make(x: Any) -> Any:
        y = L.Conv2D(6, 3, 2, padding="same", activation="relu6")(x)
        y = block(block(block(y, 6, 1), 8, 2), 8, 1)
        return L.Dense(3, activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(y))

    return _functional((18, 18, 3), make)


def _inception() -> Any:
    def make(x: Any) -> Any:
        branches = [L.Conv2D(3, 1, activation="relu")(x), L.Conv2D(4, 5, padding="same", activation="elu")(x),
                    L.Conv2D(4, (1, 7), padding="same")(L.Conv2D(2, (7, 1), padding="same")(x)),
                    L.Conv2D(2, 1)(L.AveragePooling2D(3, 1, padding="same")(x))]  # fmt: skip
        y = L.Concatenate()(branches)
        y = L.Concatenate(axis=3)(
            [L.Conv2D(5, 3, 2)(y), L.MaxPooling2D(3, 2)(y), L.AveragePooling2D(3, 2)(y)]
        )
        return L.Softmax()(L.Dense(6)(L.GlobalMaxPooling2D()(y)))

    return _functional((11, 13, 4), make)


def _densenet() -> Any:
    def make(x: Any) -> Any:
        y = L.Conv2D(4, 3, padding="same")(x)
        for _ in range(3):
            z = L.Activation("relu")(L.BatchNormalization(epsilon=1.001e-5)(y))
            z = L.Conv2D(8, 1, use_bias=False)(z)
            z = L.Conv2D(2, 3, padding="same", use_bias=False)(L.ReLU()(L.BatchNormalization(scale=False)(z)))
            y = L.Concatenate()([y, z])
        y = L.AveragePooling2D(2, padding="same")(L.Conv2D(5, 1)(L.BatchNormalization(center=False)(y)))
        return L.Dense(4)(L.GlobalAveragePooling2D()(y))

    return _functional((9, 9, 3), make)


def _unet() -> Any:
    def make(x: Any) -> Any:
        a = L.Conv2D(4, 3, padding="same", activation="relu")(x)
        b = L.Conv2D(6, 3, padding="same", activation="swish")(L.MaxPooling2D()(a))
        c = L.Conv2D(8, 3, padding="same", activation="relu", dilation_rate=2)(L.MaxPooling2D()(b))
        y = L.Conv2DTranspose(6, 3, 2, padding="same", activation="relu")(c)
        y = L.Conv2D(6, 3, padding="same")(L.Concatenate()([y, b]))
        y = L.UpSampling2D(2, interpolation="bilinear")(y)
        y = L.LeakyReLU()(L.Conv2D(4, 3, padding="same")(L.Concatenate()([a, L.SpatialDropout2D(0.2)(y)])))
        return L.Conv2D(2, 1, activation="sigmoid")(y)

    return _functional((16, 12, 3), make)


def _one_dimension() -> Any:
    def make(x: Any) -> Any:
        y = L.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu")(x)
        y = L.BatchNormalization()(L.SeparableConv1D(8, 5, padding="same", depth_multiplier=2)(y))
        y = L.MaxPooling1D(3, 2, padding="same")(L.DepthwiseConv1D(3, padding="same")(y))
        y = L.AveragePooling1D(2)(L.UpSampling1D(2)(L.Cropping1D((1, 2))(L.ZeroPadding1D((2, 1))(y))))
        y = L.Conv1DTranspose(4, 4, 2, padding="same")(y)
        return L.Dense(3)(L.GlobalAveragePooling1D()(y))

    return _functional((31, 4), make)


def _three_dimensions() -> Any:
    def make(x: Any) -> Any:
        y = L.Conv3D(4, 3, 2, padding="same", activation="relu")(x)
        y = L.BatchNormalization()(L.Conv3D(6, (1, 3, 3))(y))
        y = L.AveragePooling3D(2, 1, padding="same")(L.MaxPooling3D((1, 2, 2), padding="same")(y))
        return L.Dense(3)(L.GlobalAveragePooling3D()(y))

    return _functional((7, 11, 9, 2), make)


def _three_more() -> Any:
    def make(x: Any) -> Any:
        y = L.Conv3DTranspose(3, 3, 2, padding="same")(x)
        y = L.UpSampling3D((1, 2, 1))(L.Cropping3D(((1, 0), (0, 1), (1, 1)))(L.ZeroPadding3D(1)(y)))
        return L.GlobalMaxPooling3D()(y)

    return _functional((3, 4, 3, 2), make)


def _channels_first() -> Any:
    first = {"data_format": "channels_first"}

    def make(x: Any) -> Any:
        y = L.Conv2D(4, 3, padding="same", activation="relu", **first)(x)
        y = L.BatchNormalization(axis=1)(L.DepthwiseConv2D(3, **first)(y))
        y = L.ZeroPadding2D(1, **first)(L.Cropping2D(((1, 0), (0, 1)), **first)(y))
        y = L.Concatenate(axis=1)([y, L.PReLU(shared_axes=[2, 3])(y)])
        y = L.Conv2DTranspose(3, 3, 2, padding="same", **first)(y)
        return L.Dense(3)(L.Flatten(**first)(y))

    return _functional((3, 8, 9), make)


def _nested() -> Any:
    inner = keras.Sequential([keras.Input((None, None, 4)), L.Conv2D(4, 3, padding="same", name="a"),
                              L.BatchNormalization(name="n"), L.Conv2D(4, 1, name="b")], name="inner")  # fmt: skip
    x = keras.Input((8, 8, 4), name="left")
    z = keras.Input((8, 8, 4), name="right")
    shared = L.Conv2D(4, 3, padding="same", name="shared")
    y = L.Multiply()([inner(shared(x)), inner(shared(z))])
    low = L.Subtract()([L.Maximum()([x, z]), L.Minimum()([x, z])])
    other = keras.Model(
        x, L.BatchNormalization(name="n")(L.Conv2D(4, 3, padding="same", name="a")(x)), name="other"
    )
    return keras.Model(
        [x, z], [L.Average(name="mean")([y, other(low)]), L.GlobalMaxPooling2D(name="most")(y)]
    )


def _preprocessing() -> Any:
    def make(x: Any) -> Any:
        y = L.Rescaling(1 / 127.5, offset=-1)(x)
        y = L.Normalization(mean=[0.1, 0.2, 0.3], variance=[0.5, 0.6, 0.7])(L.RandomFlip()(y))
        y = L.Concatenate()([L.Resizing(6, 7)(y), L.Resizing(6, 7, interpolation="nearest")(y)])
        y = L.Permute((2, 1, 3))(L.Conv2D(6, 3, groups=2, padding="same")(y))
        y = L.Reshape((-1, 6))(L.LayerNormalization()(L.GroupNormalization(3)(y)))
        return L.Dense(4, activation="gelu")(y)

    return _functional((12, 10, 3), make)


def _separable() -> Any:
    def make(x: Any) -> Any:
        y = L.SeparableConv2D(6, 3, 2, padding="same", activation="selu")(x)
        y = L.PReLU()(L.SeparableConv2D(5, 3, depth_multiplier=2, dilation_rate=2, use_bias=False)(y))
        y = L.ELU(0.5)(L.DepthwiseConv2D(3, padding="same", depth_multiplier=2, activation="mish")(y))
        return L.ReLU(max_value=2.0, negative_slope=0.1)(y)

    return _functional((13, 14, 3), make)


def _activations() -> Any:
    names = ["hard_sigmoid", "hard_silu", "softsign", "softplus", "exponential", "log_softmax", "leaky_relu", "celu",
             "gelu", "tanh_shrink", "log_sigmoid", "hard_tanh", "silu", "mish", "relu6", "selu"]  # fmt: skip
    x = keras.Input((6, 5))
    return keras.Model(x, [L.Activation(name, name=f"a_{name}")(x) for name in names])


def _transposed() -> Any:
    cases = [(2, 3, "same"), (3, 2, "valid"), (4, 2, "same"), (2, 2, "same"), (5, 3, "valid"), (3, 1, "same")]
    x = keras.Input((5, 6, 3))
    return keras.Model(x, [L.Conv2DTranspose(2, k, s, padding=p, name=f"t{k}{s}{p}")(x) for k, s, p in cases])


def _paddings() -> Any:
    x = keras.Input((9, 8, 3))
    outputs = []
    for kernel, stride, dilation, padding in [
        (2, 1, 1, "same"), (2, 2, 1, "same"), (3, 2, 1, "same"), (4, 3, 1, "same"), (5, 2, 1, "valid"),
        (3, 1, 2, "same"), (3, 1, 3, "valid"), (2, 1, 2, "same"), (1, 2, 1, "same"),
    ]:  # fmt: skip
        name = f"c{kernel}{stride}{dilation}{padding}"
        outputs.append(L.Conv2D(2, kernel, stride, padding, dilation_rate=dilation, name=name)(x))
    for pool in (L.MaxPooling2D, L.AveragePooling2D):
        for size, stride, padding in [(2, 3, "same"), (3, 2, "same"), (5, 4, "same"), (3, 1, "valid")]:
            outputs.append(
                pool(size, stride, padding, name=f"{pool.__name__[:3]}{size}{stride}{padding}".lower())(x)
            )
    return keras.Model(x, outputs)


def _embedding() -> Any:
    return keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            L.Embedding(5, 4),
            L.Conv1D(3, 2),
            L.GlobalMaxPooling1D(),
            L.Dense(2),
        ]
    )


def _recurrent() -> Any:
    """Loops over lists of tensors outside of Keras's own files. TensorFlow Lite wants a batch of known size."""
    x = keras.Input(batch_shape=(2, 6, 3))
    both = L.Bidirectional(L.LSTM(4, return_sequences=True, bias_initializer="random_normal"))(x)
    back = L.SimpleRNN(3, return_sequences=True, go_backwards=True)(both)
    return keras.Model(x, L.GRU(5, bias_initializer="random_normal")(back))


NETWORKS = {
    "vgg": (_vgg, f"{ALL} savedmodel"),
    "resnet": (_resnet, f"{ALL} savedmodel"),
    "mobilenet": (_mobilenet, f"{ALL} savedmodel pbtxt"),
    "inception": (_inception, ALL),
    "densenet": (_densenet, ALL),
    "unet": (_unet, f"{ALL} savedmodel"),
    "one_dimension": (_one_dimension, ALL),
    "recurrent": (_recurrent, "pb savedmodel tflite"),
    "three_dimensions": (_three_dimensions, "keras h5 pb"),
    "three_more": (_three_more, "keras h5 pb"),
    "channels_first": (_channels_first, "keras h5 pb"),
    "nested": (_nested, "keras h5 pb savedmodel"),
    "preprocessing": (_preprocessing, "keras h5 pb"),
    "separable": (_separable, ALL),
    "activations": (_activations, "keras h5 pb"),
    "transposed": (_transposed, "keras h5 pb"),
    "paddings": (_paddings, ALL.replace("tflite", "")),
    "embedding": (_embedding, "keras h5 pb"),
}


# ---- TensorFlow Lite ------------------------------------------------------------------------------------------------

_rng = np.random.default_rng(2)


def _weights(*shape: int) -> Any:
    spread = np.sqrt(np.prod(shape[:-1]))
    return tf.constant((_rng.standard_normal(shape) / spread).astype(np.float32))


def _net(x: Any) -> Any:
    y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(x, _weights(3, 3, 3, 8), 2, "SAME"), _weights(8)))
    y = tf.nn.relu(tf.nn.depthwise_conv2d(y, _weights(3, 3, 8, 1), [1, 1, 1, 1], "SAME"))
    y = tf.nn.conv2d(y, _weights(1, 1, 8, 8), 1, "VALID") + y
    return tf.matmul(tf.reduce_mean(y, [1, 2]), _weights(8, 5))


def _thin(*shape: int) -> Any:
    """Weights of which nine of ten are zero."""
    return (_rng.standard_normal(shape) * (_rng.random(shape) < 0.1)).astype(np.float32)


_SPARSE = _thin(3, 3, 4, 16), _thin(1, 1, 16, 16)


def _sparse(x: Any) -> Any:
    """Thin weights are stored without their zeros; an operator makes them dense."""
    return tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, _SPARSE[0], 1, "SAME")), _SPARSE[1], 1, "SAME")


_PICTURE = [[1, 9, 9, 3]]
_MAP = [[1, 5, 6, 4]]


def _blocks(x: Any) -> Any:
    """Blocks of pictures along the batch that are no dilated convolution. The first value between is read by another
    operator, too."""
    spread = tf.space_to_batch(x, [2, 2], [[1, 1], [0, 2]])
    pooled = tf.nn.avg_pool2d(spread, 2, 1, "VALID")
    kernel = tf.constant(np.random.default_rng(8).standard_normal((2, 2, 3, 4)).astype(np.float32) / 3)
    convolved = tf.nn.conv2d(spread, kernel, 1, "SAME")
    again = tf.nn.max_pool2d(tf.nn.relu(convolved), 2, 2, "SAME")
    return [
        spread,
        tf.batch_to_space(pooled, [2, 2], [[1, 0], [0, 1]]),
        tf.batch_to_space(again, [2, 2], [[0, 0], [1, 0]]),
        tf.batch_to_space(tf.nn.conv2d(spread, kernel, 1, "VALID"), [2, 2], [[0, 0], [0, 0]]),
        convolved,
    ]


LITE: dict[str, tuple[Any, Any, str]] = {
    "lite_blocks": (_blocks, [(2, 8, 10, 3)], ""),
    "lite_blocks_int8": (_blocks, [(2, 8, 10, 3)], "int8"),
    "lite_half": (_net, _PICTURE, "half"),
    "lite_sparse": (_sparse, _MAP, "sparse"),
    "lite_int8": (_net, _PICTURE, "int8"),
    "lite_int16": (_net, _PICTURE, "int16"),
    "lite_softmax_int8": (lambda x: tf.nn.softmax(x * 3.0), [[2, 9]], "int8"),
    "lite_pool_int8": (lambda x: tf.nn.avg_pool2d(tf.nn.max_pool2d(x, 3, 1, "SAME"), 2, 2, "VALID"), _MAP, "int8"),
    "lite_concat_int8": (lambda x: tf.concat([tf.nn.sigmoid(x), tf.nn.tanh(x), x], 3), _MAP, "int8"),
    "lite_multiplier": (lambda x: tf.nn.depthwise_conv2d(x, _weights(3, 3, 4, 2), [1, 2, 2, 1], "SAME"), _MAP, ""),
    "lite_transposed": (
        lambda x: tf.nn.conv2d_transpose(x, _weights(3, 3, 2, 4), [1, 9, 11, 2], 2, "SAME"), _MAP, ""),
    "lite_dilated": (lambda x: tf.nn.conv2d(x, _weights(3, 3, 4, 4), 1, "SAME", dilations=2), _MAP, ""),
    "lite_pads": (lambda x: (tf.pad(x, [[0, 0], [1, 2], [0, 1], [2, 0]]),
                             tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]], "REFLECT"),
                             tf.pad(x, [[0, 0], [1, 5], [2, 1], [0, 4]], "SYMMETRIC"),
                             tf.pad(x, [[0, 0], [1, 0], [0, 1], [0, 0]], constant_values=2.5)), _MAP, ""),
    "lite_activations": (lambda x: (tf.nn.relu(x), tf.nn.relu6(x), tf.nn.elu(x), tf.nn.leaky_relu(x), tf.nn.sigmoid(x),
                                    x * tf.nn.relu6(x + 3) / 6, tf.nn.gelu(x), tf.nn.log_softmax(x)), _MAP, ""),
    "lite_math": (lambda x: (tf.exp(x), tf.sqrt(tf.abs(x)), tf.math.rsqrt(tf.abs(x) + 1), tf.square(x), tf.floor(x),
                             tf.math.ceil(x), tf.round(x), tf.sin(x), -x, tf.math.log(tf.abs(x) + 1)), _MAP, ""),
    "lite_pairs": (lambda x, y: (x + y, x - y, x * y, x / (tf.abs(y) + 1), tf.maximum(x, y), tf.minimum(x, y),
                                 tf.math.squared_difference(x, y), tf.cast(x > y, tf.float32),
                                 tf.where(x < y, x, y), tf.pow(tf.abs(x), 1.5),
                                 tf.math.floordiv(x, y), tf.math.floormod(x, y)), [[1, 5, 6, 4], [1, 1, 6, 4]], ""),
    "lite_reductions": (lambda x: (tf.reduce_mean(x, [1, 2], True), tf.reduce_max(x, 3), tf.reduce_min(x, [1]),
                                   tf.reduce_sum(x, -1), tf.reduce_prod(x, 2), tf.argmax(x, 3)), _MAP, ""),
    "lite_cuts": (lambda x: (x[:, 1:4, ::2], x[:, -1], x[..., tf.newaxis, :2], x[:, ::-1, 1],
                             tf.slice(x, [0, 1, 2, 0], [1, 3, -1, 2])), _MAP, ""),
    "lite_joins": (lambda x: (tf.concat(tf.split(x, 2, 3)[::-1], 3), tf.stack([x, x * 2], 1),
                              *tf.unstack(x, axis=2)[:2],
                              *tf.split(x, [1, 3], 3)), _MAP, ""),
    "lite_moves": (lambda x: (tf.transpose(x, [0, 3, 1, 2]), tf.reshape(x, [1, -1, 8]), tf.squeeze(x, 0),
                              tf.expand_dims(x, 1), tf.tile(x, [1, 2, 1, 1]), tf.gather(x, [2, 0, 1], axis=2),
                              tf.nn.space_to_depth(x[:, :4], 2), tf.nn.depth_to_space(x, 2),
                              tf.reverse(x, [1]), tf.cumsum(x, 1)), _MAP, ""),
    "lite_resizes": (lambda x: (tf.image.resize(x, [9, 7]), tf.image.resize(x, [3, 12], "nearest"),
                                tf.compat.v1.image.resize_bilinear(x, [9, 7], align_corners=True),
                                tf.compat.v1.image.resize_bilinear(x, [10, 12]),
                                tf.compat.v1.image.resize_nearest_neighbor(x, [8, 9], align_corners=True)), _MAP, ""),
    "lite_linear": (lambda x: (tf.matmul(x, _weights(4, 3)), tf.tensordot(x, _weights(4, 3), 1) + _weights(3),
                               tf.matmul(x, x, transpose_b=True), tf.nn.l2_normalize(x, -1)), _MAP, ""),
    "lite_3d": (lambda x: tf.nn.relu(tf.nn.conv3d(x, _weights(3, 2, 3, 2, 4), [1, 2, 1, 2, 1], "SAME")),
                [[1, 5, 6, 7, 2]], ""),
    "lite_lrn": (lambda x: tf.nn.local_response_normalization(x, 2, 1.0, 0.3, 0.75), _MAP, ""),
    "lite_one_hot": (lambda x: tf.one_hot(tf.argmax(x, 3), 4), _MAP, ""),
    "lite_top": (lambda x: tuple(tf.math.top_k(x, 3)), _MAP, ""),
}  # fmt: skip
