"""Output shapes without data."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.errors import ArgumentError, shown
from cenote.core.pool_geometry import axis_windows
from cenote.core.types import FLOAT32, TensorType
from cenote.functional.arguments import (
    WindowArguments,
    form,
    layout_rank,
    semantics_named,
    whole,
)
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
    where = "pool_output_shape"
    if not isinstance(input_shape, list | tuple):
        raise ArgumentError(f"{where}: input_shape must be a sequence of extents, got {shown(input_shape)}")
    extents = tuple(whole(where, "input_shape", extent, 0) for extent in input_shape)
    rules = semantics_named(where, "semantics", semantics)
    rank = layout_rank(where, layout)
    arguments = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    fields = arguments.fields(where, rank, rules)
    shape = form(where, TensorType(FLOAT32, extents), rank, layout)
    shape.refuse_empty()
    axes = axis_windows(
        where,
        shape.spatial,
        fields["window"],
        fields["stride"],
        fields["pads"],
        fields["dilation"],
        auto_pad=fields["auto_pad"],
        ceil_mode=fields["ceil_mode"],
        drop=fields["drop"],
    )
    out = tuple(axis.out for axis in axes)
    batched = shape.batched
    whole_shape = (batched[0], *out, batched[-1]) if shape.channels_last else (*batched[:2], *out)
    return shape.restore(whole_shape)
