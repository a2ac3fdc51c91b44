"""Convolutions and transposed convolutions over 1, 2 and 3 axes, named and defaulted as torch.nn.functional."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import LETTERS, Operation, Types, choice, numbers, whole
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.types import A, ConvPadding, Numbers
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose


def parse_conv(
    types: Types, where: str, rank: int, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Operation:
    """A convolution; weights are an array like the input."""
    batched, missing = _shapes(types, where, rank)
    steps = numbers(where, "stride", stride, rank, 1)
    fields: dict[str, Any] = {"auto_pad": "NOTSET", "pads": ()}
    if isinstance(padding, str):
        word = choice(where, "padding", padding, ("same", "valid"))
        if word == "same" and set(steps) != {1}:
            raise ArgumentError(f"{where}: padding='same' needs stride 1, got {shown(stride)}")
        fields["auto_pad"] = "SAME_UPPER" if word == "same" else "VALID"
    else:
        fields["pads"] = tuple((pad, pad) for pad in numbers(where, "padding", padding, rank, 0))
    op = Conv(
        strides=steps, dilations=numbers(where, "dilation", dilation, rank, 1),
        groups=whole(where, "groups", groups, 1), **fields,
    )  # fmt: skip
    return _operation(op, types, batched, missing)


def parse_conv_transpose(
    types: Types, where: str, rank: int, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
) -> Operation:  # fmt: skip
    """A transposed convolution."""
    batched, missing = _shapes(types, where, rank)
    steps = numbers(where, "stride", stride, rank, 1)
    spread = numbers(where, "dilation", dilation, rank, 1)
    extra = numbers(where, "output_padding", output_padding, rank, 0)
    for pad, step, gap in zip(extra, steps, spread, strict=True):
        if pad >= max(step, gap):
            raise ArgumentError(
                f"{where}: output_padding must be smaller than stride or dilation, got {pad} with stride {step} and "
                f"dilation {gap}"
            )
    pads = tuple((pad, pad) for pad in numbers(where, "padding", padding, rank, 0))
    op = ConvTranspose(steps, pads, spread, whole(where, "groups", groups, 1), output_padding=extra)
    return _operation(op, types, batched, missing)


def _shapes(types: Types, where: str, rank: int) -> tuple[tuple[int, ...], bool]:
    """The input's shape with a batch axis, and whether it had none."""
    x, weight = types[:2]
    if not is_float(x.dtype):
        raise DTypeError(f"{where}: needs a float type, got {x.dtype}")
    if weight.rank != rank + 2 or x.rank not in (rank + 1, rank + 2):
        letters = LETTERS[rank]
        raise ShapeError(
            f"{where}: expected input (N, C, {', '.join(letters)}) or without N, and weights of {rank + 2} axes, got "
            f"{x} and {weight}"
        )
    missing = x.rank == rank + 1
    return ((1, *x.shape) if missing else x.shape), missing


def _operation(op: Conv | ConvTranspose, types: Types, batched: tuple[int, ...], missing: bool) -> Operation:
    (y,) = op.infer(TensorType(types[0].dtype, batched), *types[1:])
    shapes = (batched, *(x.shape for x in types[1:]))
    return Operation(op, shapes, (y.shape[1:] if missing else y.shape,))


@public
def conv1d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: ConvPadding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Cross-correlation over 1 spatial axis, as torch.nn.functional.conv1d: see conv2d."""
    arrays = (input, weight) if bias is None else (input, weight, bias)
    return call(parse_conv, arrays, ("conv1d", 1, stride, padding, dilation, groups), out, threads)


@public
def conv2d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: ConvPadding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Cross-correlation of (N, C, H, W) or (C, H, W), as torch.nn.functional.conv2d.

    weight     (filters, C / groups, kh, kw), of the input's type: float64, float32, float16 or bfloat16
    bias       (filters,) or None
    stride     number or one per axis, default 1
    padding    zeros on both sides: number or one per axis; "valid" (none) or "same" (the output has the input's
               extents; the odd one comes at the end; stride 1 only)
    dilation   distance of the window's taps, default 1
    groups     the channels of a group are seen by its filters only; divides C and filters
    out        an array for the result
    threads    threads to use; None: as many as there are cores

    Sums are plain sums in float32 (float64 for float64), rounded once; the same bits for any number of threads.
    Raises ShapeError, DTypeError and ArgumentError where input, weights and arguments do not fit.
    """
    arrays = (input, weight) if bias is None else (input, weight, bias)
    return call(parse_conv, arrays, ("conv2d", 2, stride, padding, dilation, groups), out, threads)


@public
def conv3d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: ConvPadding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Cross-correlation over 3 spatial axes, as torch.nn.functional.conv3d: see conv2d."""
    arrays = (input, weight) if bias is None else (input, weight, bias)
    return call(parse_conv, arrays, ("conv3d", 3, stride, padding, dilation, groups), out, threads)


@public
def conv_transpose1d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Transposed convolution over 1 spatial axis, as torch.nn.functional.conv_transpose1d: see conv_transpose2d."""
    arrays = (input, weight) if bias is None else (input, weight, bias)
    rest = (stride, padding, output_padding, groups, dilation)
    return call(parse_conv_transpose, arrays, ("conv_transpose1d", 1, *rest), out, threads)


@public
def conv_transpose2d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Transposed convolution of (N, C, H, W) or (C, H, W), as torch.nn.functional.conv_transpose2d.

    weight          (C, filters / groups, kh, kw), of the input's type
    padding         rows and columns cut off the result on both sides
    output_padding  rows and columns added at the end of the result, fewer than stride or dilation
    bias, stride, groups, dilation, out, threads: see conv2d

    The output's extent is (in - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
    """
    arrays = (input, weight) if bias is None else (input, weight, bias)
    rest = (stride, padding, output_padding, groups, dilation)
    return call(parse_conv_transpose, arrays, ("conv_transpose2d", 2, *rest), out, threads)


@public
def conv_transpose3d(
    input: A,
    weight: A,
    bias: A | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Transposed convolution over 3 spatial axes, as torch.nn.functional.conv_transpose3d: see conv_transpose2d."""
    arrays = (input, weight) if bias is None else (input, weight, bias)
    rest = (stride, padding, output_padding, groups, dilation)
    return call(parse_conv_transpose, arrays, ("conv_transpose3d", 3, *rest), out, threads)
