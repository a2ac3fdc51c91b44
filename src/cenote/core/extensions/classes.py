"""Classes from outside the package that are operators: subclasses of `cenote.ops.Op`.

Their methods are guarded: what is raised in them is an error of Cenote's that names the operator, the method and the
line, and what they return is looked at before anything relies on it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from cenote.core.deferred import cached_property
from cenote.core.errors import ArgumentError, CenoteError, OperatorError, error_of_user, shown
from cenote.core.exact import Exact
from cenote.core.extensions.digests import place_of
from cenote.core.extensions.modules import source_digest
from cenote.core.formulas.expressions import OpenSizeError
from cenote.core.types import TensorType

_SERIAL = itertools.count()
_NUMBERS = (np.generic, bool, int, float)


class OperatorClass:
    """A subclass of `cenote.ops.Op` from outside the package, and what tells it from others.

    Raises ArgumentError for a class that is no whole operator.
    """

    def __init__(self, operator: type) -> None:
        if problem := _problem_of(operator):
            raise ArgumentError(f"operators: {operator.__qualname__} {problem}")
        self.operator: Any = operator
        source, self.untold = source_digest(operator.__module__)
        if (
            "<locals>" in operator.__qualname__
        ):  # the arguments of the function around it are no part of its source
            self.untold = f"{operator.__qualname__} is defined in a function"
        serial = f"-{next(_SERIAL)}" if self.untold else ""
        self.digest = f"{source}-{operator.__qualname__}{serial}"
        _guard(operator)
        if not getattr(operator, "advice", ""):
            setattr(operator, "advice", f", as `types` of {self.place} said")  # noqa: B010

    def __repr__(self) -> str:
        return f"<operator class {self.place}>"

    @property
    def key(self) -> tuple[str, str]:
        """Module and name of the class, as plans name it; a script has one name in all processes."""
        return key_of(self.operator)

    @property
    def module(self) -> str:
        """Name of the module that another process can import for the class; "" for none."""
        return "" if self.key[0] == "__main__" else self.key[0]

    @cached_property
    def place(self) -> str:
        """Name of the class, with its file and line."""
        file = getattr(sys.modules.get(self.operator.__module__), "__file__", None)
        try:
            line = f":{inspect.getsourcelines(self.operator)[1]}"
        except (OSError, TypeError):
            line = ""
        return f"{self.operator.__qualname__} ({file or self.operator.__module__}{line})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ONNX operators that become the class."""
        return tuple(self.operator.from_onnx)

    def decoder(self, operator: str) -> Callable[[Any], Any]:
        """Return the decoder of an ONNX operator: that of the class for the name, or its only one.

        Raises ArgumentError where there is none.
        """
        decoders: Mapping[str, Callable[[Any], Any]] = self.operator.from_onnx
        if operator not in decoders and len(decoders) != 1:
            raise ArgumentError(f"operators: from_onnx of {self.place} has no decoder for {operator}")
        decode = decoders.get(operator) or next(iter(decoders.values()))

        def guarded(node: object) -> Any:
            made = _called(f"{operator}: its decoder in from_onnx of {self.place}", decode, node)
            if not isinstance(getattr(made, "op", made), Exact):
                raise OperatorError(
                    f"{operator}: its decoder in from_onnx of {self.place} returned {shown(made)}, no operator"
                )
            return made

        return guarded


def key_of(operator: type) -> tuple[str, str]:
    """Return the module and the name of a class, as plans name it."""
    module = operator.__module__
    return "__main__" if module == "__mp_main__" else module, operator.__qualname__


def is_operator_class(thing: object) -> bool:
    """Return whether a value is a subclass of `cenote.ops.Op`, which this part of the package must not import."""
    return isinstance(thing, type) and issubclass(thing, Exact) and hasattr(thing, "from_onnx")


def _problem_of(operator: type) -> str:
    """Return what keeps a class from being an operator; "" for nothing."""
    if not is_operator_class(operator):
        return "is no subclass of cenote.ops.Op"
    parameters = operator.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return "is no frozen dataclass: put @dataclass(frozen=True) between @cenote.register and the class"
    missing = [name for name in ("types", "compute") if _is_of_cenote(getattr(operator, name))]
    if missing and operator.__mro__[1].__name__ == "Op":
        return f"does not define {' and '.join(missing)}"
    named: Any = operator
    if not isinstance(named.name, str) or not named.name:
        return 'has no name: name = "soft_threshold", say, which graphs and plans print'
    for key, decode in named.from_onnx.items():
        domain, _, kind = key.rpartition(".") if isinstance(key, str) else ("", "", "")
        if not domain or not kind.isidentifier():
            return (
                f"has {shown(key)} in from_onnx, which is no name of an operator: its domain, a dot and its type, as in"
                f' "shop.Frobnicate" (ONNX\'s own domain is "ai.onnx")'
            )
        if not callable(decode):
            return f"has no function for {key} in from_onnx"
    return ""


class HasName(Protocol):
    """Protocol of operators, which have names."""

    @property
    def name(self) -> str: ...


# ---- guards ---------------------------------------------------------------------------------------------------------


def _is_of_cenote(method: object) -> bool:
    return str(getattr(method, "__module__", "")).partition(".")[0] == "cenote"


def _guard(operator: type[Any]) -> None:
    """Replace the methods that a class from outside defines by guarded ones."""
    returned: dict[str, Callable[[str, Any], Any]] = {
        "types": functools.partial(_listed, kind=TensorType, wanted="a cenote.TensorType"),
        "compute": functools.partial(_listed, kind=np.ndarray, wanted="an array"),
        "operations": lambda what, made: made,
        "region": lambda what, made: made,
    }
    for name, look in returned.items():
        method = getattr(operator, name)
        if not _is_of_cenote(method) and not hasattr(method, "guards"):
            setattr(operator, name, _guarded(method, look))
    if not _is_of_cenote(operator.lowerings) and not hasattr(operator.lowerings, "guards"):
        operator.lowerings = _guarded_lowerings(operator.lowerings)


def _guarded(method: Callable[..., Any], look: Callable[[str, Any], Any]) -> Any:
    @functools.wraps(method)
    def call(self: HasName, *arguments: object, **named: object) -> Any:
        what = f"{self.name}: {place_of(method)}"
        return look(what, _called(what, method, self, *arguments, **named))

    call.guards = method  # type: ignore[attr-defined]
    return call


def _guarded_lowerings(method: Callable[..., Any]) -> Any:
    @functools.wraps(method)
    def call(self: HasName, *arguments: object, **named: object) -> Iterator[Any]:
        what = f"{self.name}: {place_of(method)}"
        given: list[Any] = _called(what, lambda: list(method(self, *arguments, **named)))
        for lowering in given:
            if not hasattr(lowering, "bind"):
                raise OperatorError(f"{what} gives {shown(lowering)}, not a cenote.ops.Lowering")
            bind: Any = functools.partial(_called, f"{what}, bind of '{lowering.name}',", lowering.bind)
            yield dataclasses.replace(lowering, bind=bind)

    call.guards = method  # type: ignore[attr-defined]
    return call


def _called(what: str, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
    """Return what a function of a user's returns. Raises OperatorError for what it raises, but for Cenote's errors."""
    try:
        return function(*arguments, **named)
    except (CenoteError, OpenSizeError):
        raise
    except Exception as error:  # whatever the user's code raises
        raise error_of_user(error, what) from error


def _listed(what: str, made: object, kind: type, wanted: str) -> tuple[Any, ...]:
    """Return results as a tuple, also where there is one and it stands alone. Raises OperatorError."""
    listed = [*made] if isinstance(made, tuple | list) else [made]
    if kind is np.ndarray:
        listed = [np.asarray(each) if isinstance(each, _NUMBERS) else each for each in listed]
    for each in listed:
        if not isinstance(each, kind):
            raise OperatorError(f"{what} returned {shown(each)}, not {wanted} or a tuple of them")
    return tuple(listed)
