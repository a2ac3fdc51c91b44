"""An operator as a class, with a kernel: y = x moved towards zero by `by`, and no further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import cenote
from cenote.kernels import Call, View, pass_seconds
from cenote.ops import (
    PLAIN,
    Imported,
    Lowering,
    Op,
    Sample,
    Target,
    TensorType,
    narrow,
    read,
    require_float,
    seeded,
    wide,
)
from cenote_example.kernel import shrink_call


def _decode(node: Imported) -> Shrink:
    return read(Shrink, node, "by")


@cenote.register
@dataclass(frozen=True)
class Shrink(Op):
    """Soft thresholding of floats of any shape: max(x - by, 0) + min(x + by, 0)."""

    by: float = 0.5

    name = "example.shrink"
    operands = ("x",)
    from_onnx = {"example.Shrink": _decode}

    def types(self, x: TensorType) -> tuple[TensorType]:
        require_float(self.name, x.dtype)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: np.ndarray) -> tuple[np.ndarray]:
        y = wide(x)
        return (narrow(np.maximum(y - self.by, 0) + np.minimum(y + self.by, 0), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType], target: Target) -> Iterator[Lowering]:
        (x,) = inputs
        if x.dtype != np.float32 or not x.size:
            return

        def call(x: View, y: View) -> Call:
            return shrink_call(x, y, self.by, target)

        seconds = pass_seconds(2 * x.nbytes)
        yield Lowering.of_call("vectors", (PLAIN,), (PLAIN,), call, seconds, tolerance=1e-7, in_place=(0,))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        for shape in ((2, 5, 3, 4), (), (0, 3), (33,)):
            yield Sample(cls(), (seeded(shape),))
