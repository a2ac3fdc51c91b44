"""Cases for the operators that compare the elements of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.types import BFLOAT16, Array
from cenote.ops.base import Sample
from cenote.ops.values import seeded, special


def window_samples(cls: Callable[..., Any]) -> Iterator[Sample]:
    one, two = ((1, 1), (1, 1)), (2, 2)
    cases: list[tuple[str, Any, Array]] = [
        ("2x2 s2", cls(two, two), seeded((1, 16, 14, 14))),
        ("3x3 s2 p1", cls((3, 3), two, one), seeded((2, 13, 11, 15))),
        ("3x3 s2", cls((3, 3), two), seeded((1, 20, 13, 13))),
        ("3x3 s2 ceil", cls((3, 3), two, ceil_mode=True), seeded((1, 9, 12, 14))),
        ("ceil drops a window", cls((3, 3), (3, 3), one, ceil_mode=True), seeded((1, 3, 5, 5))),
        ("5x5 s1 p2", cls((5, 5), (1, 1), ((2, 2), (2, 2))), seeded((1, 8, 9, 10))),
        ("13x13 s1 p6", cls((13, 13), (1, 1), ((6, 6), (6, 6))), seeded((1, 5, 13, 13))),
        ("31x17 s1", cls((31, 17), (1, 1), ((15, 15), (8, 8))), seeded((1, 2, 40, 33))),
        ("stride > window", cls(two, (3, 4)), seeded((1, 8, 11, 13))),
        ("window 1", cls((1, 1), two), seeded((1, 8, 7, 8))),
        ("whole map", cls((7, 7)), seeded((2, 9, 7, 7))),
        ("1x1 map", cls((1, 1)), seeded((1, 5, 1, 1))),
        ("dilated", cls((3, 2), two, ((2, 1), (1, 0)), (2, 3)), seeded((1, 7, 12, 11))),
        ("dilated by the stride", cls((2, 2), two, (), two), seeded((1, 5, 8, 11))),
        ("begin and end pads", cls((3, 4), (1, 2), ((0, 2), (3, 1))), seeded((1, 6, 9, 10))),
        ("same upper", cls((3, 2), two, auto_pad="SAME_UPPER"), seeded((1, 8, 9, 8))),
        ("same lower", cls((3, 2), two, auto_pad="SAME_LOWER"), seeded((1, 8, 9, 8))),
        ("1-D", cls((3,), (2,), ((1, 1),)), seeded((2, 10, 17))),
        ("3-D", cls((3, 3, 3), (2, 2, 2), ((1, 1),) * 3), seeded((1, 9, 5, 8, 9))),
        ("3-D, one apart", cls((3, 3, 3), (1, 1, 1), ((1, 1),) * 3), seeded((1, 3, 5, 8, 20))),
        ("3-D 2x2x2", cls((2, 2, 2), (2, 2, 2)), seeded((1, 3, 4, 6, 7))),
        ("channels last", cls((3, 3), two, one, channels_last=True), seeded((2, 11, 9, 13))),
        ("channels last 2x2", cls(two, two, channels_last=True), seeded((1, 8, 10, 3))),
        ("empty batch", cls(two, two), seeded((0, 4, 6, 6))),
        ("special values", cls((3, 3), two, one), special((1, 9, 15, 17))),
        ("special values, s1", cls((5, 3), (1, 1), ((2, 2), (1, 1))), special((1, 3, 16, 33))),
        ("special values, ignored", cls((3, 3), two, one, nan="ignore"), special((1, 9, 15, 17))),
        ("all -inf", cls(two, two), np.full((1, 8, 6, 6), -np.inf, np.float32)),
        ("all NaN", cls(two, two, nan="ignore"), np.full((1, 8, 6, 6), np.nan, np.float32)),
        ("all lowest", cls(two, two), np.full((1, 8, 6, 6), -128, np.int8)),
    ]
    others = (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_)
    for dtype in others:
        cases.append(
            (f"3x3 s2 p1 {np.dtype(dtype).name}", cls((3, 3), two, one), seeded((1, 9, 13, 18), 0, dtype))
        )
    for label, op, x in cases:
        yield Sample(op, (x,), f"{op.name} {label}")
        yield Sample(replace(op, return_indices=True), (x,), f"{op.name} {label}, indices")
    for rule in ("tensor", "column", "nhwc"):
        op = cls((2, 3, 2), (1, 2, 1), ((1, 0), (1, 1), (0, 1)), return_indices=True, index=rule)
        yield Sample(op, (seeded((2, 3, 4, 5, 3)),), f"{op.name} {rule} indices")
