"""Small graphs of TensorFlow's operations for `make_tensorflow_models`: each gives what to feed and the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_rng = np.random.default_rng(4)
Built = tuple[dict[Any, Any], Sequence[Any]]


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


def _on_map(make: Callable[[Any], Any], *shape: int, unknown: int = 1) -> Callable[[Any], Built]:
    """Of one input, whose first axes are not known: the batch."""

    def build(v1: Any) -> Built:
        x = v1.placeholder(tf.float32, [*[None] * unknown, *shape[unknown:]], name="x")
        made = make(x)
        return {x: _normal(*shape)}, made if isinstance(made, list | tuple) else [made]

    return build


def _convolutions(x: Any) -> Any:
    return [
        tf.nn.conv2d(x, _normal(3, 3, 3, 4), 2, "SAME"),
        tf.nn.conv2d(x, _normal(2, 4, 3, 4), [1, 3], "SAME"),
        tf.nn.conv2d(x, _normal(3, 3, 3, 4), 1, "VALID", dilations=[2, 1]),
        tf.nn.conv2d(x, _normal(3, 2, 3, 4), 1, [[0, 0], [2, 1], [0, 1], [0, 0]]),
        tf.raw_ops.DepthwiseConv2dNative(
            input=x, filter=_normal(3, 3, 3, 2), strides=[1, 2, 2, 1], padding="SAME"
        ),
        tf.nn.max_pool2d(x, 3, 2, "SAME"),
        tf.nn.avg_pool2d(x, [3, 2], [2, 2], "SAME"),
        tf.nn.max_pool2d(x, 2, 2, [[0, 0], [1, 0], [0, 1], [0, 0]]),
    ]


def _transposed(x: Any) -> Any:
    batch = tf.shape(x)[0]
    return [
        tf.nn.conv2d_transpose(x, _normal(3, 3, 2, 3), [2, 13, 17, 2], 2, "SAME"),
        tf.nn.conv2d_transpose(x, _normal(3, 3, 2, 3), [2, 14, 18, 2], 2, "SAME"),
        tf.nn.conv2d_transpose(x, _normal(2, 3, 2, 3), [2, 20, 27, 2], 3, "VALID"),
        tf.nn.conv2d_transpose(x, _normal(4, 4, 2, 3), tf.stack([batch, 14, 18, 2]), 2, "SAME"),
    ]


def _dilated(x: Any) -> Any:
    """SpaceToBatchND, a convolution, a bias, an activation, BatchToSpaceND."""
    pads, block = [[2, 2], [2, 2]], [2, 2]
    spread = tf.space_to_batch(x, block, pads)
    y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(spread, _normal(3, 3, 3, 4), 1, "VALID"), _normal(4)))
    whole = tf.batch_to_space(y, block, [[0, 1], [0, 0]])
    alone = tf.raw_ops.DepthwiseConv2dNative(
        input=tf.space_to_batch(x, block, [[0, 2], [0, 2]]), filter=_normal(2, 2, 3, 1), strides=[1, 1, 1, 1],
        padding="VALID",
    )  # fmt: skip
    return [whole, tf.batch_to_space(alone, block, [[0, 1], [0, 1]])]


def _blocks(x: Any) -> Any:
    """Blocks of pictures along the batch that are no dilated convolution: by themselves, around a pool, around two
    convolutions, read twice, and cropped by more than was padded."""
    pads, block = [[1, 1], [0, 2]], [2, 3]
    spread = tf.space_to_batch(x, block, pads)
    pooled = tf.nn.avg_pool2d(spread, 2, 1, "VALID")
    twice = tf.nn.conv2d(spread, _normal(2, 2, 3, 4), 1, "SAME")
    twice = tf.nn.relu(tf.nn.conv2d(twice, _normal(1, 1, 4, 2), 1, "SAME"))
    strided = tf.nn.conv2d(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), _normal(2, 2, 3, 4), 2, "VALID")
    return [
        spread,
        tf.batch_to_space(pooled, block, [[1, 0], [0, 1]]),
        tf.batch_to_space(twice, block, pads),
        tf.batch_to_space(spread + tf.square(spread), block, [[2, 2], [1, 3]]),
        tf.batch_to_space(strided, [2, 2], [[0, 0], [0, 1]]),
        tf.batch_to_space(tf.tile(x, [2, 1, 1, 1]), [4], [[1, 2]]),
        tf.space_to_batch(x, [2, 5], [[0, 0], [0, 0]]) * 2.0,
    ]


def _dilated_open(x: Any) -> Any:
    """The graph computes the paddings from the size of the picture."""
    return [
        tf.nn.convolution(x, _normal(3, 3, 3, 4), dilations=[2, 2], padding="SAME"),
        tf.nn.convolution(x, _normal(3, 2, 3, 4), dilations=[3, 2], padding="SAME"),
    ]


def _lists(x: Any) -> list[Any]:
    """Lists that grow and shrink, and one of a tensor's slices."""
    raw = tf.raw_ops
    anything = np.array(-1, np.int32)
    grown = raw.EmptyTensorList(element_shape=anything, max_num_elements=-1, element_dtype=tf.float32)
    for row in (x[0], x[1] * 2, x[2]):
        grown = raw.TensorListPushBack(input_handle=grown, tensor=row)
    shrunk, last = raw.TensorListPopBack(input_handle=grown, element_shape=anything, element_dtype=tf.float32)
    sliced = raw.TensorListFromTensor(tensor=x, element_shape=np.array([4], np.int32))
    return [
        raw.TensorListStack(input_handle=shrunk, element_shape=anything, element_dtype=tf.float32),
        last,
        raw.TensorListLength(input_handle=grown),
        raw.TensorListLength(input_handle=sliced),
        raw.TensorListGetItem(input_handle=sliced, index=1, element_shape=anything, element_dtype=tf.float32),
        raw.TensorListStack(input_handle=sliced, element_shape=anything, element_dtype=tf.float32),
    ]


def _places(x: Any) -> Any:
    whole = tf.nn.max_pool_with_argmax(x, 3, 2, "SAME")
    more = {"output_dtype": tf.int32, "include_batch_in_index": True}
    return [*whole, *tf.nn.max_pool_with_argmax(x, [2, 3], [2, 2], "VALID", **more)]


def _normalised(x: Any) -> Any:
    """By chains of arithmetic, and by the operations of three generations."""
    mean, variance = _normal(3), np.abs(_normal(3)) + 0.5
    scale, offset = np.abs(_normal(3)), _normal(3)
    y = tf.nn.conv2d(x, _normal(3, 3, 3, 3), 1, "SAME")
    fused = [
        raw(x=y, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=0.01, is_training=False).y
        for raw in (tf.raw_ops.FusedBatchNorm, tf.raw_ops.FusedBatchNormV2, tf.raw_ops.FusedBatchNormV3)
    ]
    return [tf.nn.batch_normalization(y, mean, variance, offset, scale, 1e-3), *fused]


def _three(x: Any) -> Any:
    return [
        tf.nn.bias_add(tf.nn.conv3d(x, _normal(3, 2, 3, 2, 3), [1, 1, 2, 2, 1], "SAME"), _normal(3)),
        tf.nn.max_pool3d(x, [1, 2, 3, 2, 1], [1, 1, 2, 2, 1], "SAME"),
        tf.nn.avg_pool3d(x, 2, 2, "VALID"),
        tf.nn.conv3d_transpose(x, _normal(3, 3, 3, 2, 2), [2, 8, 10, 12, 2], 2, "SAME"),
    ]


def _activations(x: Any) -> Any:
    return [
        tf.nn.relu(x), tf.nn.relu6(x), tf.nn.elu(x), tf.nn.selu(x), tf.sigmoid(x), tf.tanh(x), tf.nn.softplus(x),
        tf.nn.softsign(x), tf.nn.leaky_relu(x, 0.3), tf.nn.silu(x), tf.nn.gelu(x), tf.nn.softmax(x),
        tf.nn.log_softmax(x), tf.clip_by_value(x, -0.5, 0.7), x * tf.nn.relu6(x + 3) / 6,
    ]  # fmt: skip


def _math(x: Any) -> Any:
    positive = tf.abs(x) + 0.1
    return [
        tf.exp(x), tf.math.log(positive), tf.sqrt(positive), tf.math.rsqrt(positive), tf.square(x), -x, tf.sign(x),
        tf.floor(x), tf.math.ceil(x), tf.round(x), tf.math.rint(x), tf.sin(x), tf.cos(x), tf.math.erf(x),
        tf.math.log1p(positive), tf.math.reciprocal(positive), tf.math.atan(x), tf.math.sinh(x),
        tf.cast(tf.math.is_nan(x), tf.float32),
    ]  # fmt: skip


def _pairs(v1: Any) -> Built:
    x, y = v1.placeholder(tf.float32, [2, 3, 4]), v1.placeholder(tf.float32, [3, 1])
    a, b = v1.placeholder(tf.int32, [6]), v1.placeholder(tf.int32, [6])
    real = [
        x + y, x - y, x * y, x / y, tf.maximum(x, y), tf.minimum(x, y), tf.pow(tf.abs(x), y),
        tf.math.squared_difference(x, y), tf.math.divide_no_nan(x, tf.nn.relu(y)), tf.math.floordiv(x, y),
        tf.math.floormod(x, y), tf.add_n([x, x, x]), tf.raw_ops.Add(x=x, y=y),
    ]  # fmt: skip
    flags = [x > y, x < y, x >= y, x <= y, tf.equal(x, y), tf.not_equal(x, y),
             tf.logical_and(x > 0, x < 1), tf.logical_or(x > 1, x < 0), tf.logical_not(x > 0)]  # fmt: skip
    whole = [a // b, a % b, tf.raw_ops.TruncateDiv(x=a, y=b), tf.cast(a, tf.float32), tf.where(a > b, a, b)]
    feed = {x: _normal(2, 3, 4), y: _normal(3, 1), a: np.array([7, -7, 7, -7, 0, 9], np.int32),
            b: np.array([2, 2, -2, -2, 5, 3], np.int32)}  # fmt: skip
    return feed, [
        *real,
        *(tf.cast(each, tf.int32) for each in flags),
        *whole,
        tf.where(x > y, x, tf.zeros_like(x)),
    ]


def _reductions(x: Any) -> Any:
    return [
        tf.reduce_mean(x, [1, 2]), tf.reduce_mean(x, [1, 2], True), tf.reduce_max(x, -1), tf.reduce_min(x, 1),
        tf.reduce_sum(x), tf.reduce_prod(x, [3]), tf.argmax(x, 3), tf.argmin(x, 1, output_type=tf.int32),
        tf.cast(tf.reduce_all(x > -1, 3), tf.int32), tf.cast(tf.reduce_any(x > 1, [1, 2]), tf.int32),
        tf.cumsum(x, 1, exclusive=True), tf.cumsum(x, 2, reverse=True),
    ]  # fmt: skip


def _slices(x: Any) -> Any:
    return [
        x[:, 1:3], x[..., 1:], x[:, -1], x[:, 1, :, 0], x[:, tf.newaxis], x[..., tf.newaxis], x[:, ::-1],
        x[:, ::2, 1::3],
        x[:, 4:1:-1], x[:, -3:-1, ..., -1], x[:, 1:, tf.newaxis, 2], tf.slice(x, [0, 1, 0, 0], [-1, 2, -1, 1]),
        x[:, 3:3], x[-1:], x[:, : tf.shape(x)[1] - 1],
    ]  # fmt: skip


def _joins(x: Any) -> Any:
    a, b = tf.split(x, 2, 3)
    return [
        tf.concat([b, a], 3), tf.concat([x, x], -2), tf.stack([x, x + 1], 1), tf.stack([a, b], -1),
        *tf.unstack(x, axis=2)[:2], *tf.split(x, [1, 3], 3), *tf.unstack(x[:, :1], axis=1),
        *tf.split(x, [2, -1, 1], 2),
    ]  # fmt: skip


def _moves(x: Any) -> Any:
    shape = tf.shape(x)
    return [
        tf.reshape(x, [shape[0], -1]), tf.reshape(x, [-1, 4]), tf.transpose(x, [0, 3, 1, 2]), tf.expand_dims(x, -2),
        tf.squeeze(x[:, :1], [1]), tf.squeeze(x[:, :1, :1]), tf.tile(x, [1, 2, 1, 3]),
        tf.fill([2, 3], 1.5) + x[:1, 0, :1, :1],
        tf.cast(tf.range(0, 8, 2), tf.float32) + x, shape, tf.size(x), tf.rank(x) + shape[0],
        tf.broadcast_to(x[:1], [3, 5, 6, 4]), tf.ones_like(x) + x, tf.zeros_like(x) * x, tf.reverse(x, [1, 3]),
        tf.nn.space_to_depth(x[:, :4], 2), tf.nn.depth_to_space(x, 2), tf.concat([shape, shape], 0),
    ]  # fmt: skip


def _gathers(x: Any) -> Any:
    values, places = tf.math.top_k(x, 3)
    return [
        tf.gather(x, [3, 0], axis=1), tf.gather(x, [[0, 1], [1, 0]]), tf.gather_nd(x, [[0, 1], [1, 2]]), values, places,
        tf.gather(x, [[4, 0, 0], [1, 2, 3]], axis=1, batch_dims=1),
        tf.one_hot(tf.argmax(x, 3), 4, 2.0, -1.0), tf.one_hot(tf.argmax(x, 3), 4, axis=1),
    ]  # fmt: skip


def _pads(x: Any) -> Any:
    pads = [[0, 0], [1, 2], [0, 1], [1, 0]]
    return [tf.pad(x, pads), tf.pad(x, pads, constant_values=-1.5), tf.pad(x, pads, "REFLECT"),
            tf.pad(x, [[0, 0], [5, 2], [0, 1], [4, 0]], "SYMMETRIC"), tf.pad(x, [[1, 0]] * 4, "SYMMETRIC"),
            tf.nn.conv2d(tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]]), _normal(3, 3, 4, 2), 2, "VALID")]  # fmt: skip


def _areas(x: Any) -> Any:
    """Smaller, larger, of one pixel, of whole and of other factors, of bytes, and of a size that the graph computes."""
    sizes = ([3, 4], [7, 5], [1, 1], [14, 22], [21, 2], [7, 11])
    made = [
        tf.raw_ops.ResizeArea(images=x, size=size, align_corners=aligned)
        for size in sizes
        for aligned in (False, True)
    ]
    of_bytes = tf.cast(tf.clip_by_value(x * 50 + 100, 0, 255), tf.uint8)
    return [
        *made,
        tf.raw_ops.ResizeArea(images=of_bytes, size=[4, 3]),
        tf.raw_ops.ResizeArea(images=x, size=tf.shape(x)[1:3] // 2),
    ]


def _resizes(x: Any) -> Any:
    made = []
    for op in (tf.raw_ops.ResizeBilinear, tf.raw_ops.ResizeNearestNeighbor):
        for flags in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
            made += [op(images=x, size=size, **flags) for size in ([9, 13], [3, 4], [10, 12])]
    return [*made, tf.image.resize(x, tf.shape(x)[1:3] * 2)]


def _bicubic(x: Any) -> Any:
    """TensorFlow rounds positions to 1/1024 of a pixel here."""
    sizes = ([9, 13], [3, 4], [10, 12])
    return [
        tf.raw_ops.ResizeBicubic(images=x, size=s, half_pixel_centers=half)
        for s in sizes
        for half in (False, True)
    ]


def _products(v1: Any) -> Built:
    x, y = v1.placeholder(tf.float32, [2, 3, 4]), v1.placeholder(tf.float32, [2, 4, 5])
    rows = tf.reshape(x, [6, 4])
    outputs = [
        tf.matmul(x, y), tf.matmul(rows, _normal(4, 3)), tf.matmul(rows, _normal(3, 4), transpose_b=True),
        tf.matmul(rows, _normal(6, 2), transpose_a=True), tf.einsum("bij,bjk->bik", x, y),
        tf.nn.bias_add(tf.matmul(rows, _normal(4, 3)), _normal(3)),
        tf.matmul(x, _normal(2, 5, 4), adjoint_b=True), tf.tensordot(x, _normal(4, 2), 1),
    ]  # fmt: skip
    return {x: _normal(2, 3, 4), y: _normal(2, 4, 5)}, outputs


def _training(v1: Any) -> Built:
    """A placeholder says whether to train; dropout and statistics of the batch hang on it, by Switch and Merge."""
    v1.disable_control_flow_v2()
    x = v1.placeholder(tf.float32, [None, 6, 6, 2], name="x")
    training = v1.placeholder(tf.bool, [], name="is_training")
    y = tf.nn.conv2d(x, _normal(3, 3, 2, 4), 1, "SAME")
    mean, variance = _normal(4), np.abs(_normal(4)) + 0.5
    y = v1.cond(
        training,
        lambda: v1.nn.fused_batch_norm(y, np.ones(4, np.float32), np.zeros(4, np.float32), is_training=True)[
            0
        ],
        lambda: v1.nn.fused_batch_norm(
            y, np.ones(4, np.float32), np.zeros(4, np.float32), mean, variance, is_training=False
        )[0],
    )
    y = v1.cond(training, lambda: tf.nn.dropout(y, 0.5), lambda: tf.identity(y))
    return {x: _normal(2, 6, 6, 2), training: np.bool_(False)}, [y]


def _branches(v1: Any) -> Built:
    """If with a constant, a default that says not to train, a loop that is counted."""
    v1.enable_control_flow_v2()
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    training = v1.placeholder_with_default(False, [], name="learning_phase")
    y = v1.cond(tf.constant(True), lambda: x * 2, lambda: x - 1)
    z = v1.cond(training, lambda: tf.random.normal([4]) + x, lambda: x + 3)
    count, total = v1.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * y), [tf.constant(0), z])
    v1.disable_control_flow_v2()
    return {x: _normal(2, 4)}, [y, total, count]


def _functions(v1: Any) -> Built:
    @tf.function
    def inner(a: Any, b: Any) -> Any:
        values, places = tf.math.top_k(a, 2)
        return values * b, places

    @tf.function
    def outer(a: Any) -> Any:
        first, places = inner(a, 2.0)
        second, _ = inner(-a, 3.0)
        return first + second, places

    x = v1.placeholder(tf.float32, [None, 5], name="x")
    first, second = outer(x)
    return {x: _normal(3, 5)}, [first, second]


def _iterator(v1: Any) -> Built:
    """What a dataset gives becomes an input."""
    dataset = v1.data.Dataset.from_tensors(np.zeros((2, 5), np.float32))
    x = v1.data.make_one_shot_iterator(dataset).get_next()
    return {x: _normal(2, 5)}, [tf.nn.relu(tf.matmul(x, _normal(5, 3)))]


def _controls(v1: Any) -> Built:
    """Assertions, control inputs, gradients stopped."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    with tf.control_dependencies([v1.debugging.Assert(tf.shape(x)[0] > 0, [x]), tf.no_op()]):
        y = tf.stop_gradient(tf.debugging.check_numerics(x + 1, "bad"))
    return {x: _normal(2, 4)}, [tf.identity_n([y, x])[0]]


def _lrn(x: Any) -> Any:
    return [tf.nn.local_response_normalization(x), tf.nn.local_response_normalization(x, 2, 2.0, 1e-2, 0.75)]


GRAPHS: dict[str, Callable[[Any], Built]] = {
    "conv_same_odd": _on_map(_convolutions, 2, 7, 10, 3),
    "conv_transposed": _on_map(_transposed, 2, 7, 9, 3),
    "conv_dilated": _on_map(_dilated, 2, 8, 10, 3),
    "blocks": _on_map(_blocks, 2, 8, 10, 3),
    "blocks_open": _on_map(_blocks, 2, 8, 10, 3, unknown=3),
    "conv_dilated_open": _on_map(_dilated_open, 2, 9, 12, 3, unknown=3),
    "lists": _on_map(_lists, 3, 4),
    "max_pool_places": _on_map(_places, 2, 9, 11, 3, unknown=3),
    "normalised": _on_map(_normalised, 2, 6, 5, 3),
    "volumes": _on_map(_three, 2, 4, 5, 6, 2),
    "activation": _on_map(_activations, 2, 3, 5),
    "math": _on_map(_math, 2, 7),
    "pairs": _pairs,
    "reductions": _on_map(_reductions, 2, 5, 6, 4),
    "slices": _on_map(_slices, 2, 5, 6, 4),
    "joins": _on_map(_joins, 2, 5, 6, 4),
    "moves": _on_map(_moves, 2, 5, 6, 4),
    "gathers": _on_map(_gathers, 2, 5, 6, 4),
    "pads": _on_map(_pads, 2, 5, 6, 4),
    "resizes": _on_map(_resizes, 2, 5, 6, 2),
    "areas": _on_map(_areas, 2, 7, 11, 3, unknown=3),
    "bicubic": _on_map(_bicubic, 2, 5, 6, 2),
    "products": _products,
    "lrn": _on_map(_lrn, 2, 3, 3, 9),
    "training": _training,
    "branches": _branches,
    "functions": _functions,
    "iterator": _iterator,
    "controls": _controls,
}
