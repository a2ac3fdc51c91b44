"""Partial inverse of max pooling."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import (
    Operation,
    Types,
    form,
    numbers,
    refuse_empty,
    rules_of,
    strides,
    whole,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, DLPack, Layout1, Layout2, Layout3, Numbers, Rules
from cenote.ops.pool.unpool import MaxUnpool


def parse_unpool(
    types: Types, where: str, rank: int, kernel_size: Any, stride: Any, padding: Any, output_size: Any, layout: Any,
    semantics: Any,
) -> Operation:  # fmt: skip
    """Values put where indices say."""
    x, indices = types
    rules, _ = rules_of(where, semantics, None)
    window = numbers(where, "kernel_size", kernel_size, rank, 1)
    step = strides(where, stride, window, rules)
    pads = tuple((pad, pad) for pad in numbers(where, "padding", padding, rank, 0))
    if indices.dtype != INT64:
        raise DTypeError(f"{where}: indices must be int64, got {indices.dtype}")
    if indices.shape != x.shape:
        raise ShapeError(
            f"{where}: expected shape of indices to be that of input, {list(x.shape)}, got {list(indices.shape)}"
        )
    shape = form(where, x.shape, rank, layout)
    refuse_empty(where, shape)
    op = MaxUnpool(window, step, pads, (), rules.index, shape.channels_last)
    default = op.default_size(shape.spatial)
    output = _output(where, output_size, default, step, rules.name, shape.channels_last)
    op = MaxUnpool(window, step, pads, output, rules.index, shape.channels_last)
    (y,) = op.infer(TensorType(x.dtype, shape.batched), TensorType(INT64, shape.batched))
    return Operation(op, (shape.batched, shape.batched), (shape.restore(y.shape),))


def _output(
    where: str, value: Any, default: tuple[int, ...], step: tuple[int, ...], rules: str, channels_last: bool
) -> tuple[int, ...]:
    """The spatial extents of the output; PyTorch's must lie less than a stride from the default."""
    rank = len(default)
    if value is None:
        if min(default) < 1:
            raise ShapeError(f"{where}: the output size would be {default}; give output_size or less padding")
        return default
    if not isinstance(value, list | tuple) or len(value) not in (rank, rank + 1, rank + 2):
        raise ArgumentError(
            f"{where}: output_size must hold {rank} extents (or a whole shape), got {shown(value)}"
        )
    if channels_last and len(value) > rank:
        value = value[:-1]
    output = tuple(whole(where, "output_size", extent, 0) for extent in value)[-rank:]
    if rules == "torch":
        for extent, usual, s in zip(output, default, step, strict=True):
            if not usual - s < extent < usual + s:
                raise ArgumentError(
                    f"{where}: output_size {output} must lie less than the stride {step} from {default}"
                )
    return output


def max_unpool1d(
    input: A,
    indices: DLPack,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Numbers | None = None,
    *,
    out: A | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Partial inverse of max_pool1d: see max_unpool2d."""
    size = tuple(output_size) if isinstance(output_size, list | tuple) else output_size
    rest = (kernel_size, stride, padding, size, layout, semantics)
    return call(parse_unpool, (input, indices), ("max_unpool1d", 1, *rest), out, threads)


def max_unpool2d(
    input: A,
    indices: DLPack,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Numbers | None = None,
    *,
    out: A | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Write each value to the place its index names, zeros elsewhere, as torch.nn.functional.max_unpool2d.

    input, indices  what max_pool2d with return_indices gave, of one shape; indices int64, counting as `semantics` say
    kernel_size, stride, padding   of the pool; without output_size the extents are
                    (in - 1) stride - 2 padding + kernel_size
    output_size     spatial extents (or the whole shape), less than a stride from that
    out, layout, threads: see max_pool2d; with layout="NHWC" a whole shape is (N, H, W, C)

    Where indices are equal the last value in row-major order stays, always. Negative indices and those outside of the
    plane raise InputError.
    """
    size = tuple(output_size) if isinstance(output_size, list | tuple) else output_size
    rest = (kernel_size, stride, padding, size, layout, semantics)
    return call(parse_unpool, (input, indices), ("max_unpool2d", 2, *rest), out, threads)


def max_unpool3d(
    input: A,
    indices: DLPack,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Numbers | None = None,
    *,
    out: A | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Partial inverse of max_pool3d: see max_unpool2d."""
    size = tuple(output_size) if isinstance(output_size, list | tuple) else output_size
    rest = (kernel_size, stride, padding, size, layout, semantics)
    return call(parse_unpool, (input, indices), ("max_unpool3d", 3, *rest), out, threads)
