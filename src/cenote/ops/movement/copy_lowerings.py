"""The native lowering of operators that only pick elements by strides: Transpose, Slice, Expand, Split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cenote.core.target import Target
from cenote.core.types import PLAIN, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.transpose import strided_copy_call
from cenote.ops.base import Lowering

Walk = Callable[[tuple[int, ...]], tuple[int, Sequence[int]]]


def strided_lowerings(
    inputs: Sequence[TensorType | None], output: TensorType, walk: Walk, target: Target
) -> Iterator[Lowering]:
    """`walk` turns the strides of the first input into where the output starts in it, and its strides there."""
    if not can_copy(output.dtype) or not output.size:
        return

    def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(views[0])
        start, strides = walk(x.strides)
        return [strided_copy_call(x.at(start), strides, outputs[0], target)]

    rest = (None,) * (len(inputs) - 1)
    yield Lowering("strided_copy", (PLAIN, *rest), (PLAIN,), bind, pass_seconds(3 * output.nbytes))
