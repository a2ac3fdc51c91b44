"""Normalisation and softmax, named and defaulted as torch.nn.functional.

Inputs are float64, float32, float16 or bfloat16; statistics of the 16-bit types and of float32 are computed in float32
(pieces of long sums in float64) and results rounded once. `out` may be the input itself where a function says that it
works in place: then no other memory of the input's size is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import FLOAT32, FLOAT64, TensorType, is_float
from cenote.core.types import Array as Values
from cenote.functional.arguments import Operation, as_tuple, given_array, real, type_of, whole, whole_numbers
from cenote.functional.kinds import Array, Early, Given, Kind, Target, Threads
from cenote.functional.record import composed, function
from cenote.functional.types import DLPack
from cenote.ops.base import Op
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.normalization.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.ops.normalization.layer_normalization import LayerNormalization, LpNormalization, RMSNormalization
from cenote.ops.normalization.lrn import LRN
from cenote.ops.normalization.softmax import LogSoftmax, Softmax


def _no_nan(name: str, value: object) -> float:
    number = real(name, value)
    if math.isnan(number):
        raise ArgumentError(f"{name} must be a number, got nan")
    return number


Epsilon = Annotated[float, Kind("float", _no_nan)]
LaterEpsilon = Annotated[float, Kind("float")]
"""An epsilon that is read by the function which it is handed on to."""
Count = Annotated[int, Kind("SupportsIndex", partial(whole, low=1))]
Dim = Annotated[Any, Kind("SupportsIndex")]
_EXTENTS = Kind("SupportsIndex | Sequence[SupportsIndex]", partial(whole_numbers, low=0), as_tuple)
Extents = Annotated[tuple[int, ...], _EXTENTS]
Out = Annotated[None, Early("A")]
Dtype = Annotated[None, Early("Any")]

# ---- over the last axes ---------------------------------------------------------------------------------------------


def _parameters(input: object, weight: object, bias: object) -> tuple[object, ...]:
    """The parameters that are given after the input; ones stand in for a missing weight where there is a bias."""
    if weight is None and bias is None:
        return (input,)
    if weight is None:
        weight = np.ones_like(given_array("bias", bias)[0])
    return (input, weight) if bias is None else (input, weight, bias)


def _trailing(
    wanted: tuple[int, ...], input: TensorType, weight: TensorType | None, bias: TensorType | None
) -> int:
    """The first axis that statistics run over; ShapeError unless the input and its parameters end in that shape."""
    if not wanted:
        raise ArgumentError(f"normalized_shape must name at least one axis, got {shown(wanted)}")
    x = input.shape
    if x[max(0, len(x) - len(wanted)) :] != wanted:
        raise ShapeError(
            f"the input's last axes must be normalized_shape {list(wanted)}, got an input of shape {list(x)}"
        )
    for what, kind in (("weight", weight), ("bias", bias)):
        if kind is not None and kind.shape != wanted:
            raise ShapeError(f"{what} must have shape {list(wanted)}, got {list(kind.shape)}")
    return -len(wanted)


@dataclass(frozen=True)
class Affine:
    """The arguments that follow those of the statistics."""

    weight: Array | None = None
    bias: Array | None = None
    eps: Epsilon = 1e-5


@function(arrays=_parameters)
def layer_norm(input: Array, normalized_shape: Extents, affine: Affine) -> Op:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, as torch.nn.functional.layer_norm.

    normalized_shape  the extents of the last axes of the input, over which mean and variance run
    weight, bias      arrays of that shape, of the input's type or float32
    eps               a number; a negative one, which PyTorch allows too, gives NaN where it outweighs the variance
    out               where to write the result; may be the input itself
    threads           how many may work; by default one per physical core

    Raises ShapeError for shapes that do not fit, ArgumentError for other arguments, DTypeError for types that are no
    floats.
    """
    first = _trailing(normalized_shape, input, affine.weight, affine.bias)
    return LayerNormalization(first, affine.eps)


@function()
def rms_norm(
    input: Array,
    normalized_shape: Extents,
    weight: Array | None = None,
    eps: Epsilon | None = None,
) -> Op:
    """x / sqrt(mean of x² + eps) * weight over the last axes, as torch.nn.functional.rms_norm: see layer_norm.

    eps: by default the distance from 1 to the next float32 (float64 for that type). The result has the weight's type.
    """
    if eps is None:
        eps = float(np.finfo(np.float64 if input.dtype == FLOAT64 else np.float32).eps)
    return RMSNormalization(_trailing(normalized_shape, input, weight, None), eps)


# ---- per channel ----------------------------------------------------------------------------------------------------


def _channels(x: TensorType, *parameters: TensorType | None, least: int = 2) -> int:
    """The extent of axis 1; ShapeError unless all other arrays have one entry for each."""
    if x.rank < least:
        raise ShapeError(f"expected an input of at least {least} axes (N, C, ...), got {list(x.shape)}")
    for kind in parameters:
        if kind is not None and kind.shape != (x.shape[1],):
            raise ShapeError(
                f"weight, bias and statistics must have shape [{x.shape[1]}], one entry per channel of "
                f"{list(x.shape)}, got {list(kind.shape)}"
            )
    return x.shape[1]


@function(arrays=_parameters)
def group_norm(input: Array, num_groups: Count, affine: Affine) -> Op:
    """Normalisation of (N, C, ...) over groups of neighbouring channels, as torch.nn.functional.group_norm.

    num_groups    divides C
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """
    channels = _channels(input, affine.weight, affine.bias)
    if channels % num_groups:
        raise ArgumentError(f"num_groups must divide the {channels} channels, got {num_groups}")
    return GroupNormalization(num_groups, affine.eps)


@function()
def _batch_norm(
    input: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    var: Array,
    training: bool,
    momentum: float,
    eps: Epsilon,
) -> Op:
    channels = _channels(input, weight, bias, mean, var)
    if training and channels and input.size == channels:
        raise ShapeError(
            f"training needs more than one value per channel, got an input of {list(input.shape)}"
        )
    return BatchNormalization(eps, training, 1.0 - momentum, unbiased=True)


@composed()
def batch_norm(
    input: Given,
    running_mean: Given | None,
    running_var: Given | None,
    weight: Given | None = None,
    bias: Given | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: LaterEpsilon = 1e-5,
    *,
    out: Target,
    threads: Threads,
) -> DLPack:
    """(x - mean) / sqrt(variance + eps) * weight + bias per channel of (N, C, ...), as torch.nn.functional.batch_norm.

    training  False: mean and variance are running_mean and running_var, arrays of shape [C]. True: they are those of
              the batch (divided by N), and the running ones, where given, are changed in place: (1 - momentum) of the
              old plus momentum of the batch's (whose variance is divided by N - 1 there)
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm

    Raises ShapeError in training with one value per channel, ArgumentError where running statistics are missing.
    """
    if not training and (running_mean is None or running_var is None):
        raise ArgumentError("running_mean and running_var must be given unless training is True")
    array = given_array("input", input)[0]
    arrays = (input, *_pair(array, weight, bias, 1, 0), *_pair(array, running_mean, running_var, 0, 1))
    arguments = (training, momentum, eps)
    if not training:
        return _batch_norm(*arrays, *arguments, out=out, threads=threads)
    fresh = tuple(np.empty(array.shape[1:2], type_of("running_mean", each)) for each in arrays[3:])
    out = None if out is None else (out, *fresh)
    y, *results = _batch_norm(*arrays, *arguments, out=out, threads=threads)
    for old, new in zip((running_mean, running_var), results, strict=True):
        if old is not None:
            _overwrite(old, given_array("running statistics", new)[0])
    return y


def _pair(
    x: Values, first: DLPack | None, second: DLPack | None, instead: int, instead_second: int
) -> tuple[DLPack, DLPack]:
    """Two arrays of a number per channel of x. Constants stand in for missing ones, in the type of the other or, where
    both are missing, in that of x (float32 if that is no float)."""
    if first is not None and second is not None:
        return first, second
    given = first if first is not None else second
    own = type_of("an array", x if given is None else given)
    dtype = own if given is not None or is_float(own) else FLOAT32
    return (
        np.full(x.shape[1:2], instead, dtype) if first is None else first,
        np.full(x.shape[1:2], instead_second, dtype) if second is None else second,
    )


def _overwrite(old: object, new: Values) -> None:
    array, _ = given_array("running statistics", old)
    if not array.flags.writeable:
        raise ArgumentError("running statistics are changed in place, but one of them is read-only")
    array[...] = new


@function(arrays=_parameters)
def _instance_norm(input: Array, affine: Affine) -> Op:
    _channels(input, affine.weight, affine.bias, least=3)
    return InstanceNormalization(affine.eps)


@composed()
def instance_norm(
    input: Given,
    running_mean: Given | None = None,
    running_var: Given | None = None,
    weight: Given | None = None,
    bias: Given | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: LaterEpsilon = 1e-5,
    *,
    out: Target,
    threads: Threads,
) -> DLPack:
    """Normalisation per picture and channel of (N, C, *spatial), as torch.nn.functional.instance_norm.

    use_input_stats  False: by running_mean and running_var, as batch_norm does. True: by the input's own statistics;
                     running ones, where given, are changed in place towards the means of all pictures' (in NumPy)
    weight, bias     arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """
    if not use_input_stats:
        return batch_norm(
            input, running_mean, running_var, weight, bias, False, momentum, eps, out=out, threads=threads
        )
    fresh = list[tuple[object, Values]]()
    if running_mean is not None or running_var is not None:
        x = given_array("input", input)[0]
        fresh = _run_on(x, running_mean, running_var, momentum)  # now: `out` may be the input
    made = _instance_norm(input, weight, bias, eps, out=out, threads=threads)
    for old, new in fresh:
        _overwrite(old, new)
    return made


def _run_on(x: Values, mean: object, variance: object, part: float) -> list[tuple[object, Values]]:
    """Running statistics and what they become: nearer to the means of the pictures' own."""
    axes = tuple(range(2, x.ndim))
    if x.ndim < 3 or np.prod(x.shape[2:]) < 2:
        raise ShapeError(f"running statistics need more than one place per channel, got {list(x.shape)}")
    data = x.astype(np.float64)
    fresh = (data.mean(axes).mean(0), data.var(axes, ddof=1).mean(0))
    moved = []
    for old, new in zip((mean, variance), fresh, strict=True):
        if old is not None:
            array = given_array("running statistics", old)[0]
            if array.shape != new.shape:
                raise ShapeError(
                    f"running statistics must have shape {list(new.shape)}, got {list(array.shape)}"
                )
            moved.append((old, (array * (1 - part) + new * part).astype(array.dtype)))
    return moved


@function()
def local_response_norm(
    input: Array, size: Count, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Op:
    """x / (k + alpha * mean of x² over `size` channels around each)^beta of (N, C, ...), as
    torch.nn.functional.local_response_norm: channels beyond the ends count as zeros; the window of an even size has
    one channel more before than after its own.
    """
    if input.rank < 3:
        raise ShapeError(f"expected 3D or higher dimensionality input, got {list(input.shape)}")
    return LRN(size, alpha, beta, k, backward=True)


# ---- along an axis --------------------------------------------------------------------------------------------------


def _along(op: Callable[[int], Op], x: TensorType, dim: object) -> Operation:
    """An operator along an axis; a scalar counts as one element along it."""
    number, most = whole("dim", dim), max(x.rank, 1)
    if not -most <= number < most:
        raise ShapeError(f"dim must lie between {-most} and {most - 1}, got {number}")
    made, shape = op(number % most), x.shape or (1,)
    made.infer(TensorType(x.dtype, shape))
    return Operation(made, (shape,), (x.shape,))


@function()
def normalize(
    input: Array, p: float = 2.0, dim: Dim = 1, eps: float = 1e-12, out: Out | None = None
) -> Operation:
    """x / max(p-norm of x along dim, eps), as torch.nn.functional.normalize.

    p of 1, 2 and infinity run natively, others in NumPy. A line of zeros gives zeros, with eps 0 too (PyTorch: NaN).
    `out` may be the input.
    """
    return _along(lambda axis: LpNormalization(axis, p, eps), input, dim)


def _converted(input: object, dtype: object) -> tuple[object, ...]:
    """The input in a type that the caller asked for."""
    if dtype is None:
        return (input,)
    array, restore = given_array("input", input)
    try:
        return (restore(array.astype(np.dtype(dtype))),)  # type: ignore[call-overload]  # TypeError for others
    except TypeError:
        raise ArgumentError(f"dtype must be a NumPy type, got {shown(dtype)}") from None


def _usual(dim: object, rank: int) -> object:
    """PyTorch's axis where none is given."""
    return dim if dim is not None else 0 if rank in (0, 1, 3) else 1


@function(arrays=_converted)
def softmax(input: Array, dim: Dim | None = None, *, dtype: Dtype = None) -> Operation:
    """exp(x) / sum of exp(x) along `dim`, without overflow, as torch.nn.functional.softmax.

    dim    by default 0 for inputs of 0, 1 and 3 axes, else 1, as PyTorch's (deprecated) choice
    dtype  a NumPy float type that the input is converted to first (also integers)
    out    may be the input where dtype is None

    A line with NaN or +infinity in it, or of nothing but -infinity, gives NaN.
    """
    return _along(Softmax, input, _usual(dim, input.rank))


@function(arrays=_converted)
def log_softmax(input: Array, dim: Dim | None = None, *, dtype: Dtype = None) -> Operation:
    """x - log(sum of exp(x)) along `dim`, as torch.nn.functional.log_softmax: see softmax."""
    return _along(LogSoftmax, input, _usual(dim, input.rank))
