"""Readers that operators share: attributes of nodes, content of constant inputs, checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.conv_geometry import pairs_from_onnx
from cenote.core.errors import ArgumentError, DTypeError, ModelError, ShapeError, UnsupportedError
from cenote.core.options import ACCUMULATIONS
from cenote.core.sizes import is_size, whole
from cenote.core.text import split_words
from cenote.core.types import INT64, Array, TensorType, dtype_named, is_float
from cenote.ops.base import Imported, Op, ValueNeeded

# In the order of ONNX's TensorProto.DataType, whose 0 is "undefined"; "object" holds strings.
_DTYPE_NAMES = (
    "",
    *split_words(
        "float32 uint8 int8 uint16 int16 int32 int64 object bool float16 float64 uint32 uint64",
        "complex64 complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
        "uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 float6_e2m3fn float6_e3m2fn",
    ),
)

STRING = np.dtype(object)
_MOST_AXES = 32  # that NumPy broadcasts
BOOL = np.dtype(np.bool_)
# Annotations of fields that `read` takes from attributes, besides tuples.
_READ = ("bool", "int", "float", "str", "Pairs", "np.dtype[Any]")
INDEX_TYPES = ("int32", "int64")
O = TypeVar("O", bound=Op)


def read(
    op: type[O], node: Imported, *same: str, ignored: Sequence[str] = (), counted: str = "", **renamed: str
) -> O:
    """The operator whose fields are attributes of the node, each in the field's type.

    `same` are fields with their attribute's name, `renamed` gives the attribute of other fields, `counted` is the field
    that gets the number of outputs, `ignored` are attributes that change no result. A field whose attribute is absent
    keeps its default; without one that is an ArgumentError. Attributes that are not named are refused, those of another
    opset have been refused by the front end.
    """
    attribute_of = {**{name: name for name in same}, **renamed}
    node.expect(*attribute_of.values(), *ignored)
    field_of = {item.name: item for item in fields(op)}  # type: ignore[arg-type]  # every operator is a dataclass
    values: dict[str, Any] = {counted: node.outputs} if counted else {}
    for name, attribute in attribute_of.items():
        if node.get(attribute) is not None:
            values[name] = _as_type(_annotation(op, name, field_of[name].type), op.name, node, attribute)
        elif field_of[name].default is MISSING:
            raise ArgumentError(f"{node.op}-{node.opset}: attribute {attribute} is missing")
    return op(**values)


def _annotation(op: type[Op], name: str, given: object) -> str:
    """Return the annotation of a field as it is written, also in a module whose annotations are evaluated. Raises
    ArgumentError for one that no attribute gives."""
    kind = (
        given
        if isinstance(given, str)
        else getattr(given, "__name__", "")
        if type(given) is type
        else str(given)
    )
    kind = kind.replace("numpy.dtype[typing.Any]", "np.dtype[Any]")
    if kind.partition(" | None")[0] in _READ or kind.startswith(
        ("tuple[int, ", "tuple[float, ", "tuple[str, ")
    ):
        return kind
    raise ArgumentError(
        f"{op.name}: the field {name} is of the type {kind}; an attribute gives {', '.join(_READ)}, tuples of int, "
        "float or str; write a decoder for another"
    )


def _as_type(kind: str, op: str, node: Imported, attribute: str) -> Any:
    """An attribute that is there as the type that a field is annotated with."""
    value = node.get(attribute)
    kind, optional, _ = kind.partition(" | None")
    if kind == "bool":
        return node.flag(attribute)
    if kind.startswith("tuple[int, "):
        return as_ints(op, attribute, value)
    if kind.startswith("tuple[float, "):
        return tuple(float(item) for item in value)
    if kind.startswith("tuple[str, "):
        return tuple(str(item) for item in value)
    if kind == "Pairs":
        return pairs_from_onnx(op, value)
    if kind == "np.dtype[Any]":
        return None if optional and not value else dtype_from_code(op, int(value))
    return {"int": int, "float": float, "str": str}[kind](value)


def dtype_from_code(op: str, code: int) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) type of an ONNX element type; UnsupportedError for an unknown code."""
    name = _DTYPE_NAMES[code] if 0 < code < len(_DTYPE_NAMES) else "unknown"
    try:
        dtype = dtype_named(name)
    except TypeError:
        raise UnsupportedError(f"{op}: element type {code} ({name}) is not supported") from None
    return dtype


def known(x: TensorType, index: int) -> Array:
    """The content of input `index`; ValueNeeded when it is only known at run time."""
    if x.value is None:
        raise ValueNeeded(index)
    return x.value


def known_ints(op: str, x: TensorType, index: int, what: str) -> tuple[int, ...]:
    """The content of an integer input of rank 0 or 1."""
    require_kind(op, x, "iu", what)
    if x.rank > 1:
        raise ShapeError(f"{op}: '{what}' must be a list of integers, got {x}")
    return tuple(whole(item) for item in known(x, index).reshape(-1))


def known_int(op: str, x: TensorType, index: int, what: str) -> int:
    """The content of an integer input with one element."""
    values = known_ints(op, x, index, what) if x.size == 1 else ()
    if len(values) != 1:
        raise ShapeError(f"{op}: '{what}' must hold one integer, got {x}")
    return values[0]


def require_kind(op: str, x: TensorType, kinds: str, what: str) -> TensorType:
    """Refuse element types other than some kinds: i, u, b as NumPy has them, f for floats, c for complex."""
    kind = "f" if is_float(x.dtype) else x.dtype.kind
    if kind not in kinds:
        names = {
            "i": "integer",
            "u": "unsigned integer",
            "b": "bool",
            "f": "float",
            "c": "complex",
            "O": "string",
        }
        raise DTypeError(
            f"{op}: '{what}' has type {x.dtype}, expected {', '.join(names[k] for k in kinds)}; cast it"
        )
    return x


def require_index(op: str, x: TensorType, what: str = "indices") -> TensorType:
    """Refuse types other than int32 and int64. Raises DTypeError."""
    if x.dtype.name not in INDEX_TYPES:
        raise DTypeError(f"{op}: '{what}' has type {x.dtype}, expected int32 or int64; cast it")
    return x


def broadcast_shapes(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's multidirectional broadcasting, with Cenote's error."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for axis in range(-rank, 0):
        extent = 1
        for other in (shape[axis] for shape in shapes if len(shape) >= -axis):
            if _is_one(extent) or (not _is_one(other) and other != extent and extent == 1):
                extent = other
            elif not (_is_one(other) or other == extent or other == 1):
                shown = " and ".join(str(list(shape)) for shape in shapes)
                raise ShapeError(
                    f"{op}: shapes {shown} do not broadcast (at most {_MOST_AXES} axes, each equal or 1)"
                )
        result.append(extent)
    if rank > _MOST_AXES:
        raise ShapeError(f"{op}: {rank} axes do not broadcast (at most {_MOST_AXES} axes, each equal or 1)")
    return tuple(result)


def _is_one(extent: int) -> bool:
    """Whether an extent is known to be 1; a Size is not."""
    return not is_size(extent) and extent == 1


def normalize_axis(op: str, axis: int, rank: int) -> int:
    """A possibly negative axis as 0..rank-1. A plan for all sizes is one for this axis where a model computes it."""
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{op}: axis {axis} is out of range for rank {rank} (allowed: {-rank} to {rank - 1})"
        )
    return axis % rank


def require(op: str, x: TensorType | None, what: str) -> TensorType:
    """The type of an input that must be there."""
    if x is None:
        raise ShapeError(f"{op}: input '{what}' is missing")
    return x


def require_same_dtype(op: str, *inputs: TensorType | None) -> np.dtype[Any]:
    """The one dtype of all inputs that are there."""
    dtypes = {x.dtype for x in inputs if x is not None}
    if len(dtypes) != 1:
        raise DTypeError(
            f"{op}: inputs have different types ({', '.join(sorted(map(str, dtypes)))}); cast them first"
        )
    return dtypes.pop()


def require_number(op: str, dtype: np.dtype[Any]) -> None:
    """Refuse everything but floats and integers."""
    if not is_float(dtype) and dtype.kind not in "iu":
        raise DTypeError(f"{op}: type {dtype} is not a number type; cast the input to one first")


def require_float(op: str, dtype: np.dtype[Any]) -> None:
    """Refuse everything but float64, float32, float16 and bfloat16."""
    if not is_float(dtype):
        raise DTypeError(f"{op}: type {dtype} is not a float type; cast the input to float32 first")


def unique_axes(op: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes as 0..rank-1 in the order given; ArgumentError for one given twice."""
    result = tuple(normalize_axis(op, axis, rank) for axis in axes)
    if len(set(result)) != len(result):
        raise ArgumentError(f"{op}: axes {list(axes)} name an axis of rank {rank} twice")
    return result


def one_of(op: str, what: str, value: str, allowed: Sequence[str]) -> str:
    """Refuse an attribute value other than those known."""
    if value not in allowed:
        raise ArgumentError(f"{op}: {what} '{value}' is not known (known: {', '.join(allowed)})")
    return value


def check_accumulate(op: str, accumulate: str | None, dtype: np.dtype[Any]) -> None:
    """Refuse unknown types of sums, and any but None for sums of integers. Raises ArgumentError."""
    if accumulate is None:
        return
    one_of(op, "accumulate", accumulate, ACCUMULATIONS)
    if not is_float(dtype):
        raise DTypeError(
            f"{op}: accumulate='{accumulate}' is for floats, the input is {dtype.name}, whose sums are whole numbers; "
            "leave it None, or cast the input"
        )


def checked_indices(op: str, indices: Array, extent: int) -> Array:
    """Indices counted from the end made positive; ArgumentError for one outside the axis."""
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        worst = indices.min() if indices.min() < -extent else indices.max()
        allowed = f"{-extent} to {extent - 1}" if extent else "none"
        raise ArgumentError(f"{op}: index {worst} is outside an axis of {extent} (allowed: {allowed})")
    return np.where(indices < 0, indices + extent, indices).astype(np.int64)


def as_ints(op: str, what: str, value: Any) -> tuple[int, ...]:
    """An attribute that must be a list of integers."""
    if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
        raise ModelError(f"{op}: attribute {what} must be a list of integers, got {value!r}")
    return value


def int64s(values: Sequence[int]) -> Array:
    """A list of integers as the constant a decoder hands to an operator."""
    return SizedArray.of(values, INT64) if any(map(is_size, values)) else np.array(values, np.int64)
