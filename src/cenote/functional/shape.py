"""Output shapes without data."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.errors import ArgumentError, CenoteError, shown
from cenote.core.pool_geometry import axis_windows
from cenote.core.types import FLOAT32, TensorType
from cenote.functional.arguments import (
    HERE,
    WindowArguments,
    form,
    layout_rank,
    semantics_named,
    whole,
)
from cenote.functional.dispatch import raise_named
from cenote.functional.record import public
from cenote.functional.types import Layout, Numbers, Padding, Rules


@public
def pool_output_shape(
    input_shape: Sequence[int],
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    layout: Layout = "NCHW",
    semantics: Rules = "torch",
) -> tuple[int, ...]:
    """The shape that a windowed pool (max, min, average, Lp, soft, median, ...) of such an input has.

    The arguments are those of max_pool2d; `layout` sets the number of spatial axes. With E = dilation (k - 1) + 1:

        explicit padding   floor((in + begin + end - E) / stride) + 1
        ceil_mode          ceil((in + begin + end - E) / stride) + 1, less one where the last window would start past
                           the input and its begin padding ((out - 1) stride >= in + begin)
        "valid"            floor((in - E) / stride) + 1
        "same"             ceil(in / stride), padding in all max(0, (out - 1) stride + E - in)

    "caffe" always rounds up and drops such a window only where there is padding; "tensorrt" never drops it (running a
    pool with a window that holds nothing is refused). All in exact integers, so extents may be of any size.

    Raises ArgumentError and ShapeError as the pool itself does.
    """
    try:
        window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
        return _pooled(input_shape, window, layout, semantics)
    except CenoteError as error:
        raise_named("pool_output_shape", error)


def _pooled(
    input_shape: Sequence[int], window: WindowArguments, layout: object, semantics: object
) -> tuple[int, ...]:
    if not isinstance(input_shape, list | tuple):
        raise ArgumentError(f"input_shape must be a sequence of extents, got {shown(input_shape)}")
    extents = tuple(whole("input_shape", extent, 0) for extent in input_shape)
    rules = semantics_named("semantics", semantics)
    rank = layout_rank(layout)
    fields = window.fields(rank, rules)
    shape = form(TensorType(FLOAT32, extents), rank, layout)
    shape.refuse_empty()
    out = tuple(axis.out for axis in axis_windows(HERE, shape.spatial, **fields))
    batched = shape.batched
    return shape.restore((batched[0], *out, batched[-1]) if shape.channels_last else (*batched[:2], *out))
