"""Tensors of random numbers: uniform, normal, Bernoulli, multinomial.

A seed gives the same numbers every time and on every machine (`ops/random/philox.py` says which); where a model names
none, each run draws one (`FreshSeed`). The generator is ours: frameworks draw other numbers for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, INT64, PLAIN, Array, TensorType, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.random import bernoulli_call, normal_call, uniform_call
from cenote.kernels.selection.draw import draw_call
from cenote.ops.base import Arrays, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import as_ints, dtype_from_code, int64s, known_ints, require_float
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.random.dropout import SEED, FreshSeed, check_seed, key_of
from cenote.ops.random.philox import normal, seed_from_float, uniform
from cenote.ops.values import narrow, seeded, wide


class _Drawn(Op):
    """Base: numbers in the shape that the first input says (its content, or `like` its own shape), from a seed."""

    like: bool
    dtype: np.dtype[Any] | None

    operands = ("shape", "seed")

    def drawn(self, count: int, seed: int, dtype: np.dtype[Any]) -> Array:
        raise NotImplementedError(f"{type(self).__name__}.drawn")

    def seeded_lowerings(
        self,
        inputs: Sequence[TensorType | None],
        call: Callable[[View, View], Call],
        weight: int,
        error: float,
    ) -> Iterator[Lowering]:
        """The kernel of a call on the result and the seed."""
        (y,) = self.infer(*inputs)
        if not y.size:
            return

        first = PLAIN if self.like or present(inputs[0]).value is None else None
        seconds = pass_seconds(y.nbytes, weight * y.size)

        def drawn(*views: View) -> Call:
            return call(views[-1], views[-2])

        error = error_of(error, y.dtype)
        yield Lowering.of_call("philox", (first, PLAIN), (PLAIN,), drawn, seconds, error)

    def types(self, shape: TensorType, seed: TensorType) -> Types:
        extents = shape.shape if self.like else known_ints(self.name, shape, 0, "shape")
        if any(extent < 0 for extent in extents):
            raise ShapeError(f"{self.name}: shape {list(extents)} has a negative extent")
        kind = self.dtype or (shape.dtype if self.like and is_float(shape.dtype) else FLOAT32)
        require_float(self.name, kind)
        check_seed(self.name, seed)
        return (TensorType(kind, extents),)

    def compute(self, shape: Array, seed: Array) -> Arrays:
        (y,) = self.declared(shape, seed)
        values = self.drawn(math.prod(y.shape), key_of(seed), y.dtype)
        return (narrow(values.reshape(y.shape), y.dtype),)


@dataclass(frozen=True)
class RandomUniform(_Drawn):
    """Numbers from `low` to below `high`; types of 16 bits may round up to `high`."""

    low: float = 0.0
    high: float = 1.0
    like: bool = False
    dtype: np.dtype[Any] | None = None

    name = "random_uniform"
    from_onnx = {
        name: lambda node: _decode(node, RandomUniform, low=0.0, high=1.0)
        for name in ("RandomUniform", "RandomUniformLike")
    }

    def drawn(self, count: int, seed: int, dtype: np.dtype[Any]) -> Array:
        return self.low + uniform(count, seed, dtype == FLOAT64) * (self.high - self.low)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from self.seeded_lowerings(
            inputs, lambda y, seed: uniform_call(y, seed, self.low, self.high), 10, 3e-7
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        seed = np.array([5], SEED)
        for dtype in (np.float32, np.float64, np.float16, "bfloat16"):
            yield Sample(cls(-2.0, 3.0, dtype=np.dtype(dtype)), (int64s((3, 333)), seed))
        yield Sample(cls(like=True), (seeded((20000,)), seed))
        yield Sample(cls(like=True), (seeded((2, 0)), seed))


@dataclass(frozen=True)
class RandomNormal(_Drawn):
    """Numbers of a normal distribution: element e is the number below which a share of (word e + 1/2) * 2^-32 lies, so
    that none is further than 6.34 deviations from the mean."""

    mean: float = 0.0
    scale: float = 1.0
    like: bool = False
    dtype: np.dtype[Any] | None = None

    name = "random_normal"
    from_onnx = {
        name: lambda node: _decode(node, RandomNormal, mean=0.0, scale=1.0)
        for name in ("RandomNormal", "RandomNormalLike")
    }

    def drawn(self, count: int, seed: int, dtype: np.dtype[Any]) -> Array:
        return self.mean + self.scale * normal(count, seed)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from self.seeded_lowerings(
            inputs, lambda y, seed: normal_call(y, seed, self.mean, self.scale), 40, 3e-7
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for dtype in (np.float32, np.float64, np.float16, "bfloat16"):
            yield Sample(cls(1.0, 0.5, dtype=np.dtype(dtype)), (int64s((3, 333)), np.array([5], SEED)))
        yield Sample(cls(like=True), (seeded((2, 5), 1, np.float16), np.array([5], SEED)))
        yield Sample(cls(like=True), (seeded((20000,)), np.array([5], SEED)))


@dataclass(frozen=True)
class Bernoulli(Op):
    """1 with the chance that an element of x says (0 and less never, 1 and more always, NaN never), else 0."""

    dtype: np.dtype[Any] | None = None

    name = "bernoulli"
    operands = ("x", "seed")
    from_onnx = {"Bernoulli": lambda node: _decode_bernoulli(node)}

    def types(self, x: TensorType, seed: TensorType) -> Types:
        require_float(self.name, x.dtype)
        check_seed(self.name, seed)
        return (TensorType(self.dtype or x.dtype, x.shape),)

    def compute(self, x: Array, seed: Array) -> Arrays:
        (y,) = self.declared(x, seed)
        u = uniform(x.size, key_of(seed), x.dtype == FLOAT64).reshape(x.shape)
        return ((u < wide(x)).astype(y.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        (y,) = self.infer(*inputs)
        if not y.size or y.dtype.kind == "c" or y.dtype.itemsize < 1 or y.dtype.hasobject:
            return
        if not is_float(y.dtype) and y.dtype.kind not in "iub":
            return

        seconds = pass_seconds(x.nbytes + y.nbytes, 10 * y.size)
        reusable = (0,) if y.dtype == x.dtype else ()
        yield Lowering.of_call("philox", (PLAIN,) * 2, (PLAIN,), bernoulli_call, seconds, in_place=reusable)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        seed, chances = np.array([5], SEED), np.abs(seeded((3, 333))) / 2
        for dtype in (None, np.bool_, np.int64, np.float64, np.float16):
            yield Sample(cls(None if dtype is None else np.dtype(dtype)), (chances, seed))
        yield Sample(cls(), (chances.astype(np.float64), seed))
        yield Sample(cls(), (chances.astype(np.float16), seed))


@dataclass(frozen=True)
class Multinomial(Op):
    """`count` draws (with replacement) of a class for each row of x, which holds logarithms of chances.

    Draw number n of row b takes the number of element b * count + n.
    """

    count: int = 1
    dtype: np.dtype[Any] | None = None

    name = "multinomial"
    operands = ("x", "seed")
    from_onnx = {"Multinomial": lambda node: _decode_multinomial(node)}

    def types(self, x: TensorType, seed: TensorType) -> Types:
        require_float(self.name, x.dtype)
        if x.rank != 2 or not x.shape[1]:
            raise ShapeError(f"{self.name}: x must have shape (batch, classes), got {x}")
        if self.count < 0:
            raise ArgumentError(f"{self.name}: sample_size {self.count} is negative")
        check_seed(self.name, seed)
        kind = self.dtype or np.dtype(np.int32)
        if kind not in (np.dtype(np.int32), INT64):
            raise DTypeError(f"{self.name}: classes are int32 or int64, not {kind}")
        return (TensorType(kind, (x.shape[0], self.count)),)

    def compute(self, x: Array, seed: Array) -> Arrays:
        (y,) = self.declared(x, seed)
        logits = wide(x)
        chances = np.exp(logits - logits.max(1, keepdims=True))
        total = chances.cumsum(1)
        u = uniform(math.prod(y.shape), key_of(seed), True).reshape(y.shape) * total[:, -1:]
        chosen = (total[:, None, :] <= u[:, :, None]).sum(2)
        return (np.minimum(chosen, x.shape[1] - 1).astype(y.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        (y,) = self.infer(*inputs)
        if not y.size:
            return

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            drawn, numbers = made
            return [
                uniform_call(numbers, present(views[1]), 0.0, 1.0),
                draw_call(present(views[0]), numbers, drawn),
            ]

        seconds = pass_seconds(x.nbytes + y.nbytes, 40 * x.size + 30 * y.size)
        numbers = (TensorType(FLOAT64, y.shape),)
        yield Lowering("draws", (PLAIN, PLAIN), (PLAIN,), bind, seconds, temporaries=numbers)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(5), (seeded((3, 7)), np.array([5], SEED)))
        closed = np.array([[-np.inf, 0, -np.inf], [3, 3, -np.inf], [-1e4, 0, 1e4]], np.float32)
        yield Sample(cls(333), (closed, np.array([6], SEED)), "classes without a chance")
        for dtype in (np.float64, np.float16, "bfloat16"):
            yield Sample(cls(100, INT64), (seeded((9, 130), 1, np.dtype(dtype)), np.array([7], SEED)))
        yield Sample(cls(2, INT64), (seeded((1, 1)), np.array([5], SEED)))


# ---- decoding ---------------------------------------------------------------------------------------------------


def _seed(node: Imported) -> Array | FreshSeed:
    """The seed that a node names, or a fresh one."""
    seed = node.get("seed")
    return FreshSeed() if seed is None else np.array([seed_from_float(float(seed))], SEED)


def _dtype(node: Imported) -> np.dtype[Any] | None:
    code = node.get("dtype")
    return None if code is None else dtype_from_code(node.op, int(code))


def _decode(node: Imported, op: Callable[..., Op], **numbers: float) -> Rewired:
    like = node.op.endswith("Like")
    node.expect("seed", "dtype", *numbers, *(() if like else ("shape",)))
    first: int | Array = 0
    if not like:
        if node.get("shape") is None:
            raise ArgumentError(f"{node.op}-{node.opset}: attribute shape is missing")
        first = int64s(as_ints(node.op, "shape", node.get("shape")))
    values = {name: float(node.get(name, default)) for name, default in numbers.items()}
    return Rewired(op(**values, like=like, dtype=_dtype(node)), (first, _seed(node)))


def _decode_bernoulli(node: Imported) -> Rewired:
    node.expect("seed", "dtype")
    return Rewired(Bernoulli(_dtype(node)), (0, _seed(node)))


def _decode_multinomial(node: Imported) -> Rewired:
    node.expect("seed", "dtype", "sample_size")
    return Rewired(Multinomial(int(node.get("sample_size", 1)), _dtype(node)), (0, _seed(node)))
