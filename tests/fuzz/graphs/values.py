"""Values of random graphs, and what their nodes give by ONNX's reference evaluator, in their own types and in float64.

A value is exact where every engine must give it to the bit: inputs and what correctly rounded operations make of exact
values. Others are kept only where float64 gives nearly the same, so that no graph amplifies its rounding errors; no
step that jumps (a comparison, a cast to integers) reads them.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from cenote.core.types import BFLOAT16, is_float

Array = np.ndarray[Any, Any]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16)
INTEGERS = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = np.dtype(np.bool_)
NEAR = {8: 1e-9, 4: 2e-5, 2: 2e-2}  # of the largest element: how far float64 may be off an approximate value


class Dropped(Exception):
    """A step whose result is of no use: not defined, or its rounding errors are large."""


@dataclass(frozen=True)
class Value:
    """An array and, where it is approximate, the same computed in float64."""

    array: Array
    wide: Array | None = None

    @property
    def exact(self) -> bool:
        return self.wide is None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def widened(self) -> Array:
        if self.wide is not None:
            return self.wide
        return self.array.astype(np.float64) if is_float(self.dtype) else self.array


Environment = dict[str, Value]


def element_type(dtype: np.dtype[Any]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def leaf(dtype: np.dtype[Any], shape: Sequence[int], style: str, seed: int) -> Array:
    """Elements of an input: small whole numbers and halves, edges of the type, NaN and infinities among others."""
    source = np.random.default_rng(seed)
    if dtype == BOOL:
        return np.asarray(source.random(shape) < 0.5)
    if is_float(dtype):
        return _floats(dtype, shape, style, source)
    limits = np.iinfo(dtype)
    low = max(-4, int(limits.min))
    made = np.asarray(source.integers(low, 5, shape)).astype(dtype)
    if style in ("edges", "special"):
        edges = np.array([limits.min, limits.max, limits.max - 1, limits.min + 1, limits.max // 2 + 1], dtype)
        made = np.asarray(np.where(source.random(shape) < 0.4, source.choice(edges, shape), made)).astype(
            dtype
        )
    if style == "positive":
        made = np.maximum(made, 1)
    return np.asarray(made, dtype)


def _floats(dtype: np.dtype[Any], shape: Sequence[int], style: str, source: np.random.Generator) -> Array:
    if style in ("small", "positive"):
        made = source.integers(1 if style == "positive" else -8, 9, shape) / 2
    else:
        made = np.asarray(source.standard_normal(shape) * source.choice([0.1, 1, 3]))
    if style in ("special", "edges"):
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5])
        made = np.where(source.random(shape) < 0.3, source.choice(odd, shape), made)
    return np.asarray(made).astype(dtype)


def reference(
    nodes: Sequence[onnx.NodeProto], given: Mapping[str, Array], names: Sequence[str], opset: int
) -> list[Array]:
    """What nodes give, by ONNX's reference evaluator. Dropped where it cannot tell."""
    inputs = [
        helper.make_tensor_value_info(name, element_type(x.dtype), x.shape) for name, x in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    model = helper.make_model(
        helper.make_graph(list(nodes), "step", inputs, outputs),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=10,
    )  # fmt: skip
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(model).run(None, dict(given))
    except Exception as error:
        raise Dropped(str(error)) from error
    if not all(isinstance(y, np.ndarray | np.generic) for y in made):
        raise Dropped("no array")
    return [np.asarray(y) for y in made]


def is_near(y: Array, wanted: Array, relative: float) -> bool:
    """Close to within that share of the largest finite element; NaN where NaN is wanted."""
    if y.shape != wanted.shape:
        return False
    a, b = y.astype(np.float64), wanted.astype(np.float64)
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=1e-3))
    return bool(np.isclose(a, b, rtol=relative, atol=relative * largest, equal_nan=True).all())


def shape_of(rng: random.Random, large: bool) -> tuple[int, ...]:
    """Extents of a graph: mostly small, some that fill vectors, pieces or rows, some empty."""
    if large:
        return rng.choice(((3, 4099), (70_001,), (5, 17, 331), (4, 4, 40, 33), (2, 1, 9001)))
    rank = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5))
    extents = [rng.choice((1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)) for _ in range(rank)]
    if rank and rng.random() < 0.06:
        extents[rng.randrange(rank)] = 0
    while np.prod(extents, dtype=np.int64) > 20_000:
        extents[extents.index(max(extents))] = 2
    return tuple(extents)
