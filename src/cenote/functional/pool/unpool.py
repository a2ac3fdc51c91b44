"""Partial inverse of max pooling."""

from __future__ import annotations

from typing import Annotated, Any

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import TORCH, Operation, as_tuple, numbers, strides, whole
from cenote.functional.kinds import Kind, Map, Other, Rules
from cenote.functional.record import function
from cenote.functional.types import Numbers
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.ops.pool.unpool import MaxUnpool

Size = Annotated[Any, Kind("Numbers", key=as_tuple)]


def _output(
    value: Numbers | None,
    default: tuple[int, ...],
    step: tuple[int, ...],
    rules: str,
    channels_last: bool,
) -> tuple[int, ...]:
    """The spatial extents of the output; PyTorch's must lie less than a stride from the default."""
    rank = len(default)
    if value is None:
        if min(default) < 1:
            raise ShapeError(f"the output size would be {default}; give output_size or less padding")
        return default
    if not isinstance(value, list | tuple) or len(value) not in (rank, rank + 1, rank + 2):
        raise ArgumentError(f"output_size must hold {rank} extents (or a whole shape), got {shown(value)}")
    if channels_last and len(value) > rank:
        value = value[:-1]
    output = tuple(whole("output_size", extent, 0) for extent in value)[-rank:]
    if rules == "torch":
        for extent, usual, s in zip(output, default, step, strict=True):
            if not usual - s < extent < usual + s:
                raise ArgumentError(
                    f"output_size {output} must lie less than the stride {step} from {default}"
                )
    return output


@function(
    ranks=(1, 2, 3), twins="Partial inverse of max_pool{rank}d: see max_unpool2d.", gradient=SparseGradient
)
def max_unpool(
    input: Map,
    indices: Other,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Size | None = None,
    *,
    semantics: Rules = TORCH,
) -> Operation:
    """Write each value to the place its index names, zeros elsewhere, as torch.nn.functional.max_unpool2d.

    input, indices  what max_pool2d with return_indices gave, of one shape; indices int64, counting as `semantics` say
    kernel_size, stride, padding   of the pool; without output_size the extents are
                    (in - 1) stride - 2 padding + kernel_size
    output_size     spatial extents (or the whole shape), less than a stride from that
    out, layout, threads: see max_pool2d; with layout="NHWC" a whole shape is (N, H, W, C)

    Where indices are equal the last value in row-major order stays, always. Negative indices and those outside of the
    plane raise InputError.
    """
    rank = input.rank
    window = numbers("kernel_size", kernel_size, rank, 1)
    step = strides(stride, window, semantics)
    pads = tuple((pad, pad) for pad in numbers("padding", padding, rank, 0))
    if indices.dtype != INT64:
        raise DTypeError(f"indices must be int64, got {indices.dtype}")
    given = input.restore(input.batched)
    if indices.shape != given:
        raise ShapeError(
            f"expected shape of indices to be that of input, {list(given)}, got {list(indices.shape)}"
        )
    input.refuse_empty()
    op = MaxUnpool(window, step, pads, (), semantics.index, input.channels_last)
    default = op.default_size(input.spatial)
    output = _output(output_size, default, step, semantics.name, input.channels_last)
    op = MaxUnpool(window, step, pads, output, semantics.index, input.channels_last)
    (y,) = op.infer(input.type, TensorType(INT64, input.batched))
    return Operation(op, (input.batched, input.batched), (input.restore(y.shape),))
