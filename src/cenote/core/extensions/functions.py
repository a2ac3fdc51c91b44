"""Functions that compute operators of users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import ArgumentError, shown
from cenote.core.extensions.digests import digest_of, place_of

CONTENT: Literal["content"] = "content"


@dataclass(frozen=True, eq=False)
class OperatorFunction:
    """A function that computes an operator, and what Cenote should know of it.

    function   takes an array for each input (None for one that is absent) and the node's attributes by name, and
               returns an array, or a tuple of arrays where the node has several outputs. Arrays are read-only.
               It may be called by several threads at once.
    types      function of the inputs' types (`cenote.TensorType`: `dtype`, `shape`) and the attributes that returns the
               output's type, or a tuple of types. Extents are whole numbers, or stand for open sizes, which can be
               computed with: the model is then planned once for all sizes. None: the function is called with zeros of
               each shape, once, when the model is planned. "content": shapes of outputs depend on the content of
               inputs (as of NonZero); the model is planned up to this node, and behind it when that has run.
    pure       False where equal inputs may give other outputs (random numbers): the node is then neither computed when
               the model is planned nor merged with an equal one.

    Raises ArgumentError for a function that cannot be called and for other `types`.
    """

    function: Callable[..., Any]
    types: Callable[..., Any] | Literal["content"] | None = None
    pure: bool = True
    trials: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """Types of the outputs that zeros gave, by attributes and types of inputs."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"operators: {shown(self.function)} is no function")
        if self.types not in (None, CONTENT) and not callable(self.types):
            raise ArgumentError(f'types: {shown(self.types)} is no function, None or "content"')

    def __repr__(self) -> str:
        return f"cenote.OperatorFunction({self.place})"

    @cached_property
    def place(self) -> str:
        """Name of the function, with its file and line."""
        return place_of(self.function)

    @cached_property
    def _digested(self) -> tuple[str, str]:
        digest, untold = digest_of(self.function)
        types, more = digest_of(self.types) if callable(self.types) else (str(self.types), "")
        return f"{digest}-{types}-{self.pure}", untold or more

    @property
    def digest(self) -> str:
        """Digest of all that the operator computes."""
        return self._digested[0]

    @property
    def untold(self) -> str:
        """Text that names what keeps other processes from knowing whether they have the same function; "" for
        nothing."""
        return self._digested[1]

    @property
    def module(self) -> str:
        """Name of the module that another process can import for the function; "" for none."""
        module = getattr(self.function, "__module__", None) or ""
        return "" if module == "__main__" else module
