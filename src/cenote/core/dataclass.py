"""`dataclasses.dataclass` in a tenth of its time.

The library writes the source of six methods for each class and compiles it: 0.3 to 0.5 ms, 130 ms for the 270 classes
that load a model, a seventh of a first start. Here the methods are ordinary functions that know the fields' names, and
only `__init__` is compiled, when the first object is made: most classes of a process never have one. What `fields`,
`replace` and the like make of a class is the same, and classes of the library may be derived from these.
"""

from __future__ import annotations

import dataclasses
import reprlib
import threading
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """As `dataclasses.dataclass`, with those of its options that are in use."""

        def made(cls: type) -> type:
            return _made(cls, frozen, eq, repr)

        return made if cls is None else made(cls)


_MISSING = dataclasses.MISSING
_lock = threading.Lock()


def _made(cls: type, frozen: bool, eq: bool, repr: bool) -> type:
    """The class with its fields noted and the methods that it does not define itself."""
    own = vars(cls)
    hashed = own.get("__hash__", _MISSING)
    explicit_hash = hashed is not _MISSING and not (hashed is None and "__eq__" in own)
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # or the library asks for a signature, which is not there yet
    _note_fields(cls, frozen)
    methods: dict[str, Any] = {"__init__": _first_init(cls, frozen)}
    if repr:
        methods["__repr__"] = _repr_of([each.name for each in dataclasses.fields(cls) if each.repr])
    if eq:
        values = _values_of([each.name for each in dataclasses.fields(cls) if each.compare])
        methods["__eq__"] = _eq_of(values)
        if not explicit_hash:
            cls.__hash__ = _hash_of(values) if frozen else None  # type: ignore[assignment]  # as the library does
    for name, method in methods.items():
        if name not in own:
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    if frozen:
        _freeze(cls)
    return cls


def _note_fields(cls: type, frozen: bool) -> None:
    """Have the library note the fields. It must not take the class, or those before it, for frozen meanwhile: it would
    write two methods for that."""
    before = [
        vars(base)["__dataclass_params__"] for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)
    ]
    with _lock:
        states = [each.frozen for each in before]
        try:
            for each in before:
                each.frozen = False
            dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        finally:
            for each, state in zip(before, states, strict=True):
                each.frozen = state
    if any(states) and not frozen:
        raise TypeError(f"{cls.__qualname__} is not frozen, what it is derived from is")
    vars(cls)["__dataclass_params__"].frozen = frozen


def _values_of(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """All these attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _repr_of(names: list[str]) -> Callable[[object], str]:
    def shown(self: object) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({values})"

    return reprlib.recursive_repr()(shown)


def _eq_of(values: Callable[[object], tuple[Any, ...]]) -> Callable[[object, object], bool]:
    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash_of(values: Callable[[object], tuple[Any, ...]]) -> Callable[[object], int]:
    def hashed(self: object) -> int:
        return hash(values(self))

    return hashed


def _freeze(cls: Any) -> None:
    """Attributes are set by `__init__` alone. A class derived from this one that is no dataclass may add others."""
    names = {each.name for each in dataclasses.fields(cls)}

    def assign(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = assign, delete


def _first_init(cls: type, frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the real one in its place."""

    def first(self: object, /, *given: Any, **named: Any) -> None:
        cls.__init__ = made = _init_of(cls, frozen)  # type: ignore[misc]  # that is its purpose
        made(self, *given, **named)

    return first


def _init_of(cls: type, frozen: bool) -> Callable[..., None]:
    space: dict[str, Any] = {"_set": object.__setattr__, "_make": object()}
    taken, by_name, lines = ["self"], ["*"], ["pass"]
    for number, each in enumerate(dataclasses.fields(cls)):
        value, has_factory = each.name, each.default_factory is not _MISSING
        if has_factory:
            space[f"_factory{number}"] = each.default_factory
            value = f"_factory{number}()" + f" if {each.name} is _make else {each.name}" * each.init
        elif not each.init:
            continue  # its default is an attribute of the class
        default = ""
        if has_factory:
            default = "=_make"
        elif each.default is not _MISSING:
            space[f"_default{number}"], default = each.default, f"=_default{number}"
        if each.init:
            (by_name if each.kw_only else taken).append(f"{each.name}{default}")
        lines.append(f"_set(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken += by_name if by_name[1:] else []
    exec(f"def __init__({', '.join(taken)}):\n " + "\n ".join(lines), space)
    made: Callable[..., None] = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
