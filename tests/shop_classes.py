"""An operator of a user's as a class, and modules that define it."""

from __future__ import annotations

SHRINK = '''
from dataclasses import dataclass

import numpy as np

import cenote
from cenote.ops import Op, Sample, TensorType, narrow, read, require_float, seeded, wide


@cenote.register
@dataclass(frozen=True)
class Shrink(Op):
    """x moved towards zero by `by`, and no further."""

    by: float = 0.5

    name = "shop.shrink"
    operands = ("x",)
    from_onnx = {"shop.Shrink": lambda node: read(Shrink, node, "by")}

    def types(self, x):
        require_float(self.name, x.dtype)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x):
        y = wide(x)
        return (narrow(np.maximum(y - self.by, 0) + np.minimum(y + self.by, 0), x.dtype),)

    @classmethod
    def samples(cls):
        for shape in ((2, 5, 3, 4), (), (0, 3), (33,)):
            yield Sample(cls(), (seeded(shape),))
'''
"""Text of a module that registers `shop.Shrink`."""
