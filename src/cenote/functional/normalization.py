"""Normalisation, named and defaulted as torch.nn.functional.

Inputs are float64, float32, float16 or bfloat16; statistics of the 16-bit types and of float32 are computed in float32
(pieces of long sums in float64) and results rounded once. `out` may be the input itself where a function says that it
works in place: then no other memory of the input's size is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import FLOAT32, FLOAT64, Array, is_float
from cenote.functional.arguments import Operation, Types, as_tuple, flag, given_array, real, type_of, whole
from cenote.functional.dispatch import call, composed
from cenote.functional.types import A
from cenote.ops.base import Op
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.normalization.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.ops.normalization.layer_normalization import LayerNormalization, LpNormalization, RMSNormalization
from cenote.ops.normalization.lrn import LRN

# ---- parsing ----------------------------------------------------------------------------------------------------


def _same_shapes(op: Op, types: Types) -> Operation:
    """An operator whose first output has the first input's shape."""
    shapes = tuple(kind.shape for kind in types)
    return Operation(op, shapes, tuple(y.shape for y in op.infer(*types)))


def _epsilon(where: str, eps: Any) -> float:
    value = real(where, "eps", eps)
    if math.isnan(value):
        raise ArgumentError(f"{where}: eps must be a number, got nan")
    return value


def _trailing(where: str, types: Types, normalized_shape: Any) -> int:
    """The first axis that statistics run over; ShapeError unless the input and its parameters end in that shape."""
    given = normalized_shape if isinstance(normalized_shape, list | tuple) else (normalized_shape,)
    wanted = tuple(whole(where, "normalized_shape", extent, 0) for extent in given)
    if not wanted:
        raise ArgumentError(f"{where}: normalized_shape must name at least one axis, got {shown(given)}")
    x = types[0].shape
    if x[max(0, len(x) - len(wanted)) :] != wanted:
        raise ShapeError(
            f"{where}: the input's last axes must be normalized_shape {list(wanted)}, got an input of shape {list(x)}"
        )
    for what, kind in zip(("weight", "bias"), types[1:], strict=False):
        if kind.shape != wanted:
            raise ShapeError(f"{where}: {what} must have shape {list(wanted)}, got {list(kind.shape)}")
    return -len(wanted)


def parse_layer(types: Types, where: str, normalized_shape: Any, eps: Any) -> Operation:
    """Layer normalisation of (input, weight?, bias?)."""
    axis = _trailing(where, types, normalized_shape)
    return _same_shapes(LayerNormalization(axis, _epsilon(where, eps)), types)


def parse_rms(types: Types, where: str, normalized_shape: Any, eps: Any) -> Operation:
    """RMS normalisation of (input, weight?)."""
    axis = _trailing(where, types, normalized_shape)
    if eps is None:
        eps = float(np.finfo(np.float64 if types[0].dtype == FLOAT64 else np.float32).eps)
    return _same_shapes(RMSNormalization(axis, _epsilon(where, eps)), types)


def _channels(where: str, types: Types, least: int = 2) -> int:
    """The extent of axis 1; ShapeError unless all other arrays have one entry for each."""
    x = types[0]
    if x.rank < least:
        raise ShapeError(
            f"{where}: expected an input of at least {least} axes (N, C, ...), got {list(x.shape)}"
        )
    for kind in types[1:]:
        if kind.shape != (x.shape[1],):
            raise ShapeError(
                f"{where}: weight, bias and statistics must have shape [{x.shape[1]}], one entry per channel of "
                f"{list(x.shape)}, got {list(kind.shape)}"
            )
    return x.shape[1]


def parse_group(types: Types, where: str, num_groups: Any, eps: Any) -> Operation:
    """Group normalisation of (input, weight?, bias?)."""
    channels, groups = _channels(where, types), whole(where, "num_groups", num_groups, 1)
    if channels % groups:
        raise ArgumentError(f"{where}: num_groups must divide the {channels} channels, got {groups}")
    return _same_shapes(GroupNormalization(groups, _epsilon(where, eps)), types)


def parse_instance(types: Types, where: str, eps: Any) -> Operation:
    """Instance normalisation of (input, weight?, bias?)."""
    _channels(where, types, 3)
    return _same_shapes(InstanceNormalization(_epsilon(where, eps)), types)


def parse_batch(types: Types, where: str, training: Any, momentum: Any, eps: Any) -> Operation:
    """Batch normalisation of (input, weight, bias, mean, variance)."""
    channels = _channels(where, types)
    train = flag(where, "training", training)
    if train and channels and types[0].size == channels:
        raise ShapeError(
            f"{where}: training needs more than one value per channel, got an input of {list(types[0].shape)}"
        )
    kept = 1.0 - real(where, "momentum", momentum)
    return _same_shapes(BatchNormalization(_epsilon(where, eps), train, kept, unbiased=True), types)


def parse_response(types: Types, where: str, size: Any, alpha: Any, beta: Any, k: Any) -> Operation:
    """Local response normalisation."""
    x = types[0]
    if x.rank < 3:
        raise ShapeError(f"{where}: expected 3D or higher dimensionality input, got {list(x.shape)}")
    factor, power, offset = real(where, "alpha", alpha), real(where, "beta", beta), real(where, "k", k)
    return _same_shapes(LRN(whole(where, "size", size, 1), factor, power, offset, backward=True), types)


def axis_of(where: str, dim: Any, rank: int) -> int:
    """An axis as 0..rank-1; a scalar counts as having one."""
    number, most = whole(where, "dim", dim), max(rank, 1)
    if not -most <= number < most:
        raise ShapeError(f"{where}: dim must lie between {-most} and {most - 1}, got {number}")
    return number % most


def parse_norm(types: Types, where: str, p: Any, dim: Any, eps: Any) -> Operation:
    """Division by a norm."""
    axis = axis_of(where, dim, types[0].rank)
    return on_axes(LpNormalization(axis, real(where, "p", p), real(where, "eps", eps)), types)


def on_axes(op: Op, types: Types) -> Operation:
    """An operator along an axis; a scalar counts as one element along it."""
    (x,) = types
    shape = x.shape or (1,)
    op.infer(type(x)(x.dtype, shape))
    return Operation(op, (shape,), (x.shape,))


# ---- functions --------------------------------------------------------------------------------------------------


def _parameters(where: str, input: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    """Those that are given after the input; ones stand in for a missing weight where there is a bias."""
    if weight is None and bias is None:
        return (input,)
    if weight is None:
        weight = np.ones_like(given_array(where, "bias", bias)[0])
    return (input, weight) if bias is None else (input, weight, bias)


def layer_norm(
    input: A,
    normalized_shape: SupportsIndex | Sequence[SupportsIndex],
    weight: A | None = None,
    bias: A | None = None,
    eps: float = 1e-5,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, as torch.nn.functional.layer_norm.

    normalized_shape  the extents of the last axes of the input, over which mean and variance run
    weight, bias      arrays of that shape, of the input's type or float32
    eps               a number; a negative one, which PyTorch allows too, gives NaN where it outweighs the variance
    out               where to write the result; may be the input itself
    threads           how many may work; by default one per physical core

    Raises ShapeError for shapes that do not fit, ArgumentError for other arguments, DTypeError for types that are no
    floats.
    """
    shape = as_tuple(normalized_shape)
    arrays = _parameters("layer_norm", input, weight, bias)
    return call(parse_layer, arrays, ("layer_norm", shape, eps), out, threads)


def rms_norm(
    input: A,
    normalized_shape: SupportsIndex | Sequence[SupportsIndex],
    weight: A | None = None,
    eps: float | None = None,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """x / sqrt(mean of x² + eps) * weight over the last axes, as torch.nn.functional.rms_norm: see layer_norm.

    eps: by default the distance from 1 to the next float32 (float64 for that type). The result has the weight's type.
    """
    shape = as_tuple(normalized_shape)
    arrays = (input,) if weight is None else (input, weight)
    return call(parse_rms, arrays, ("rms_norm", shape, eps), out, threads)


def group_norm(
    input: A,
    num_groups: SupportsIndex,
    weight: A | None = None,
    bias: A | None = None,
    eps: float = 1e-5,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Normalisation of (N, C, ...) over groups of neighbouring channels, as torch.nn.functional.group_norm.

    num_groups    divides C
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """
    arrays = _parameters("group_norm", input, weight, bias)
    return call(parse_group, arrays, ("group_norm", num_groups, eps), out, threads)


def batch_norm(
    input: A,
    running_mean: A | None,
    running_var: A | None,
    weight: A | None = None,
    bias: A | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """(x - mean) / sqrt(variance + eps) * weight + bias per channel of (N, C, ...), as torch.nn.functional.batch_norm.

    training  False: mean and variance are running_mean and running_var, arrays of shape [C]. True: they are those of
              the batch (divided by N), and the running ones, where given, are changed in place: (1 - momentum) of the
              old plus momentum of the batch's (whose variance is divided by N - 1 there)
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm

    Raises ShapeError in training with one value per channel, ArgumentError where running statistics are missing.
    """
    where = "batch_norm"
    training = flag(where, "training", training)
    if not training and (running_mean is None or running_var is None):
        raise ArgumentError(f"{where}: running_mean and running_var must be given unless training is True")
    array, own = given_array(where, "input", input)[0], type_of(where, "input", input)
    dtype = own if is_float(own) else FLOAT32
    ones, zeros = np.ones(array.shape[1:2], dtype), np.zeros(array.shape[1:2], dtype)
    arrays = (input, *_pair(weight, bias, ones, zeros), *_pair(running_mean, running_var, zeros, ones))
    arguments = (where, training, momentum, eps)
    if not training:
        return call(parse_batch, arrays, arguments, out, threads)
    fresh = tuple(np.empty(array.shape[1:2], type_of(where, "running_mean", each)) for each in arrays[3:])
    results = call(parse_batch, arrays, arguments, None if out is None else (out, *fresh), threads)
    for old, new in zip((running_mean, running_var), results[1:], strict=True):
        if old is not None:
            _overwrite(where, old, given_array(where, "running statistics", new)[0])
    return results[0]


def _pair(first: Any, second: Any, instead: Array, instead_second: Array) -> tuple[Any, Any]:
    """Two arrays, with stand-ins in one type for those that are missing: in that of the one that is given."""
    given = first if first is not None else second
    dtype = instead.dtype if given is None else type_of("batch_norm", "an array", given)
    return (
        instead.astype(dtype) if first is None else first,
        instead_second.astype(dtype) if second is None else second,
    )


def _overwrite(where: str, old: Any, new: Array) -> None:
    array, _ = given_array(where, "running statistics", old)
    if not array.flags.writeable:
        raise ArgumentError(f"{where}: running statistics are changed in place, but one of them is read-only")
    array[...] = new


@composed
def instance_norm(
    input: A,
    running_mean: A | None = None,
    running_var: A | None = None,
    weight: A | None = None,
    bias: A | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Normalisation per picture and channel of (N, C, *spatial), as torch.nn.functional.instance_norm.

    use_input_stats  False: by running_mean and running_var, as batch_norm does. True: by the input's own statistics;
                     running ones, where given, are changed in place towards the means of all pictures' (in NumPy)
    weight, bias     arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """
    if not flag("instance_norm", "use_input_stats", use_input_stats):
        return batch_norm(
            input, running_mean, running_var, weight, bias, False, momentum, eps, out=out, threads=threads
        )
    where, fresh = "instance_norm", list[tuple[Any, Array]]()
    if running_mean is not None or running_var is not None:
        x = given_array(where, "input", input)[0]
        fresh = _run_on(where, x, running_mean, running_var, momentum)  # now: `out` may be the input
    made = call(parse_instance, _parameters(where, input, weight, bias), (where, eps), out, threads)
    for old, new in fresh:
        _overwrite(where, old, new)
    return made


def _run_on(where: str, x: Array, mean: Any, variance: Any, momentum: float) -> list[tuple[Any, Array]]:
    """Running statistics and what they become: nearer to the means of the pictures' own."""
    part, axes = real(where, "momentum", momentum), tuple(range(2, x.ndim))
    if x.ndim < 3 or np.prod(x.shape[2:]) < 2:
        raise ShapeError(
            f"{where}: running statistics need more than one place per channel, got {list(x.shape)}"
        )
    data = x.astype(np.float64)
    fresh = (data.mean(axes).mean(0), data.var(axes, ddof=1).mean(0))
    moved = []
    for old, new in zip((mean, variance), fresh, strict=True):
        if old is not None:
            array = given_array(where, "running statistics", old)[0]
            if array.shape != new.shape:
                raise ShapeError(
                    f"{where}: running statistics must have shape {list(new.shape)}, got {list(array.shape)}"
                )
            moved.append((old, (array * (1 - part) + new * part).astype(array.dtype)))
    return moved


def local_response_norm(
    input: A,
    size: SupportsIndex,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """x / (k + alpha * mean of x² over `size` channels around each)^beta of (N, C, ...), as
    torch.nn.functional.local_response_norm: channels beyond the ends count as zeros; the window of an even size has
    one channel more before than after its own.
    """
    return call(parse_response, (input,), ("local_response_norm", size, alpha, beta, k), out, threads)


def normalize(
    input: A,
    p: float = 2.0,
    dim: SupportsIndex = 1,
    eps: float = 1e-12,
    out: A | None = None,
    *,
    threads: int | None = None,
) -> A:
    """x / max(p-norm of x along dim, eps), as torch.nn.functional.normalize.

    p of 1, 2 and infinity run natively, others in NumPy. A line of zeros gives zeros, with eps 0 too (PyTorch: NaN).
    `out` may be the input.
    """
    return call(parse_norm, (input,), ("normalize", p, dim, eps), out, threads)
