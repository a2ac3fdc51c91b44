"""Functions that compute operators of users, and the names under which they are known.

A plan names the operator and the digest of its function: the process that runs the plan must know that very function,
by `register` or by the option `operators` of the load.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from cenote.core.cached import cached_property
from cenote.core.errors import ArgumentError, UnsupportedError, near, shown
from cenote.core.extensions.digests import digest_of, place_of
from cenote.core.extensions.installed import import_installed
from cenote.core.extensions.modules import import_registering

F = TypeVar("F", bound=Callable[..., Any])

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


_registered: dict[str, OperatorFunction] = {}
# All functions in use, by operator and digest. Models, and options of loads, hold them.
_in_use: weakref.WeakValueDictionary[tuple[str, str], OperatorFunction] = weakref.WeakValueDictionary()


def checked_name(operator: object) -> str:
    """Return the name of an operator: its domain, a dot, its type. Raises ArgumentError for another form."""
    domain, _, kind = operator.rpartition(".") if isinstance(operator, str) else ("", "", "")
    if not domain or not kind.isidentifier():
        raise ArgumentError(
            f"operators: {shown(operator)} is no name of an operator: its domain, a dot and its type, as in"
            ' "shop.Frobnicate"'
        )
    return str(operator)


def decoded_as(operator: str) -> str:
    """Return the name under which decoders find an operator: ONNX's own domain is left out."""
    domain, _, kind = operator.rpartition(".")
    return kind if domain == "ai.onnx" else operator


def in_use(operator: str, function: OperatorFunction) -> OperatorFunction:
    """Make a function known to plans that name it. Return it, or an equal one that is known already."""
    return _in_use.setdefault((operator, function.digest), function)


def known(operator: str, digest: str, module: str = "") -> OperatorFunction:
    """Return the function of an operator in a plan. Where it is not known yet, installed extensions are imported, and
    `module` if its source registers operators.

    Raises UnsupportedError where this process does not have the function.
    """
    found = _in_use.get((operator, digest))
    for bring in (import_installed, functools.partial(import_registering, module)) if module else ():
        if found is None:
            bring()
            found = _in_use.get((operator, digest))
    if found is not None:
        return found
    others = [each for (name, _), each in _in_use.items() if name == operator]
    if others:
        raise UnsupportedError(
            f"operator {operator} has changed since the plan was made (now {others[0].place}); compile the model again"
        )
    of_module = f" {module}" if module else ""
    raise UnsupportedError(
        f"the plan needs the operator {operator}, which this process does not know: import the module{of_module} that "
        f'registers it, or load with operators={{"{operator}": function}}'
    )


def register(
    operator: str,
    *,
    types: Callable[..., Any] | Literal["content"] | None = None,
    pure: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that makes a function the operator `operator` of all models that this process loads.

    operator   domain and type of the ONNX nodes that it computes: "shop.Frobnicate"
    types      as of `cenote.OperatorFunction`
    pure       as of `cenote.OperatorFunction`

        @cenote.register("shop.Frobnicate")
        def frobnicate(x, alpha=1.0):
            return x * alpha

    The function itself is returned unchanged. Raises ArgumentError for a name without a domain, and for one that
    another function has; a function of the same name, module and place takes its predecessor's place, so that a
    module can be imported again.
    """
    checked_name(operator)

    def decorate(function: F) -> F:
        made = OperatorFunction(function, types, pure)
        before = _registered.get(operator)
        if before is not None and before.place.partition(":")[0] != made.place.partition(":")[0]:
            raise ArgumentError(
                f"operators: {operator} is registered twice: {before.place} and {made.place}; rename one, or give one"
                f' of them to the load: operators={{"{operator}": function}}'
            )
        _registered[operator] = in_use(operator, made)
        return function

    return decorate


def registered_operators() -> dict[str, OperatorFunction]:
    """Return the functions of all operators that are registered, by name."""
    return dict(_registered)


def with_registered(given: Mapping[str, Any]) -> Mapping[str, OperatorFunction]:
    """Return the functions that a load is given, and those of all registered operators besides."""
    return {**_registered, **given}


def unregister(operator: str) -> None:
    """Forget a registered operator; models that use it keep it. Raises ArgumentError for a name that is not
    registered."""
    if _registered.pop(operator, None) is None:
        raise ArgumentError(f"operators: {operator} is not registered{near(operator, _registered)}")


def functions_by_name(name: str, given: object) -> dict[str, OperatorFunction]:
    """Return the functions of operators, by name. Raises ArgumentError for another value."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{name}: {shown(given)} is no dict of functions by operator")
    made = {
        checked_name(operator): each if isinstance(each, OperatorFunction) else OperatorFunction(each)
        for operator, each in given.items()
    }
    return {operator: in_use(operator, each) for operator, each in sorted(made.items())}
