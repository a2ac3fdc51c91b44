"""Base of all kernels: a spec that emits a kernel, a view of memory, and a call of the kernel.

Every kernel has one native signature, so that one driver can run them all:

    void kernel(const int64_t *words, int64_t begin, int64_t end, void *scratch)

`words` is the argument record, one 64-bit word per parameter of the spec (a pointer, an integer, or the bits of a
float64). The work is split into `items` independent pieces; a call does the pieces begin..end-1. `scratch` is memory
of the calling thread alone. What a piece computes does not depend on how pieces are grouped, so results are the same
bits for any number of threads.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.emission import KernelOrigin
from cenote.codegen.values import F32, Scalar
from cenote.core.deferred import dataclass
from cenote.core.exact import Exact
from cenote.core.formulas.expressions import word_of_float
from cenote.core.sizes import Size, SymbolicReal, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, Layout, TensorType, short_name
from cenote.kernels.foreign import checked_call, digest_of_spec, joined_origin, origin_of_class
from cenote.runtime.steps import Slot

_LONGEST_SYMBOL = 200  # characters; longer names are cut, and a digest tells them apart


@dataclass(frozen=True)
class KernelSpec(Exact):
    """Parameters that a kernel is specialised on. Subclasses are frozen dataclasses whose fields change the
    instructions.

    The spec is the cache key, the symbol name and what a profiler prints; sizes are run-time arguments. Subclasses from
    outside the package have an `origin`, the digest of their module's source, which is part of the key.
    """

    own_origin: ClassVar[KernelOrigin | None] = None
    class_origin: ClassVar[KernelOrigin | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # Now, for the file may change as soon as it has been imported.
        cls.own_origin = origin_of_class(cls)
        cls.class_origin = joined_origin(cls)

    @property
    def origin(self) -> KernelOrigin | None:
        """Source of a kernel from outside the package; None for Cenote's own."""
        return self.class_origin

    @property
    def words(self) -> tuple[Parameter, ...]:
        """The words of a call, by name and in order."""
        raise NotImplementedError(f"{type(self).__name__}.words")

    def kernel(self, target: Target) -> Kernel:
        """A kernel with these parameters, still empty."""
        return Kernel(self.symbol, target, self.words)

    def emit(self, target: Target) -> Kernel:
        """Generate the kernel. This is pure: the text can be printed without running anything."""
        raise NotImplementedError(f"{type(self).__name__}.emit")

    @property
    def symbol(self) -> str:
        """Name of the kernel in object code and profiles, unique to the spec. Raises CodegenError for a class from
        outside the package that is no dataclass, or has fields that are no plain values."""
        parts = [type(self).__name__]
        for field in dataclasses.fields(self):
            parts.append(f"{field.name}_{_identifier(getattr(self, field.name))}")
        name = "__".join(parts)
        if (origin := self.origin) is not None:
            return f"{name[:_LONGEST_SYMBOL]}__{digest_of_spec(self, origin)}"
        if len(name) <= _LONGEST_SYMBOL:
            return name
        return f"{name[:_LONGEST_SYMBOL]}__{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _identifier(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join(_identifier(item) for item in value) or "none"
    if isinstance(value, np.dtype):
        return short_name(value)
    if dataclasses.is_dataclass(value):
        return "".join(_identifier(getattr(value, field.name)) + "_" for field in dataclasses.fields(value))
    text = str(value).replace("-", "m").replace(".", "p")
    return "".join(letter if letter.isalnum() else "_" for letter in text)


@dataclass(frozen=True)
class View:
    """Tensor in memory: type, layout, strides in elements, and the place of its first real element.

    Plain: one stride per logical axis. Blocked: strides of (N, channel block, *spatial); the step from one spatial
    neighbour to the next along the last axis is `lanes`, from lane to lane 1. `slot.offset` already skips the halo.
    """

    type: TensorType
    layout: Layout
    strides: tuple[int, ...]
    slot: Slot

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def blocks(self) -> int:
        """Channel blocks of a blocked view, the last one perhaps ragged."""
        return -(-self.type.shape[1] // self.layout.lanes)

    def is_contiguous(self) -> bool:
        """Whether the elements (junk lanes included) fill one run of memory without gaps."""
        return self.strides == dense_strides(self.type.shape, Layout(self.layout.lanes))

    def at(self, offset_elements: int) -> View:
        """The same view moved by whole elements."""
        moved = self.slot.offset + offset_elements * self.type.dtype.itemsize
        return View(self.type, self.layout, self.strides, Slot(self.slot.kind, self.slot.index, moved))


T = TypeVar("T")


def pointers_to(element: Scalar, *names: str, may_alias: bool = False) -> tuple[Parameter, ...]:
    """Words that are pointers to elements of a type."""
    return tuple(Parameter(name, element, pointer=True, may_alias=may_alias) for name in names)


def float_pointers(names: Sequence[str], may_alias: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """Words that are pointers to float32."""
    return tuple(Parameter(name, F32, pointer=True, may_alias=name in may_alias) for name in names)


def numbers_named(names: Sequence[str]) -> tuple[Parameter, ...]:
    """Words that are whole numbers."""
    return tuple(Parameter(name) for name in names)


def present(operand: T | None) -> T:
    """Return an operand that must be there: of `Lowering.bind`'s views, or of types that `infer` has accepted."""
    if operand is None:
        raise ValueError("an operand is missing")
    return operand


def padded_spatial(shape: Sequence[int], layout: Layout) -> tuple[int, ...]:
    """Spatial extents with the halo."""
    halo = layout.halo or ((0, 0),) * (len(shape) - 2)
    return tuple(extent + begin + end for extent, (begin, end) in zip(shape[2:], halo, strict=True))


def dense_strides(shape: Sequence[int], layout: Layout = PLAIN) -> tuple[int, ...]:
    """Strides in elements of a tensor that fills its buffer (halo included)."""
    if layout.is_blocked:
        spatial = padded_spatial(shape, layout)
        extents = (shape[0], -(-shape[1] // layout.lanes), *spatial)
        step = layout.lanes
    else:
        extents, step = tuple(shape), 1
    strides: list[int] = []
    for extent in reversed(extents):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def buffer_elements(shape: Sequence[int], layout: Layout = PLAIN) -> int:
    """Elements of the buffer that holds the tensor: halo and junk lanes included."""
    if not layout.is_blocked:
        return math.prod(shape)
    blocks = -(-shape[1] // layout.lanes)
    return shape[0] * blocks * math.prod(padded_spatial(shape, layout)) * layout.lanes


def halo_offset(shape: Sequence[int], layout: Layout) -> int:
    """Elements from the start of the buffer to the first real element."""
    if not layout.is_blocked or not layout.halo:
        return 0
    strides = dense_strides(shape, layout)[2:]
    return sum(begin * stride for (begin, _), stride in zip(layout.halo, strides, strict=True))


@dataclass(frozen=True, eq=False)
class Preparation:
    """Another way to a packed constant, with the same bits: a kernel that makes it of a smaller array. Its words begin
    with the addresses of the constant and of that array, which `call` leaves open."""

    source: Callable[[], Array]
    call: Call


@dataclass(frozen=True, eq=False)
class Packed:
    """Constant of float32 that a lowering makes of weights, in the order in which a kernel reads them.

    `make` is called once, by any thread, when the kernels of all calls are known: the weights of a model are packed
    on all cores while its kernels are being compiled. `prepared`: how exported programs make it when
    they are loaded.
    """

    shape: tuple[int, ...]
    make: Callable[[], Array]
    dtype: np.dtype[Any] = FLOAT32
    prepared: Preparation | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Argument = View | Array | Packed | int | float | None


def content_of(argument: Argument) -> Array | None:
    """Array of a constant argument, packed now if need be; None of others."""
    if isinstance(argument, Packed):
        return argument.make()
    return argument if isinstance(argument, np.ndarray) else None


@dataclass(frozen=True)
class Call:
    """One launch of a kernel: the arguments in the order of the kernel's parameters.

    An array among them, or a Packed, is a constant that the lowering prepared; None is a null pointer. `items` is the
    number of independent pieces, `grain` how many of them a thread takes at a time (about 20 to 100 us of work),
    `scratch` the bytes each thread needs. `independent`: it may run at the same time as the call before it of the
    same lowering, and as those that may run at the same time as that one. `operations`: the number that the kernel
    executes, padding lanes included and multiply-adds counted as 2, where it differs from the operator's; 0: not
    given.
    """

    spec: KernelSpec
    arguments: tuple[Argument, ...]
    items: int = 1
    grain: int = 1
    scratch: int = 0
    independent: bool = False
    variants: tuple[KernelSpec, ...] = ()
    chosen: int = 0
    operations: int = 0

    def among(self, variants: tuple[KernelSpec, ...], chosen: int) -> Call:
        """Call of one of several kernels with the same words; `chosen` is the index of the right one once sizes
        are known."""
        if len(variants) == 1:
            return self
        return dataclasses.replace(self, variants=variants, chosen=chosen)

    @property
    def specs(self) -> tuple[KernelSpec, ...]:
        """Kernels of which the call runs one."""
        return self.variants or (self.spec,)

    @staticmethod
    def named(
        spec: KernelSpec,
        words: Mapping[str, Argument],
        items: int = 1,
        grain: int = 1,
        scratch: int = 0,
        operations: int = 0,
    ) -> Call:
        """Make a call from words by the names of the spec's parameters. TypeError where the names are not the same."""
        names = [parameter.name for parameter in spec.words]
        if len(words) != len(names) or any(name not in words for name in names):
            missing, unknown = sorted({*names} - {*words}), sorted({*words} - {*names})
            raise TypeError(f"{type(spec).__name__}: words missing: {missing}, unknown: {unknown}")
        arguments = tuple(words[name] for name in names)
        return Call(spec, arguments, items, grain, scratch, operations=operations)

    def word(self, name: str) -> Argument:
        """Value of the word with this name."""
        return self.arguments[self._position(name)]

    def changed(self, **words: Argument) -> Call:
        """The call with other words under these names."""
        arguments = list(self.arguments)
        for name, value in words.items():
            arguments[self._position(name)] = value
        return dataclasses.replace(self, arguments=tuple(arguments))

    def _position(self, name: str) -> int:
        return [parameter.name for parameter in self.spec.words].index(name)

    def __post_init__(self) -> None:
        if self.spec.origin is not None:
            counts = {"items": self.items, "grain": self.grain, "scratch": self.scratch}
            name = type(self.spec).__name__
            object.__setattr__(self, "arguments", checked_call(name, self.spec.words, self.arguments, counts))
        if plain(self.items) < 0 or plain(self.grain) < 1 or plain(self.scratch) < 0:
            raise ValueError(f"bad call of {self.spec.symbol}: items {self.items}, grain {self.grain}")


def word_of(argument: Argument) -> int | Slot:
    """Entry of the argument record for an argument; an address is a slot until the program has memory."""
    if type(argument) is int:
        return argument
    if argument is None:
        return 0
    if isinstance(argument, View):
        return argument.slot
    if isinstance(argument, np.ndarray | Packed):
        raise TypeError("an array argument must be made a constant of the program first")
    if isinstance(argument, float):
        return word_of_float(argument)
    if isinstance(argument, SymbolicReal):
        return argument.bits()
    if isinstance(argument, Size):
        return cast(int, argument)
    return int(argument)


def constant_of(kind: Any) -> Array:
    """The content of a view or type that must be a constant."""
    value = kind.type.value if isinstance(kind, View) else kind.value
    if value is None:
        raise ValueError("a constant was expected")
    array: Array = value
    return array
