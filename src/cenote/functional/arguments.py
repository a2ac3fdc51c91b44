"""Reads what callers pass: numbers per axis, padding in all its forms, layouts, the rules of a framework. Every error
names the argument; `dispatch.raise_named` puts the name of the function before it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, ShapeError, shown
from cenote.core.limits import LARGEST_SEED, within
from cenote.core.options import ACCUMULATIONS
from cenote.core.pool_geometry import Pairs
from cenote.core.types import Array, TensorType, native_dtype
from cenote.functional.types import Numbers, Padding
from cenote.ops.base import Op
from cenote.ops.checks import check_accumulate
from cenote.runtime.arrays import Restore, as_numpy, same

HERE = ""
"""The name of the function, for checks that begin errors with it: `dispatch.raise_named` says which function it is."""
LETTERS = {1: "L", 2: "HW", 3: "DHW"}
SAME = {"same": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


# ---- frameworks: docs/pooling_semantics.md tabulates their rules ----------------------------------------------------


@dataclass(frozen=True)
class Semantics:
    """One framework's rules.

    always_ceil        output sizes are rounded up whatever ceil_mode says
    drop               which last windows ceil_mode drops: see pool_geometry.DROP_RULES
    stride             default stride: "window" or "one"
    pad_limit          most padding: "half" of the window's reach, less than the "window" (undilated), or
                       less than its "reach"
    include_pad        default of count_include_pad
    index              default of what indices count: "plane" (D H W), "tensor" (N C D H W), "nhwc" ((y W +
                       x) C + c)
    nan                "propagate" or "ignore"
    rounding           integer averages: "zero" (truncate), "even" (nearest, ties to even), "away"
                       (nearest, ties away from zero)
    signed_powers      Lp pools sum x^p, not |x|^p, and scale windows that overhang as if they were full
    """

    name: str
    always_ceil: bool = False
    drop: str = "always"
    stride: str = "window"
    pad_limit: str = "reach"
    include_pad: bool = False
    index: str = "plane"
    nan: str = "propagate"
    rounding: str = "even"
    signed_powers: bool = False


TORCH = Semantics("torch", pad_limit="half", include_pad=True, rounding="zero", signed_powers=True)
ONNX = Semantics("onnx", stride="one", index="tensor")
TENSORFLOW = Semantics("tensorflow", index="nhwc", nan="ignore", rounding="away")
TENSORRT = Semantics("tensorrt", drop="never", stride="one")
CAFFE = Semantics(
    "caffe",
    always_ceil=True,
    drop="padded",
    stride="one",
    pad_limit="window",
    include_pad=True,
    nan="ignore",
)

SEMANTICS = {rules.name: rules for rules in (TORCH, ONNX, TENSORFLOW, TENSORRT, CAFFE)}


def semantics_named(name: str, value: object) -> Semantics:
    """The rules of a framework; ArgumentError where there are none."""
    rules = SEMANTICS.get(value) if isinstance(value, str) else None
    if rules is None:
        raise ArgumentError(f"{name} {shown(value)} is not known (allowed: {', '.join(SEMANTICS)})")
    return rules


# ---- arrays ---------------------------------------------------------------------------------------------------------


def given_array(name: str, x: object) -> tuple[Array, Restore]:
    """An argument as NumPy sees it, and what turns results into its kind of array. Raises InputError for no array."""
    if type(x) is np.ndarray:
        return x, same
    try:
        return as_numpy(x)
    except InputError as error:
        raise InputError(f"{name} {error}") from error


def type_of(name: str, x: object) -> np.dtype[Any]:
    """The element type of an argument, in the machine's byte order."""
    return native_dtype(given_array(name, x)[0].dtype)


# ---- numbers and words ----------------------------------------------------------------------------------------------


def whole(name: str, value: object, low: int | None = None, high: int | None = None) -> int:
    """A whole number within limits (`limits.within`); bools and floats are refused."""
    if isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} must be a whole number, got {value}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError for others
    except TypeError:
        raise ArgumentError(
            f"{name} must be a whole number, got {shown(value)} ({type(value).__name__})"
        ) from None
    return within(HERE, name, number, low, high)


def seed_of(name: str, value: object) -> int:
    """The key of a generator of random numbers."""
    return whole(name, value, 0, LARGEST_SEED)


def flag(name: str, value: object) -> bool:
    """True or False (0 and 1 too)."""
    if (
        value is True
        or value is False
        or (isinstance(value, int | np.bool_ | np.integer) and value in (0, 1))
    ):
        return bool(value)
    raise ArgumentError(f"{name} must be True or False, got {shown(value)}")


def real(name: str, value: object) -> float:
    """A real number."""
    if type(value) is float:
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentError(f"{name} must be a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is larger than any float") from None


def as_tuple(value: Any) -> Any:
    """A sequence as a tuple, of which the keys of what is kept are made; other things as they are."""
    if isinstance(value, str | bytes | dict):
        return value
    try:
        return tuple(value)
    except TypeError:
        return value


def whole_numbers(name: str, value: object, low: int | None = None) -> tuple[int, ...]:
    """A whole number, or a list or tuple of them."""
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(whole(name, item, low) for item in values)


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    return value


def accumulation(value: object, dtype: np.dtype[Any]) -> str | None:
    """Return what sums of the type are taken in: None, or one of ACCUMULATIONS for floats."""
    word = None if value is None else choice("accumulate", value, ACCUMULATIONS)
    check_accumulate(HERE, word, dtype)
    return word


def numbers(name: str, value: object, rank: int, low: int | None = None) -> tuple[int, ...]:
    """One number per spatial axis from a number or a sequence of one or `rank` numbers."""
    if not isinstance(value, list | tuple):
        return (whole(name, value, low),) * rank
    if len(value) not in (1, rank):
        raise ArgumentError(
            f"{name} must be one number or {rank}, one per spatial axis, got {shown(tuple(value))}"
        )
    parsed = tuple(whole(name, item, low) for item in value)
    return parsed * rank if len(parsed) == 1 else parsed


def strides(value: object, window: tuple[int, ...], rules: Semantics) -> tuple[int, ...]:
    """The stride; None or () is the default of the semantics."""
    if value is None or (isinstance(value, list | tuple) and not value):
        return window if rules.stride == "window" else (1,) * len(window)
    return numbers("stride", value, len(window), 1)


def padding(
    value: object, window: tuple[int, ...], dilation: tuple[int, ...], limit: str
) -> tuple[Pairs, str]:
    """(begin, end) per axis and auto_pad, from a number, numbers, pairs, or "same", "same_lower", "valid".

    `limit` as Semantics.pad_limit: "half" of the reach, less than the "window", less than the "reach".
    """
    rank = len(window)
    if isinstance(value, str):
        return (), SAME[choice("padding", value, tuple(SAME))]
    pairs: list[tuple[int, int]]
    if isinstance(value, list | tuple) and value and all(isinstance(item, list | tuple) for item in value):
        if len(value) != rank or any(len(item) != 2 for item in value):
            raise ArgumentError(f"padding must hold {rank} pairs of (begin, end), got {shown(value)}")
        pairs = [(whole("padding", a, 0), whole("padding", b, 0)) for a, b in value]
    else:
        pairs = [(pad, pad) for pad in numbers("padding", value, rank, 0)]
    for k, d, pair in zip(window, dilation, pairs, strict=True):
        reach = (k - 1) * d + 1
        most = {"half": reach // 2, "window": k - 1, "reach": reach - 1}[limit]
        if max(pair) > most:
            rule = {
                "half": "at most half of the effective kernel size",
                "window": "less than kernel_size",
                "reach": "less than the effective kernel size",
            }[limit]
            raise ArgumentError(
                f"padding must be {rule} (allowed: 0 to {most}), got {pair} with kernel_size {k} and "
                f"dilation {d}"
            )
    return tuple(pairs), "NOTSET"


@dataclass(frozen=True)
class Form:
    """A map as the caller gave it, seen as the (N, C, *spatial) or (N, *spatial, C) that operators take.

    `batched` is its shape with batch and channel axes; `restore` gives the caller's shape of a result.
    """

    rank: int
    channels_last: bool
    missing: int
    batched: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def type(self) -> TensorType:
        """The type of the batched array."""
        return TensorType(self.dtype, self.batched)

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.batched[1:-1] if self.channels_last else self.batched[2:]

    @property
    def channels(self) -> int:
        return self.batched[-1] if self.channels_last else self.batched[1]

    def windows(self, arguments: WindowArguments, rules: Semantics) -> dict[str, Any]:
        """The fields of WindowPool. Raises ArgumentError naming the argument, ShapeError for a map without elements."""
        fields = arguments.fields(self.rank, rules)
        self.refuse_empty()
        return fields | {"channels_last": self.channels_last}

    def refuse_empty(self) -> None:
        """ShapeError when channels or spatial axes are empty: only the batch may be."""
        if 0 in self.batched[1:]:
            raise ShapeError(
                f"expected an input whose axes other than the batch are not empty, got extents "
                f"{list(self.batched)} (batch, channels and spatial axes)"
            )

    def summed(self, accumulate: str | None) -> str | None:
        """Return the type that sums are taken in; DTypeError where the elements are no floats."""
        return accumulation(accumulate, self.dtype)

    def restore(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A batched result's shape without the axes that the input did not have."""
        if self.missing == 2:
            return tuple(shape[1:-1] if self.channels_last else shape[2:])
        return tuple(shape[self.missing :])


def layout_rank(layout: object) -> int:
    """The number of spatial axes that a layout's name says."""
    for rank, letters in LETTERS.items():
        if isinstance(layout, str) and layout in (f"NC{letters}", f"N{letters}C", letters):
            return rank
    allowed = [name for letters in LETTERS.values() for name in (f"NC{letters}", f"N{letters}C", letters)]
    raise ArgumentError(f"layout must be one of {', '.join(allowed)}, got {shown(layout)}")


def form(x: TensorType, rank: int, layout: object, plain: bool = True) -> Form:
    """Read an array by its layout: batched, without batch, or (if `plain`) without batch and channels.

    The layouts "L", "HW", "DHW" say that there is neither batch nor channels.
    """
    shape, letters = x.shape, LETTERS[rank]
    names = f"NC{letters}", f"N{letters}C", letters
    if not isinstance(layout, str) or layout not in names:
        raise ArgumentError(f"layout must be one of {', '.join(names)}, got {shown(layout)}")
    lowest = rank if layout == letters or plain else rank + 1
    highest = rank if layout == letters else rank + 2
    if not lowest <= len(shape) <= highest:
        allowed = " or ".join(f"{ndim}D" for ndim in range(lowest, highest + 1))
        raise ShapeError(
            f"expected {allowed} input (layout {layout}, batch optional), got {len(shape)}D {list(shape)}"
        )
    last = layout == names[1]
    missing = rank + 2 - len(shape)
    lead = (1,) * missing
    batched = (1, *shape, 1) if missing == 2 and last else (*lead, *shape)
    return Form(rank, last, missing, batched, x.dtype)


# ---- functions that slide a window ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowArguments:
    """The arguments of a windowed pool as they came."""

    kernel_size: Numbers
    stride: Numbers | None = None
    padding: Padding = 0
    dilation: Numbers = 1
    ceil_mode: bool = False

    def fields(self, rank: int, rules: Semantics) -> dict[str, Any]:
        """The fields of WindowPool, but for channels_last. Raises ArgumentError naming the argument."""
        window = numbers("kernel_size", self.kernel_size, rank, 1)
        stride = strides(self.stride, window, rules)
        dilation = numbers("dilation", self.dilation, rank, 1)
        pads, auto_pad = padding(self.padding, window, dilation, rules.pad_limit)
        ceil_mode = flag("ceil_mode", self.ceil_mode)
        if ceil_mode and rules.name == "tensorflow":
            raise ArgumentError(
                "ceil_mode must be False with semantics='tensorflow', got True; padding='same' rounds up"
            )
        return {
            "window": window,
            "stride": stride,
            "pads": pads,
            "dilation": dilation,
            "auto_pad": auto_pad,
            "ceil_mode": ceil_mode or rules.always_ceil,
            "drop": rules.drop,
        }


# ---- what a call asks for -------------------------------------------------------------------------------------------

Types = tuple[TensorType, ...]


@dataclass(frozen=True)
class Operation:
    """An operator with the shapes of a call, made of the inputs' types and the arguments.

    `op` works on inputs of the shapes `batched`; its outputs are given to the caller as `shapes`.
    """

    op: Op
    batched: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]


def operation_on(op: Op, shape: Form) -> Operation:
    """An operator of one input whose outputs have the input's axes."""
    outputs = op.infer(shape.type)
    return Operation(op, (shape.batched,), tuple(shape.restore(y.shape) for y in outputs))


def plain(op: Op, *types: TensorType) -> Operation:
    """An operator on the arrays as they are."""
    return Operation(op, tuple(x.shape for x in types), tuple(y.shape for y in op.infer(*types)))
