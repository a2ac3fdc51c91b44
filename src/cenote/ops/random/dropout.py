"""Dropout: elements, or runs of them, set to a constant by chance; as ONNX has it, and as functions on arrays do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.random import Drop, dropout_call
from cenote.ops.base import Arrays, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import BOOL, known, require, require_float, require_kind
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.random.philox import fresh_seed, words
from cenote.ops.values import narrow, seeded, wide

SEED = np.dtype(np.uint64)
_ALPHA = 1.7580993408473766  # what SELU goes to far below zero, with the sign turned


def check_chance(op: str, p: float) -> None:
    """Check a probability. Raises ArgumentError outside 0 to 1."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"{op}: p must be a probability between 0 and 1, got {p:g}")


def check_seed(op: str, seed: TensorType) -> None:
    if seed.dtype != SEED or seed.size != 1:
        raise DTypeError(f"{op}: the seed must be one uint64, got {seed}")


def key_of(seed: Array) -> int:
    """Key of a seed as a number."""
    return int(seed.reshape(-1)[0])


@dataclass(frozen=True)
class FreshSeed(Op):
    """Random seed, another one in each run, for operators whose node has none."""

    name = "fresh_seed"
    operands = ()
    pure = False

    def types(self) -> Types:
        return (TensorType(SEED, (1,)),)

    def compute(self) -> Arrays:
        return (np.array([fresh_seed()], SEED),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (), "one")
        yield Sample(cls(), (), "another")


def threshold_of(p: float) -> int:
    """Words below it drop: p to the nearest multiple of 2^-32."""
    return min(round(p * 2.0**32), 2**32)


def drop_of(p: float, alpha: bool) -> Drop:
    """Constants of dropout with probability p: kept elements are scaled so that the mean stays, or for `alpha` (dropout
    for SELU) so that mean 0 and variance 1 stay."""
    if not alpha:
        return Drop(threshold_of(p), 1.0 / (1.0 - p) if p < 1 else 0.0)
    factor = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p)) if p < 1 else 0.0
    return Drop(threshold_of(p), factor, _ALPHA * factor * p, _ALPHA * factor * (p - 1))


def dropped(x: Array, drop: Drop, draws: int, seed: int) -> tuple[Array, Array]:
    """The result in float64, and which elements were kept; each draw serves as many neighbouring elements."""
    kept = words(draws, seed).astype(np.int64) >= drop.threshold
    mask = np.repeat(kept, x.size // draws if draws else 0).reshape(x.shape)
    return np.where(mask, wide(x) * drop.scale + drop.shift, drop.dropped), mask


def dropout_lowering(drop: Drop, x: TensorType, inputs: int, run: int, masks: int) -> Iterator[Lowering]:
    """A kernel, unless nothing is kept: such a threshold has 33 bits. The seed is the last of the inputs."""
    if not x.size or drop.threshold == 2**32:
        return

    layouts = (PLAIN, *(None,) * (inputs - 2), PLAIN)
    seconds = pass_seconds(2 * x.nbytes + masks * x.size, 10 * x.size)
    error = error_of(3e-7, x.dtype)

    def call(x: View, seed: View, y: View, mask: View | None = None) -> Call:
        return dropout_call(drop, x, y, mask, seed, run)

    made = (PLAIN,) * (1 + masks)
    yield Lowering.of_call("philox", layouts, made, call, seconds, error, in_place=(0,))


@dataclass(frozen=True)
class RandomDropout(Op):
    """x with elements dropped with probability p, those kept times 1 / (1 - p): for functions on arrays.

    Inputs: x and the seed, one uint64. `axes`: one draw for each position of so many leading axes (None: for each
    element). `alpha`: as AlphaDropout. A dropped NaN is dropped. `with_mask` adds what was kept, as bool.
    """

    p: float = 0.5
    axes: int | None = None
    alpha: bool = False
    with_mask: bool = False

    name = "random_dropout"
    operands = ("x", "seed")

    def types(self, x: TensorType, seed: TensorType) -> Types:
        check_chance(self.name, self.p)
        require_float(self.name, x.dtype)
        check_seed(self.name, seed)
        if self.axes is not None and self.axes > x.rank:
            raise ShapeError(f"{self.name}: {x} has fewer than {self.axes} axes")
        return (TensorType(x.dtype, x.shape), TensorType(BOOL, x.shape))[: 1 + self.with_mask]

    def draws(self, shape: Sequence[int]) -> int:
        return math.prod(shape if self.axes is None else shape[: self.axes])

    def compute(self, x: Array, seed: Array) -> Arrays:
        y, mask = dropped(x, drop_of(self.p, self.alpha), self.draws(x.shape), key_of(seed))
        return (narrow(y, x.dtype), mask)[: 1 + self.with_mask]

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        run = 1 if self.axes is None else math.prod(x.shape[self.axes :])
        yield from dropout_lowering(drop_of(self.p, self.alpha), x, 2, run, int(self.with_mask))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        seed = np.array([7], SEED)
        for p in (0.0, 0.3, 1.0):
            yield Sample(cls(p, with_mask=True), (seeded((3, 1000)), seed))
            yield Sample(cls(p, 2), (seeded((3, 5, 7, 9)), seed))
            yield Sample(cls(p, alpha=True), (seeded((200,)), seed))
        yield Sample(cls(0.5, 0), (seeded((3, 5)), np.array([2**64 - 1], SEED)))
        yield Sample(cls(0.5), (seeded((20000,)), seed))
        yield Sample(cls(0.5), (seeded((0, 3)), seed))
        for dtype in (np.float64, np.float16, "bfloat16"):
            yield Sample(cls(0.4, with_mask=True), (seeded((2, 133), 1, np.dtype(dtype)), seed))


def _decode_dropout(node: Imported) -> Op | Rewired:
    """Up to opset 11 the ratio is an attribute and there is no training mode; the mask is bool from opset 10 on."""
    node.expect("ratio", *(("seed",) if node.opset >= 12 else ()))
    mask = {"with_mask": node.outputs > 1, "mask_like_data": node.opset < 10}
    training = len(node.present) > 2 and node.present[2]
    if node.opset < 12:
        return Rewired(Dropout(**mask), (0,))
    given = (0, 1 if len(node.present) > 1 and node.present[1] else None, 2 if training else None)
    if not training:
        return Rewired(Dropout(**mask), given)
    seed = node.get("seed")
    drawn = FreshSeed() if seed is None else np.array([int(seed) % 2**64], SEED)
    return Rewired(Dropout(**mask), (*given, drawn))


@dataclass(frozen=True)
class Dropout(Op):
    """ONNX's: the data unchanged and, `with_mask`, a mask of ones; in training mode as RandomDropout with p = ratio.

    `mask_like_data` gives the mask the data's type (bool otherwise). The seed is one uint64; only the training mode
    needs it.
    """

    with_mask: bool = False
    mask_like_data: bool = False

    name = "dropout"
    operands = ("data", "ratio?", "training_mode?", "seed?")
    from_onnx = {"Dropout": _decode_dropout}

    def chance(self, ratio: TensorType | None, training: TensorType | None) -> float:
        """The probability to drop; 0 when not training."""
        if training is None or not known(require_kind(self.name, training, "b", "training_mode"), 2).any():
            return 0.0
        p = 0.5 if ratio is None else known(ratio, 1).astype(np.float64).item()
        check_chance(self.name, p)
        return float(p)

    def types(
        self, data: TensorType, ratio: TensorType | None, training: TensorType | None, seed: TensorType | None
    ) -> Types:
        if self.chance(ratio, training) > 0:
            require_float(self.name, data.dtype)
            check_seed(self.name, require(self.name, seed, "seed"))
        mask = TensorType(data.dtype if self.mask_like_data else BOOL, data.shape)
        return (TensorType(data.dtype, data.shape), mask)[: 1 + self.with_mask]

    def compute(self, data: Array, ratio: Array | None, training: Array | None, seed: Array | None) -> Arrays:
        types = self.declared(data, ratio, training, seed)
        kinds = (None if value is None else TensorType.known(value) for value in (ratio, training))
        p = self.chance(*kinds)
        if p == 0:
            return (data.copy(), *(np.ones(mask.shape, mask.dtype) for mask in types[1:]))
        y, mask = dropped(data, drop_of(p, False), data.size, key_of(present(seed)))
        return (narrow(y, data.dtype), *(mask.astype(kind.dtype) for kind in types[1:]))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, ratio, training, seed = (*inputs, None, None, None)[:4]
        p = self.chance(ratio, training)
        if seed is not None and p > 0:
            given = len(inputs)
            yield from dropout_lowering(drop_of(p, False), present(data), given, 1, int(self.with_mask))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Dropout(), (seeded((2, 3)), None, None))
        yield Sample(Dropout(with_mask=True), (seeded((2, 3)), np.array(0.3, np.float32), np.array(False)))
        yield Sample(Dropout(with_mask=True, mask_like_data=True), (seeded((0, 3)),))
        ratio, training = np.array(0, np.float32), np.array(True)
        yield Sample(Dropout(with_mask=True), (seeded((4,)), ratio, training), "training with ratio 0")
        seed = np.array([3], SEED)
        yield Sample(Dropout(with_mask=True), (seeded((9, 33)), None, training, seed), "training")
        inputs = (seeded((9, 33), 1, np.float16), np.array(0.25, np.float32), training, seed)
        yield Sample(Dropout(with_mask=True, mask_like_data=True), inputs, "training in float16")
