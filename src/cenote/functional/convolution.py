"""Convolutions and transposed convolutions over 1, 2 and 3 axes, named and defaulted as torch.nn.functional."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import LETTERS, Operation, choice, numbers
from cenote.functional.kinds import Array, Count, Rank
from cenote.functional.record import function
from cenote.functional.types import ConvPadding, Numbers
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose


def _operation(
    rank: int,
    op: Conv | ConvTranspose,
    x: TensorType,
    weight: TensorType,
    bias: TensorType | None,
) -> Operation:
    """The operator on inputs of which the first may have no batch axis."""
    batched, missing = _batched(rank, x, weight)
    rest = (weight,) if bias is None else (weight, bias)
    (y,) = op.infer(TensorType(x.dtype, batched), *rest)
    return Operation(op, (batched, *(each.shape for each in rest)), (y.shape[1:] if missing else y.shape,))


def _batched(rank: int, x: TensorType, weight: TensorType) -> tuple[tuple[int, ...], bool]:
    """The input's shape with a batch axis, and whether it had none."""
    if not is_float(x.dtype):
        raise DTypeError(f"needs a float type, got {x.dtype}")
    if weight.rank != rank + 2 or x.rank not in (rank + 1, rank + 2):
        letters = LETTERS[rank]
        raise ShapeError(
            f"expected input (N, C, {', '.join(letters)}) or without N, and weights of {rank + 2} axes, got "
            f"{x} and {weight}"
        )
    missing = x.rank == rank + 1
    return ((1, *x.shape) if missing else x.shape), missing


def _pads(rank: int, padding: Numbers) -> tuple[tuple[int, int], ...]:
    return tuple((pad, pad) for pad in numbers("padding", padding, rank, 0))


@function(
    ranks=(1, 2, 3), twins="Cross-correlation over {axes}, as torch.nn.functional.conv{rank}d: see conv2d."
)
def conv(
    rank: Rank,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: ConvPadding = 0,
    dilation: Numbers = 1,
    groups: Count = 1,
) -> Operation:
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
    steps = numbers("stride", stride, rank, 1)
    fields: dict[str, Any] = {"auto_pad": "NOTSET", "pads": ()}
    if isinstance(padding, str):
        word = choice("padding", padding, ("same", "valid"))
        if word == "same" and set(steps) != {1}:
            raise ArgumentError(f"padding='same' needs stride 1, got {shown(stride)}")
        fields["auto_pad"] = "SAME_UPPER" if word == "same" else "VALID"
    else:
        fields["pads"] = _pads(rank, padding)
    spread = numbers("dilation", dilation, rank, 1)
    op = Conv(strides=steps, dilations=spread, groups=groups, **fields)
    return _operation(rank, op, input, weight, bias)


@function(
    ranks=(1, 2, 3),
    twins="Transposed convolution over {axes}, as torch.nn.functional.conv_transpose{rank}d: see conv_transpose2d.",
)
def conv_transpose(
    rank: Rank,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: Count = 1,
    dilation: Numbers = 1,
) -> Operation:
    """Transposed convolution of (N, C, H, W) or (C, H, W), as torch.nn.functional.conv_transpose2d.

    weight          (C, filters / groups, kh, kw), of the input's type
    padding         rows and columns cut off the result on both sides
    output_padding  rows and columns added at the end of the result, fewer than stride or dilation
    bias, stride, groups, dilation, out, threads: see conv2d

    The output's extent is (in - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
    """
    steps = numbers("stride", stride, rank, 1)
    spread = numbers("dilation", dilation, rank, 1)
    extra = numbers("output_padding", output_padding, rank, 0)
    for pad, step, gap in zip(extra, steps, spread, strict=True):
        if pad >= max(step, gap):
            raise ArgumentError(
                f"output_padding must be smaller than stride or dilation, got {pad} with stride {step} and "
                f"dilation {gap}"
            )
    op = ConvTranspose(steps, _pads(rank, padding), spread, groups, output_padding=extra)
    return _operation(rank, op, input, weight, bias)
