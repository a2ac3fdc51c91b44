"""Types of tensors (dtype and shape) and layouts in memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import needed
from cenote.core.sizes import Size, whole

# Importing numpy.typing takes a tenth of the time of importing NumPy, and only type checkers need it.
if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]
    BFLOAT16: np.dtype[Any]
    FLOATS: frozenset[np.dtype[Any]]
else:
    Array = np.ndarray

FLOAT16: np.dtype[Any] = np.dtype(np.float16)
FLOAT32: np.dtype[Any] = np.dtype(np.float32)
FLOAT64: np.dtype[Any] = np.dtype(np.float64)
INT64: np.dtype[Any] = np.dtype(np.int64)
_NUMPY_FLOATS = frozenset({FLOAT16, FLOAT32, FLOAT64})

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


@cache
def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes  # 8 ms and 3 MB, which a process that only loads float32 plans need not spend
    except ModuleNotFoundError:  # then no array has it: a type that equals no other
        return np.dtype([("bfloat16", np.uint16)])
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def __getattr__(name: str) -> Any:
    """Return BFLOAT16, which NumPy does not have by itself, and FLOATS, which includes it."""
    if name not in ("BFLOAT16", "FLOATS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(BFLOAT16=_bfloat16(), FLOATS=_NUMPY_FLOATS | {_bfloat16()})
    return globals()[name]


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the dtype of a name, also of those that ml_dtypes adds ("bfloat16", "int4"). Raises TypeError for no
    dtype."""
    try:
        return np.dtype(name)
    except TypeError:
        needed("ml_dtypes", f"the type {name}")  # makes its names known to NumPy
        return np.dtype(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is float64, float32, float16 or bfloat16."""
    return dtype in _NUMPY_FLOATS or dtype == _bfloat16()


@cache
def native_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in this machine's byte order. `newbyteorder` makes an object of its own even where nothing changes; this
    is the one that all other arrays have, by which native code tells types apart (`kernels.driver.known`)."""
    native = dtype.newbyteorder("=")
    usual = np.dtype(native.type)
    return usual if usual == native else native


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return `dtype.name`, for which NumPy takes 2 us."""
    return dtype.name


@cache
def short_name(dtype: np.dtype[Any]) -> str:
    """Return `f32`, `bf16`, `i8`, `bool`: the names of types in graphs, plans and kernel names."""
    if dtype.name == "bfloat16":
        return "bf16"
    for prefix, letter in _SHORT.items():
        if dtype.name.startswith(prefix) and dtype.name[len(prefix) :].isdigit():
            return letter + dtype.name[len(prefix) :]
    return dtype.name


@dataclass(frozen=True)
class TensorType:
    """Element type and concrete shape of a value.

    `value` is the content where it is known when the graph is compiled (a constant): operators whose output shape
    depends on it (Reshape, Slice) read it in `infer`. It takes no part in equality.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    value: Array | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(dtype: DTypeLike, shape: Sequence[int]) -> TensorType:
        """Make a type from anything NumPy takes as a dtype."""
        return TensorType(np.dtype(dtype), tuple(whole(extent) for extent in shape))

    @staticmethod
    def known(value: Array) -> TensorType:
        """Return the type of a constant, with its content."""
        return TensorType(value.kind if isinstance(value, SizedArray) else value.dtype, value.shape, value)

    @cached_property
    def bare(self) -> TensorType:
        """The type without its content."""
        return self if self.value is None else TensorType(self.dtype, self.shape)

    @cached_property
    def key(self) -> Hashable:
        """Key that is equal for types of one trace that are equal for all sizes, with the same known content."""
        extents = [extent.terms if isinstance(extent, Size) else extent for extent in self.shape]
        return self.dtype, dtype_name(self.dtype), *extents, None if self.value is None else id(self.value)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"


Dimension = int | str | None


@dataclass(frozen=True)
class Declared:
    """Input or output as the model declares it: a dimension is a size, a name, or None when unknown.

    `form` is "" for a tensor, else "sequence" or "optional": `dtype` is then object, and `element` the dtype of the
    tensors in it ("" where the model does not say).
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Dimension, ...] | None
    form: str = ""
    element: str = ""

    def __str__(self) -> str:
        if self.form:
            return f"{self.name}: {self.form} of {self.element or 'tensors'}"
        shape = "?" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{shape}]"


@dataclass(frozen=True)
class Layout:
    """Layout of a value in memory.

    `lanes == 0`: plain, row-major over the logical shape. `lanes == L`: channel-blocked, (N, ceil(C/L), *spatial, L):
    the lanes past C in the last block are junk that no kernel may let into a real lane. `halo`: (begin, end) rows of
    zeros around each spatial axis, part of the buffer, that a convolution reads instead of checking for edges; empty
    means none. Blocked values only.
    """

    lanes: int = 0
    halo: tuple[tuple[int, int], ...] = ()

    @property
    def is_blocked(self) -> bool:
        return self.lanes > 0

    def __str__(self) -> str:
        if not self.is_blocked:
            return "plain"
        border = "".join(f" {begin}+{end}" for begin, end in self.halo if begin or end)
        return f"c{self.lanes}{border}"


PLAIN = Layout()
