"""Cast, CastLike and BitCast: other element types, with the rules for the 8-bit and smaller floats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, UnsupportedError
from cenote.core.types import BFLOAT16, FLOAT32, Array, TensorType, dtype_named, is_float
from cenote.kernels.base import present
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.ops.base import Arrays, Box, Op, Sample, Types
from cenote.ops.checks import STRING, one_of, read
from cenote.ops.elementwise.pointwise import Function, Pointwise
from cenote.ops.values import narrow, odd_float32, seeded

FLOAT8 = frozenset({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
SCALE8 = "float8_e8m0fnu"  # powers of two, no sign, no zero
ROUND_MODES = ("up", "down", "nearest")
SMALL_INTEGERS: Mapping[str, tuple[int, int]] = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int2": (-2, 1),
    "uint2": (0, 3),
}
SMALL_FLOATS = frozenset({"float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"})  # finite values only


@dataclass(frozen=True)
class Cast(Pointwise):
    """The data in another element type.

    Floats round to nearest even, too large ones become infinite. Floats to integers of 32 and 64 bits truncate, what
    lies outside becomes the nearest end of the type, NaN 0; those to 8 and 16 bits are the low bits of the number as
    int32 (300.0 is 44 as uint8), 0 of what int32 does not hold, which NumPy, torch and onnxruntime give on x86-64.
    Integers wrap around; to bool, everything but zero is true. Strings are read as numbers and written in the
    shortest form that reads back. To an 8-bit float, `saturate` gives the largest finite value where the data is
    larger (else infinity or NaN, whichever the type has); `round_mode` says how to round to the type that holds only
    powers of two.
    """

    dtype: np.dtype[Any]
    saturate: bool = True
    round_mode: str = "up"

    name = "cast"
    operands = ("data",)
    from_onnx = {"Cast": lambda node: read(Cast, node, "saturate", "round_mode", dtype="to")}

    def types(self, data: TensorType) -> Types:
        one_of(self.name, "round_mode", self.round_mode, ROUND_MODES)
        check_castable(self.name, data.dtype, self.dtype)
        return (TensorType(self.dtype, data.shape),)

    def folds_late(self, inputs: Sequence[TensorType | None]) -> bool:
        """16-bit matrices in float32: products may read them as they are."""
        (data,) = self.arranged(inputs)
        half = is_float(data.dtype) and data.dtype.itemsize == 2
        return half and self.dtype == FLOAT32 and data.rank >= 2

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        return cast_to(self.dtype)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return 0 if inputs[0] is not None and inputs[0].dtype == self.dtype else None

    def compute(self, data: Array) -> Arrays:
        return (converted(data, self.dtype, self.saturate, self.round_mode),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        special = np.array([0.0, -0.0, 1.5, -2.5, 65519.0, 65520.0, 1e-8, 3e38, np.inf, -np.inf, np.nan])
        for name in ("float16", "float32", "float64", "bool"):
            yield Sample(Cast(np.dtype(name)), (special,), f"float64 to {name}")
            yield Sample(Cast(np.dtype(name)), (special.astype(np.float32),), f"float32 to {name}")
        for name in ("bfloat16", *sorted(FLOAT8)):
            yield Sample(Cast(dtype_named(name)), (special.astype(np.float32),), f"to {name}")
        for name in ("int8", "uint8", "int32", "float16", "float64", "bool"):
            integers = (np.array([[-129, 0, 127], [300, -1, 128]], np.int64),)
            yield Sample(Cast(np.dtype(name)), integers, f"int64 to {name}")
            yield Sample(Cast(np.dtype(name)), (seeded((2, 3), dtype=np.bool_),), f"bool to {name}")
        yield Sample(Cast(np.dtype(np.int32)), (np.array([2.9, -2.9, 0.5, -0.5], np.float32),), "truncates")
        yield Sample(Cast(np.dtype(np.int64)), (seeded((0, 3)),), "empty")
        yield Sample(Cast(np.dtype(np.int8)), (np.array(-300.5, np.float32),), "without axes")
        numbers = np.array([*special, -1.0, 300.0, -129.9, 3e9, -3e9, 2.0**31, -(2.0**31), 2.0**63, -1e300])
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
            yield Sample(Cast(np.dtype(name)), (numbers,), f"float64 to {name}")
            yield Sample(Cast(np.dtype(name)), (numbers.astype(np.float32),), f"float32 to {name}")
        halves = (1.0 + 2.0**-8 + 2.0**-40, 1.0 + 2.0**-11 + 2.0**-40, 1e39, 65519.9999999, 3e-8)
        for target in (np.float16, BFLOAT16):
            yield Sample(Cast(np.dtype(target)), (np.array(halves * 5),), "one rounding")
            for source in (np.float16, BFLOAT16, np.int8, np.uint16, np.int32, np.uint64, np.bool_):
                yield Sample(Cast(np.dtype(target)), (seeded((3, 41), 1, np.dtype(source)),))
                yield Sample(Cast(np.dtype(source)), (seeded((3, 41), 1, np.dtype(target)),))


@dataclass(frozen=True)
class CastLike(Pointwise):
    """The data in the element type of a second input, whose content does not matter. Rules as in Cast."""

    saturate: bool = True
    round_mode: str = "up"

    name = "cast_like"
    operands = ("data", "target")
    from_onnx = {"CastLike": lambda node: read(CastLike, node, "saturate", "round_mode")}

    def types(self, data: TensorType, target: TensorType) -> Types:
        one_of(self.name, "round_mode", self.round_mode, ROUND_MODES)
        check_castable(self.name, data.dtype, target.dtype)
        return (TensorType(target.dtype, data.shape),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        return cast_to(present(inputs[1]).dtype)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        return (box, Box.whole(present(inputs[1]).shape))

    def compute(self, data: Array, target: Array) -> Arrays:
        return (converted(data, target.dtype, self.saturate, self.round_mode),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(CastLike(), (seeded((2, 3)), seeded((1,), dtype=np.float16)))
        yield Sample(CastLike(), (seeded((), dtype=np.int64), seeded((0,), dtype=np.float64)))


@dataclass(frozen=True)
class BitCast(Op):
    """The same bits read as another element type of the same width."""

    dtype: np.dtype[Any]

    name = "bit_cast"
    operands = ("data",)
    from_onnx = {"BitCast": lambda node: read(BitCast, node, dtype="to")}

    def types(self, data: TensorType) -> Types:
        for dtype in (data.dtype, self.dtype):
            if dtype == STRING or dtype.name in SMALL_INTEGERS or dtype.name in SMALL_FLOATS:
                raise UnsupportedError(f"{self.name}: type {dtype} is not supported (whole bytes are)")
        if data.dtype.itemsize != self.dtype.itemsize:
            raise DTypeError(f"{self.name}: {data.dtype} and {self.dtype} differ in width; use Cast")
        return (TensorType(self.dtype, data.shape),)

    def compute(self, data: Array) -> Arrays:
        if self.dtype == np.bool_:  # a byte other than 0 and 1 is no bool in NumPy
            return (data.view(np.uint8) != 0,)
        return (np.ascontiguousarray(data).view(self.dtype).reshape(data.shape),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(BitCast(np.dtype(np.int32)), (seeded((2, 3)),))
        yield Sample(BitCast(np.dtype(np.float64)), (seeded((), dtype=np.int64),))
        yield Sample(BitCast(np.dtype(np.int8)), (seeded((0, 2), dtype=np.uint8),))


def cast_to(dtype: np.dtype[Any]) -> Function:
    """The conversion of operand 0, for types that kernels know."""
    return Function(Expression(1, (Step("cast", (0,), dtype),)), exact=True)


def check_castable(op: str, source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse pairs of types without a rule."""
    if "c" in (source.kind, target.kind) and source != target:
        raise UnsupportedError(
            f"{op}: {source} to {target} is not supported; complex types are not converted"
        )


def converted(data: Array, dtype: np.dtype[Any], saturate: bool = True, round_mode: str = "up") -> Array:
    """The data in another type by ONNX's rules."""
    if isinstance(data, SizedArray):
        return _sizes(data, dtype)
    if data.dtype == dtype:
        return data.copy()
    if data.dtype == STRING:
        data = _numbers(data, dtype)
    if dtype == STRING:
        return _texts(data)
    if dtype == np.bool_:
        return np.not_equal(_as_standard(data), 0)
    if dtype.name == SCALE8:
        return powers_of_two(data.astype(np.float32), saturate, round_mode).astype(dtype)
    if dtype.name in FLOAT8 or dtype.name in SMALL_FLOATS:
        return _small_float(data, dtype, saturate)
    if dtype.name in SMALL_INTEGERS:
        low, high = SMALL_INTEGERS[dtype.name]
        values = _as_standard(data).astype(np.int64)
        return ((values - low) % (high - low + 1) + low).astype(np.int8).astype(dtype)
    data = _as_standard(data)
    if data.dtype.kind == "f" and dtype.kind in "iu":
        return _whole_numbers(data, dtype)
    if dtype == BFLOAT16 and data.dtype.kind in "iu" and data.dtype.itemsize > 2:
        return np.asarray(odd_float32(data.astype(np.float64)).astype(dtype))
    return narrow(data, dtype)


def _whole_numbers(data: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers: see Cast."""
    held = np.dtype(np.int32) if dtype.itemsize < 4 else dtype
    limits = np.iinfo(held)
    values = np.nan_to_num(np.trunc(data.astype(np.float64)), nan=0.0)
    if held != dtype:
        values = np.where(np.abs(values) > limits.max, 0.0, values)
    above, below = values >= float(limits.max), values <= float(limits.min)
    inside = np.where(above | below, 0.0, values).astype(held)
    whole = np.where(above, limits.max, np.where(below, limits.min, inside)).astype(held)
    return np.asarray(whole.astype(dtype))


def _sizes(data: SizedArray, dtype: np.dtype[Any]) -> Array:
    """Whole numbers made of Sizes in another type of whole numbers that holds them as they are."""
    if data.kind.kind not in "iu" or dtype.kind not in "iu":
        raise TypeError(f"sizes as {dtype} are computed when they are numbers")
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if not all(low <= item <= high for item in data.reshape(-1)):
        raise TypeError(f"sizes beyond {dtype} wrap around when they are numbers")
    return data.copy()


def _as_standard(data: Array) -> Array:
    """Types of ml_dtypes as the NumPy type that holds all their values: not all pairs convert directly."""
    if data.dtype.name in SMALL_INTEGERS:
        return data.astype(np.int8)
    return data.astype(np.float32) if data.dtype.kind == "V" or data.dtype.name.startswith("float8") else data


def _small_float(data: Array, dtype: np.dtype[Any], saturate: bool) -> Array:
    """Round to nearest even, then deal with what is too large. Small floats have no room for infinity."""
    import ml_dtypes  # there, as the type is

    values = _as_standard(data)
    values = values.astype(np.float64 if values.dtype.kind in "iub" or is_float(values.dtype) else np.float32)
    largest = float(ml_dtypes.finfo(dtype).max)
    if saturate or dtype.name in SMALL_FLOATS:
        values = np.clip(values, -largest, largest)  # keeps NaN
    return np.asarray(odd_float32(values).astype(dtype))


def powers_of_two(values: Array, saturate: bool, round_mode: str) -> Array:
    """float32 values as float32 powers of two 2**-127 to 2**127, NaN where there is none."""
    mantissa, exponent = np.frexp(np.abs(values).astype(np.float64))  # 0.5 <= mantissa < 1
    floor = exponent - 1.0
    if round_mode == "up":
        power = np.where(mantissa > 0.5, floor + 1, floor)
    elif round_mode == "down":
        power = floor
    else:
        power = np.where(mantissa >= 0.75, floor + 1, floor)
    power = np.where(values == 0, -np.inf, np.where(np.isinf(values), np.inf, power))
    if saturate:
        power = np.clip(power, -127, 127)
    result = np.where((power < -127) | (power > 127), np.nan, np.exp2(power))
    return np.where(np.isnan(values), np.nan, result).astype(np.float32)


def _numbers(data: Array, dtype: np.dtype[Any]) -> Array:
    """Strings as numbers: Python's reading covers inf and nan in any case."""
    whole = dtype.kind in "iu" or dtype.name in SMALL_INTEGERS
    try:
        numbers = [int(float(text)) if whole else float(text) for text in data.reshape(-1).tolist()]
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"cast: a string is not a number ({error})") from None
    return np.array(numbers, np.int64 if whole else np.float64).reshape(data.shape)


def _texts(data: Array) -> Array:
    """Numbers as strings, the shortest that read back the same; infinities as ONNX spells them."""
    values = data.astype(np.float32) if data.dtype.kind == "V" else data
    spelled = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
    texts = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        text = str(values[place])
        texts[place] = spelled.get(text, text)
    return texts
