"""Names of operators from outside the package, and what computes each: a function or a class.

A plan names the operator and the digest of its function or class: the process that runs the plan must have that very
one, by `register`, by the option `operators` of the load, or by an installed extension.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast, overload

from cenote.core.errors import ArgumentError, UnsupportedError, near, shown
from cenote.core.extensions import installed
from cenote.core.extensions.classes import OperatorClass, is_operator_class, key_of
from cenote.core.extensions.functions import OperatorFunction
from cenote.core.extensions.modules import import_registering
from cenote.core.extensions.switched import forget

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
U = TypeVar("U", bound=OperatorFunction | OperatorClass)
UserOperator = OperatorFunction | OperatorClass

_registered: dict[str, UserOperator] = {}
# Of installed extensions: they count where a name is not known otherwise.
_installed: dict[str, UserOperator] = {}
# Registered classes, as plans name them.
_classes: dict[tuple[str, str], OperatorClass] = {}
# All in use, by operator and digest. Models, and options of loads, hold them.
_in_use: weakref.WeakValueDictionary[tuple[str, str], UserOperator] = weakref.WeakValueDictionary()


# ---- registration ---------------------------------------------------------------------------------------------------


@overload
def register(operator: C) -> C: ...


@overload
def register(
    operator: str,
    *,
    types: Callable[..., Any] | Literal["content"] | None = None,
    pure: bool = True,
) -> Callable[[F], F]: ...


def register(
    operator: str | type,
    *,
    types: Callable[..., Any] | Literal["content"] | None = None,
    pure: bool = True,
) -> Any:
    """Make a function or a class an operator of all models that this process loads.

    operator   a subclass of `cenote.ops.Op`, a frozen dataclass, whose `from_onnx` names ONNX operators with their
               domains; or, for a function, domain and type of the ONNX nodes that it computes: "shop.Frobnicate"
    types      of a function, as of `cenote.OperatorFunction`
    pure       of a function, as of `cenote.OperatorFunction`

        @cenote.register("shop.Frobnicate")         @cenote.register
        def frobnicate(x, alpha=1.0):               @dataclass(frozen=True)
            return x * alpha                        class SoftThreshold(cenote.ops.Op):
                                                        ...

    The function or the class is returned. Raises ArgumentError for a name without a domain, for one that another
    function or class has, and for a class that is no whole operator; one of the same name, module and place takes its
    predecessor's place, so that a module can be imported again.
    """
    if isinstance(operator, type):
        if types is not None or not pure:
            raise ArgumentError("types, pure: a class says both itself")
        _enter_class(OperatorClass(operator))
        return operator
    checked_name(operator)

    def decorate(function: F) -> F:
        if is_operator_class(function):
            raise ArgumentError(
                f'{operator}: a class says its names itself, in from_onnx: write "@cenote.register"'
            )
        _enter(operator, OperatorFunction(function, types, pure))
        return function

    return decorate


def _enter_class(made: OperatorClass) -> None:
    for name in made.names:
        _check_free(name, made)
    for other in _classes.values():
        if other.operator.name == made.operator.name and not _replaces(made, other):
            raise ArgumentError(
                f"operators: two classes have the name '{made.operator.name}': {other.place} and {made.place}"
            )
    before = _classes.get(made.key)
    for names in (_registered, _installed):
        for name in [name for name, each in names.items() if each is before and each is not None]:
            del names[name]
    _classes[made.key] = made
    for name in made.names:
        _enter(name, made)


def _enter(name: str, made: UserOperator) -> None:
    _check_free(name, made)
    names = _installed if installed.is_under_way() else _registered
    for each in (_registered, _installed):
        each.pop(name, None)
    names[name] = in_use(name, made)


def _check_free(name: str, made: UserOperator) -> None:
    before = _registered.get(name) or _installed.get(name)
    if before is not None and not _replaces(made, before):
        raise ArgumentError(
            f"operators: {name} is registered twice: {before.place} and {made.place}; rename one, or give one"
            f' of them to the load: operators={{"{name}": function}}'
        )


def _replaces(made: UserOperator, before: UserOperator) -> bool:
    """Whether both are one, imported again."""
    if isinstance(made, OperatorClass) and isinstance(before, OperatorClass):
        return made.key == before.key
    return made.place.partition(":")[0] == before.place.partition(":")[0]


def registered_operators() -> dict[str, OperatorFunction | type]:
    """Return all operators that are registered, by name: functions and classes, those of installed extensions that
    have been imported included. A class that no ONNX operator becomes has its own name here."""
    unnamed = {each.operator.name: each for each in _classes.values() if not each.names}
    every = {**unnamed, **_installed, **_registered}
    return {name: each.operator if isinstance(each, OperatorClass) else each for name, each in every.items()}


def unregister(operator: str | type) -> None:
    """Forget a registered operator, algorithm or rewrite, by its name, or a class with all its names; models that use
    it keep it.

    Raises ArgumentError for one that is not registered.
    """
    if isinstance(operator, type):
        made = _classes.pop(key_of(operator), None)
        if made is None:
            raise ArgumentError(f"operators: {operator.__qualname__} is not registered")
        for name in made.names:
            for names in (_registered, _installed):
                if names.get(name) is made:
                    del names[name]
    elif (
        _registered.pop(operator, None) is None
        and _installed.pop(operator, None) is None
        and not forget(operator)
    ):
        raise ArgumentError(
            f"operators: {operator} is not registered{near(operator, [*_registered, *_installed])}"
        )


# ---- names ----------------------------------------------------------------------------------------------------------


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


def operators_by_name(name: str, given: object) -> dict[str, UserOperator]:
    """Return the functions and classes of operators, by name. Raises ArgumentError for another value."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{name}: {shown(given)} is no dict of functions by operator")
    made = {checked_name(operator): _made_of(operator, each) for operator, each in given.items()}
    return {operator: in_use(operator, each) for operator, each in sorted(made.items())}


def _made_of(operator: str, given: object) -> UserOperator:
    if isinstance(given, OperatorFunction | OperatorClass):
        return given
    if not isinstance(given, type) or not is_operator_class(given):
        return OperatorFunction(cast(Callable[..., Any], given))  # which checks it
    made = _classes.get(key_of(given))
    if made is None or made.operator is not given:
        # Plans name the class: it is registered, without a name of its own.
        made = OperatorClass(given)
        _classes[made.key] = made
    made.decoder(operator)
    return made


def with_registered(given: Mapping[str, Any]) -> Mapping[str, UserOperator]:
    """Return the operators that a load is given, and all registered ones besides."""
    return {**_registered, **given}


def installed_operator(operator: str) -> UserOperator | None:
    """Return the operator of that name of an installed extension; None where none has it."""
    installed.import_installed()
    return _installed.get(operator)


# ---- plans ----------------------------------------------------------------------------------------------------------


def in_use(operator: str, made: U) -> U:
    """Make a function or a class known to plans that name it. Return it, or an equal one that is known already."""
    if isinstance(made, OperatorClass):  # a module that is imported again has other classes
        _in_use[operator, made.digest] = made
    return cast(U, _in_use.setdefault((operator, made.digest), made))


def known(operator: str, digest: str, module: str = "") -> OperatorFunction:
    """Return the function of an operator in a plan. Where it is not known yet, installed extensions are imported, and
    `module` if its source registers operators.

    Raises UnsupportedError where this process does not have the function.
    """
    found = _in_use.get((operator, digest))
    for bring in (installed.import_installed, functools.partial(import_registering, module)):
        if found is None:
            bring()
            found = _in_use.get((operator, digest))
    if isinstance(found, OperatorFunction):
        return found
    check_unchanged({operator: digest})
    of_module = f" {module}" if module else ""
    raise UnsupportedError(
        f"the plan needs the operator {operator}, which this process does not know: import the module{of_module} that "
        f'registers it, or load with operators={{"{operator}": function}}'
    )


def check_unchanged(operators: Mapping[str, str]) -> None:
    """Check that operators of a plan, by name with their digests, are not others by now.

    Those that this process does not know are not missed: a plan whose steps are all kernels needs none. Raises
    UnsupportedError for one that has changed.
    """
    for operator, digest in operators.items():
        others = [each for (name, _), each in [*_in_use.items()] if name == operator]
        if not others and (found := installed_operator(operator)) is not None:
            others = [found]
        if others and digest not in [each.digest for each in others]:
            raise UnsupportedError(
                f"operator {operator} has changed since the plan was made (now {others[0].place}); compile the model "
                "again"
            )


def class_of(operator: type) -> OperatorClass | None:
    """Return what is known of a registered class; None for another."""
    made = _classes.get(key_of(operator))
    return made if made is not None and made.operator is operator else None


def known_class(module: str, name: str, digest: str) -> type:
    """Return a class that a plan names. Where it is not known yet, installed extensions are imported, and `module` if
    its source registers operators.

    Raises UnsupportedError where this process does not have the class, or has another.
    """
    found = _classes.get((module, name))
    for bring in (installed.import_installed, functools.partial(import_registering, module)):
        if found is None:
            bring()
            found = _classes.get((module, name))
    if found is None:
        raise UnsupportedError(
            f"the plan needs the operator class {name} of the module {module}, which this process does not know: "
            f"import the module, which must register it"
        )
    if found.digest != digest:
        raise UnsupportedError(
            f"operator class {name} has changed since the plan was made (now {found.place}); compile the model again"
        )
    made: type = found.operator
    return made
