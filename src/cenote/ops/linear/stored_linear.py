"""Products with constant weights that are stored in few bits and decoded as they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, TensorType, dtype_named
from cenote.kernels.base import Call, View, constant_of, present
from cenote.kernels.cost_model import peak_seconds, stream_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import summation_tolerance
from cenote.kernels.product.stored import BATCH, BLOCKS, stored_product_call
from cenote.ops.base import Arrays, Lowering, Sample, Types
from cenote.ops.epilogue import Fusible
from cenote.ops.values import narrow, seeded

BITS = {"float16": 16, "bfloat16": 16, "int8": 8, "int4": 4}
# Operations that decode a weight, once for the rows that are computed together.
_DECODING = {"float16": 1, "bfloat16": 2, "int8": 2, "int4": 3}
_SOFTWARE_HALF = 10  # those of float16 where the target has no instruction for it


@dataclass(frozen=True)
class StoredLinear(Fusible):
    """activation(A W' + bias), W stored as float16, bfloat16, int8 or int4.

    A is (…, K) in float32, the weights (N, K), the result (…, N). Integers are multiplied by `scales` (N, K / block,
    rounded up), float32, one for each `block` (32 or 64) weights of a row; floats have none. All but A are constants.
    Sums are in float32: of integers they are infinite where A is larger than 1e34 or so, whatever the scales.
    """

    block: int = 0
    activation: Activation = field(default_factory=Activation)

    name = "stored_linear"
    operands = ("A", "weights", "scales?", "bias?")

    def types(
        self, a: TensorType, weights: TensorType, scales: TensorType | None, bias: TensorType | None
    ) -> Types:
        stored = weights.dtype.name
        if stored not in BITS or a.dtype != FLOAT32 or (bias is not None and bias.dtype != FLOAT32):
            raise DTypeError(
                f"{self.name}: A {a} and bias {bias} must be float32, the weights {weights} one of "
                + ", ".join(BITS)
            )
        if self.block not in (BLOCKS if stored.startswith("int") else (0,)):
            raise ArgumentError(f"{self.name}: blocks of {self.block} are not known for {stored}")
        if weights.rank != 2 or not a.rank or a.shape[-1] != weights.shape[1]:
            raise ShapeError(f"{self.name}: A {a} does not end in the columns of the weights {weights}")
        n, k = weights.shape
        wanted = (n, -(-k // self.block)) if self.block else None
        if (None if scales is None else scales.shape) != wanted:
            raise ShapeError(f"{self.name}: scales {scales} must have shape {wanted} for weights {weights}")
        if bias is not None and bias.shape != (n,):
            raise ShapeError(
                f"{self.name}: bias {bias} must have one number per row of the weights {weights}"
            )
        return (TensorType(FLOAT32, (*a.shape[:-1], n)),)

    def compute(self, a: Array, weights: Array, scales: Array | None, bias: Array | None) -> Arrays:
        wide = decoded(weights, scales, self.block)
        y = a.astype(np.float64) @ wide.T
        return (narrow(self.activation.apply(y if bias is None else y + bias), FLOAT32),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        a, weights, scales, bias = self.arranged(inputs)
        m, (n, k) = math.prod(a.shape[:-1]), weights.shape
        known = all(each is None or each.value is not None for each in (weights, scales))
        if not known or 0 in [extent for extent in (m, n, k) if not is_size(extent)]:
            return

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            added = views[3] if bias is not None else None
            factors = None if scales is None else constant_of(scales)
            how = (m, self.block, self.activation, target)
            return [
                stored_product_call(present(views[0]), constant_of(weights), factors, added, made[0], *how)
            ]

        layouts = (PLAIN, None, None, None if bias is None else PLAIN)[: len(inputs)]
        seconds = stored_seconds((plain(m), n, k), weights.dtype.name, target)
        yield Lowering("stored", layouts, (PLAIN,), bind, seconds, summation_tolerance(k))

    def operations(
        self,
        outputs: Types,
        a: TensorType,
        weights: TensorType,
        scales: TensorType | None,
        bias: TensorType | None,
    ) -> int:
        extra = sum((bias is not None, not self.activation.is_identity))
        return (2 * weights.shape[1] + extra) * outputs[0].size

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        relu = Activation("relu")
        halves = (1, 21, 203, "float16"), (3, 9, 150, "bfloat16")
        bytes_ = (1, 9, 300, "int8"), (6, 5, 131, "int8")
        nibbles = (1, 17, 517, "int4"), (2, 3, 128, "int4"), (5, 6, 40, "int4")
        for m, n, k, stored in (*halves, *bytes_, *nibbles):
            block = 0 if "float" in stored else 64 if k > 256 else 32
            weights, scales = _example((n, k), stored, block)
            bias = seeded((n,), 4) if m > 1 else None
            op = StoredLinear(block, relu if n > 9 else Activation())
            yield Sample(op, (seeded((m, k), 1), weights, scales, bias), f"{stored}, {m} rows")
        weights, scales = _example((7, 96), "int8", 32)
        yield Sample(StoredLinear(32), (seeded((2, 3, 96), 1), weights, scales), "leading axes")
        yield Sample(StoredLinear(32), (seeded((0, 96), 1), weights, scales), "no rows")


def decoded(weights: Array, scales: Array | None, block: int) -> Array:
    """Weights (N, K) as float64."""
    numbers = weights.astype(np.float32).astype(np.float64)
    if scales is None:
        return numbers
    return numbers * np.repeat(scales.astype(np.float64), block, 1)[:, : weights.shape[1]]


def stored_seconds(sizes: tuple[int, int, int], stored: str, target: Target) -> float:
    """Estimate of the time for sizes m, n, k: the slower of reading, and of decoding for each few rows and
    multiplying."""
    m, n, k = sizes
    read = stream_seconds(n * k * BITS[stored] / 8)
    decoding = _SOFTWARE_HALF if stored == "float16" and not target.has_half else _DECODING[stored]
    operations = n * k * (2 * m + decoding * -(-m // BATCH))
    return max(0.95 * read, peak_seconds(operations, target, 0.85))


def _example(shape: tuple[int, int], stored: str, block: int) -> tuple[Array, Array | None]:
    """Weights of a type, every number of it among them, and scales."""
    dtype = dtype_named(stored)
    if not block:
        return seeded(shape, 2).astype(dtype), None
    half = 1 << BITS[stored] - 1
    numbers = np.random.default_rng(2).integers(-half, half, shape).astype(np.int8)
    scales = np.abs(seeded((shape[0], -(-shape[1] // block)), 3)) / np.float32(half)
    return numbers.astype(dtype), scales
