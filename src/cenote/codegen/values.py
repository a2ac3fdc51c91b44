"""Values of generated code: typed scalars and vectors that overload Python's operators, and typed pointers.

An operator on values appends one LLVM instruction to the kernel being built. Constants fold here, so a kernel may
write `offset + 0` or `stride * 1` at no cost.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import BFLOAT16

Number = int | float


@dataclass(frozen=True)
class Scalar:
    """Element type of generated code. `kind` is "float", "int", "uint" or "bool"; `ir` the LLVM name."""

    name: str
    kind: str
    bits: int
    ir: str

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def nbytes(self) -> int:
        return max(1, self.bits // 8)

    def vector(self, lanes: int) -> str:
        """LLVM name of the type with so many lanes (1: the scalar itself)."""
        return self.ir if lanes == 1 else f"<{lanes} x {self.ir}>"

    def literal(self, value: Number) -> str:
        """An LLVM constant."""
        if not self.is_float:
            return ("true" if value else "false") if self.bits == 1 else str(int(value))
        if self.bits == 16:
            half = int(np.asarray(value, np.float16 if self is F16 else BFLOAT16).view(np.uint16))
            return f"0xH{half:04X}" if self is F16 else str(half)
        wide = (
            struct.unpack("<f", struct.pack("<f", _to_float32(value)))[0] if self.bits == 32 else float(value)
        )
        return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"

    @staticmethod
    def named(name: str) -> Scalar:
        """Return the scalar type called "f32", "bf16", "u8" …"""
        return next(scalar for scalar in _BY_DTYPE.values() if scalar.name == name)

    @staticmethod
    def of(dtype: Any) -> Scalar:
        """Return the scalar type of a NumPy dtype."""
        return _BY_DTYPE[np.dtype(dtype)]


def _to_float32(value: Number) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


F64 = Scalar("f64", "float", 64, "double")
F32 = Scalar("f32", "float", 32, "float")
F16 = Scalar("f16", "float", 16, "half")
BF16 = Scalar("bf16", "float", 16, "i16")  # only stored and converted: no target computes in it
I64, I32, I16, I8 = (Scalar(f"i{bits}", "int", bits, f"i{bits}") for bits in (64, 32, 16, 8))
U64, U32, U16, U8 = (Scalar(f"u{bits}", "uint", bits, f"i{bits}") for bits in (64, 32, 16, 8))
BOOL = Scalar("bool", "bool", 1, "i1")

_BY_DTYPE: dict[np.dtype[Any], Scalar] = {
    np.dtype(dtype): scalar
    for dtype, scalar in (
        (np.float64, F64),
        (np.float32, F32),
        (np.float16, F16),
        (BFLOAT16, BF16),
        (np.int64, I64),
        (np.int32, I32),
        (np.int16, I16),
        (np.int8, I8),
        (np.uint64, U64),
        (np.uint32, U32),
        (np.uint16, U16),
        (np.uint8, U8),
        (np.bool_, U8),  # NumPy keeps a bool in a byte
    )
}


class Emitter(Protocol):
    """Protocol of the kernel that a value belongs to: it appends instructions."""

    target: Target

    def assign(self, text: str, type: Scalar, lanes: int) -> Value: ...
    def constant(self, type: Scalar, value: Number, lanes: int = 1) -> Value: ...
    def splat(self, value: Value, lanes: int) -> Value: ...
    def select(self, condition: Value, a: Value, b: Value) -> Value: ...
    def convert_half(self, value: Value, type: Scalar) -> Value: ...
    def absolute(self, a: Value) -> Value: ...
    def square_root(self, a: Value) -> Value: ...
    def maximum(self, a: Value, b: Value) -> Value: ...
    def minimum(self, a: Value, b: Value) -> Value: ...
    def max_drop_nan(self, a: Value, b: Value) -> Value: ...
    def min_drop_nan(self, a: Value, b: Value) -> Value: ...
    def load(self, pointer: Pointer, lanes: int, mask: Value | None = None) -> Value: ...
    def store(self, value: Value, pointer: Pointer, mask: Value | None = None) -> None: ...


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar (`lanes == 1`) or vector in generated code; `constant` is its content when known now."""

    kernel: Emitter
    type: Scalar
    lanes: int
    text: str
    constant: Number | None = None

    @property
    def ir(self) -> str:
        """LLVM type."""
        return self.type.vector(self.lanes)

    def __bool__(self) -> bool:
        raise TypeError(
            "a value of generated code is not known yet: use k.select or k.when instead of if, and, or"
        )

    # ---- arithmetic -------------------------------------------------------------------------------------------

    def paired(self, other: Value | Number) -> tuple[Value, Value]:
        """Both operands with the same lanes: a number becomes a constant, a scalar a splat."""
        right = other if isinstance(other, Value) else self.kernel.constant(self.type, other, self.lanes)
        if right.type is not self.type:
            raise TypeError(f"operands {self.type.name} and {right.type.name} differ; convert one with .to()")
        lanes = max(self.lanes, right.lanes)
        return self.kernel.splat(self, lanes), self.kernel.splat(right, lanes)

    def _arithmetic(
        self, other: Value | Number, opcodes: dict[str, str], fold: Callable[[Any, Any], Any]
    ) -> Value:
        left, right = self.paired(other)
        if self.type.kind not in opcodes:
            raise TypeError(f"this operator takes {' or '.join(opcodes)} operands, not {self.type.name}")
        if left.constant is not None and right.constant is not None and not self.type.is_float:
            return self.kernel.constant(self.type, fold(left.constant, right.constant), left.lanes)
        opcode = opcodes[self.type.kind]
        return self.kernel.assign(f"{opcode} {left.ir} {left.text}, {right.text}", left.type, left.lanes)

    def __add__(self, other: Value | Number) -> Value:
        if not self.type.is_float and _is_constant(other, 0):
            return self
        if (
            isinstance(other, Value)
            and not self.type.is_float
            and self.constant == 0
            and other.lanes >= self.lanes
        ):
            return other
        return self._arithmetic(other, {"float": "fadd", "int": "add", "uint": "add"}, operator.add)

    def __radd__(self, other: Number) -> Value:
        return self + other

    def __sub__(self, other: Value | Number) -> Value:
        if not self.type.is_float and _is_constant(other, 0):
            return self
        return self._arithmetic(other, {"float": "fsub", "int": "sub", "uint": "sub"}, operator.sub)

    def __rsub__(self, other: Number) -> Value:
        return self.kernel.constant(self.type, other, self.lanes) - self

    def __mul__(self, other: Value | Number) -> Value:
        if not self.type.is_float and _is_constant(other, 1):
            return self
        if (
            isinstance(other, Value)
            and not self.type.is_float
            and self.constant == 1
            and other.lanes >= self.lanes
        ):
            return other
        return self._arithmetic(other, {"float": "fmul", "int": "mul", "uint": "mul"}, operator.mul)

    def __rmul__(self, other: Number) -> Value:
        return self * other

    def __truediv__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"float": "fdiv"}, operator.truediv)

    def __rtruediv__(self, other: Number) -> Value:
        return self.kernel.constant(self.type, other, self.lanes) / self

    def __floordiv__(self, other: Value | Number) -> Value:
        """Divide integers, toward zero; division by zero is undefined: check before."""
        if _is_constant(other, 1):
            return self
        return self._arithmetic(other, {"int": "sdiv", "uint": "udiv"}, _quotient)

    def __mod__(self, other: Value | Number) -> Value:
        """Remainder of `//`, with the sign of the left operand."""
        if _is_constant(other, 1):
            return self.kernel.constant(self.type, 0, self.lanes)
        return self._arithmetic(other, {"int": "srem", "uint": "urem"}, lambda a, b: a - b * _quotient(a, b))

    def __and__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"int": "and", "uint": "and", "bool": "and"}, operator.and_)

    def __or__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"int": "or", "uint": "or", "bool": "or"}, operator.or_)

    def __xor__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"int": "xor", "uint": "xor", "bool": "xor"}, operator.xor)

    def __lshift__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"int": "shl", "uint": "shl"}, operator.lshift)

    def __rshift__(self, other: Value | Number) -> Value:
        return self._arithmetic(other, {"int": "ashr", "uint": "lshr"}, operator.rshift)

    def __invert__(self) -> Value:
        ones = self.kernel.constant(self.type, 1 if self.type is BOOL else -1, self.lanes)
        return self ^ ones

    def __neg__(self) -> Value:
        if self.type.is_float:
            return self.kernel.assign(f"fneg {self.ir} {self.text}", self.type, self.lanes)
        return 0 - self

    # ---- comparison: gives BOOL lanes; every comparison with NaN is false, except != --------------------------

    def _compare(self, other: Value | Number, code: str, fold: Callable[[Any, Any], bool]) -> Value:
        left, right = self.paired(other)
        if left.constant is not None and right.constant is not None:
            return self.kernel.constant(BOOL, int(fold(left.constant, right.constant)), left.lanes)
        if self.type.is_float:
            prefix = "une" if code == "ne" else "o" + code
            text = f"fcmp {prefix} {left.ir} {left.text}, {right.text}"
        else:
            sign = "" if code in ("eq", "ne") else ("s" if self.type.kind == "int" else "u")
            text = f"icmp {sign}{code} {left.ir} {left.text}, {right.text}"
        return self.kernel.assign(text, BOOL, left.lanes)

    def __lt__(self, other: Value | Number) -> Value:
        return self._compare(other, "lt", operator.lt)

    def __le__(self, other: Value | Number) -> Value:
        return self._compare(other, "le", operator.le)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compare(other, "gt", operator.gt)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compare(other, "ge", operator.ge)

    def equals(self, other: Value | Number) -> Value:
        return self._compare(other, "eq", operator.eq)

    def differs(self, other: Value | Number) -> Value:
        return self._compare(other, "ne", operator.ne)

    def is_nan(self) -> Value:
        return self.kernel.assign(f"fcmp uno {self.ir} {self.text}, {self.text}", BOOL, self.lanes)

    # ---- conversion -------------------------------------------------------------------------------------------

    def to(self, type: Scalar) -> Value:
        """Convert the number (floats to integers toward zero, undefined out of range)."""
        from_, lanes, kernel = self.type, self.lanes, self.kernel
        if from_ is type:
            return self
        if self.constant is not None and not from_.is_float:
            return kernel.constant(type, self.constant, lanes)
        if BF16 in (from_, type) or (F16 in (from_, type) and not kernel.target.has_half):
            return kernel.convert_half(self, type)
        if F16 in (from_, type) and F32 not in (from_, type):
            return self.to(F32).to(type)  # the hardware converts float16 to and from float32 only
        return kernel.assign(
            f"{_conversion(from_, type)} {self.ir} {self.text} to {type.vector(lanes)}", type, lanes
        )

    def bits(self, type: Scalar) -> Value:
        """Reinterpret the bits as another type of the same size."""
        if self.type.ir == type.ir:
            return Value(self.kernel, type, self.lanes, self.text, self.constant)
        return self.kernel.assign(
            f"bitcast {self.ir} {self.text} to {type.vector(self.lanes)}", type, self.lanes
        )

    def lane(self, index: int) -> Value:
        """Return one lane of a vector."""
        return self.kernel.assign(f"extractelement {self.ir} {self.text}, i32 {index}", self.type, 1)


def _conversion(from_: Scalar, type: Scalar) -> str:
    """Return the LLVM instruction that converts between two types, neither emulated."""
    if from_.is_float and type.is_float:
        return "fpext" if type.bits > from_.bits else "fptrunc"
    if from_.is_float:
        return "fptosi" if type.kind == "int" else "fptoui"
    if type.is_float:
        return "sitofp" if from_.kind == "int" else "uitofp"
    if type.bits == from_.bits:
        return "bitcast"
    if type.bits < from_.bits:
        return "trunc"
    return "sext" if from_.kind == "int" else "zext"


def _is_constant(value: Value | Number, number: Number) -> bool:
    return (value.constant if isinstance(value, Value) else value) == number


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


@dataclass(frozen=True, eq=False)
class Pointer:
    """Address with an element type. Offsets count elements and may be numbers or i64 values."""

    kernel: Emitter
    element: Scalar
    text: str

    def __add__(self, offset: Value | int) -> Pointer:
        if _is_constant(offset, 0):
            return self
        return self._moved("getelementptr inbounds", offset)

    def offset_unchecked(self, offset: Value | int) -> Pointer:
        """Add like +, but the address may leave the memory that this one belongs to; outside nothing may be read or
        written."""
        return self if _is_constant(offset, 0) else self._moved("getelementptr", offset)

    def _moved(self, instruction: str, offset: Value | int) -> Pointer:
        index = offset.text if isinstance(offset, Value) else str(offset)
        moved = self.kernel.assign(f"{instruction} {self.element.ir}, ptr {self.text}, i64 {index}", I64, 1)
        return Pointer(self.kernel, self.element, moved.text)

    def cast(self, element: Scalar) -> Pointer:
        """Return the same address with another element type."""
        return Pointer(self.kernel, element, self.text)

    def load(self, offset: Value | int = 0, lanes: int = 1, mask: Value | None = None) -> Value:
        """Load `lanes` consecutive elements; lanes outside the mask are not read and become zero."""
        return self.kernel.load(self + offset, lanes, mask)

    def store(self, value: Value, offset: Value | int = 0, mask: Value | None = None) -> None:
        """Write the value's lanes to consecutive elements; lanes outside the mask are not written."""
        self.kernel.store(value, self + offset, mask)

    def broadcast(self, offset: Value | int, lanes: int) -> Value:
        """Load one element into every lane."""
        return self.kernel.splat(self.load(offset), lanes)


def index_vector(indices: Sequence[int]) -> str:
    """Return the LLVM constant for a shuffle's lane numbers (-1: any)."""
    inner = ", ".join("i32 poison" if index < 0 else f"i32 {index}" for index in indices)
    return f"<{len(indices)} x i32> <{inner}>"
