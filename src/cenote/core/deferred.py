"""Attributes (`cached_property`) and methods of dataclasses (`dataclass`) that are made when they are first used."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])


class cached_property(Generic[T]):  # noqa: N801  (the name that readers know)
    """Decorator that makes a method's result an attribute, kept in the instance's `__dict__`, without a lock.

    Python 3.11's `functools.cached_property` holds one lock per property while it computes, for all instances: a
    process that forks while another thread does so leaves a child in which that property hangs for ever (later Pythons
    have no lock). Here two threads that ask at the same time may both compute the value, which is the same for both.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, kw_only=False):
        """`dataclasses.dataclass`, but that each method is written when it is first called.

        The standard one writes up to six methods as text and compiles them: 0.5 to 1.1 ms for a frozen class. A first
        load of ResNet-18 imports 430 such classes, makes instances of 115, and compares those of 5: the methods
        were a quarter of its time.
        """

        def made(cls):
            return _with_fields(cls, frozen, eq, repr, kw_only)

        return made if cls is None else made(cls)


def _with_fields(cls: Class, frozen: bool, eq: bool, shows: bool, kw_only: bool) -> Class:
    """Give a class fields as the standard decorator does, and stand-ins for the methods that it would write."""
    own = {name for name in vars(cls) if vars(cls)[name] is not None}
    _add_fields(cls, frozen, eq, shows, kw_only)
    if "__init__" not in own:
        _put_off(cls, ("__init__",), frozen=frozen, eq=False, repr=False)
    if shows and "__repr__" not in own:
        _put_off(cls, ("__repr__",), init=False, eq=False)
    if eq:
        compared = [name for name in ("__eq__", *(["__hash__"] if frozen else [])) if name not in own]
        _put_off(cls, compared, frozen=frozen, init=False, repr=False)
        if not frozen and "__hash__" not in own:
            unhashable: Any = cls
            unhashable.__hash__ = None
    if frozen:
        _freeze(cls)
    return cls


def _add_fields(cls: type[Any], frozen: bool, eq: bool, shows: bool, kw_only: bool) -> None:
    """Set what `dataclasses` keeps at a class. Its own fields come from a twin, a class of these fields alone, since
    the standard decorator writes methods for each frozen class, and for each that inherits from one."""
    annotations = inspect.get_annotations(cls)
    members = {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    members |= {"__module__": cls.__module__, "__doc__": cls.__name__, "__annotations__": annotations}
    decorate = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)
    twin: Any = decorate(type(cls.__name__, (), members))
    twin.__dataclass_params__.frozen, twin.__dataclass_params__.eq = frozen, eq
    twin.__dataclass_params__.init, twin.__dataclass_params__.repr = True, shows
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, "__dataclass_fields__", {})
    for name, field in twin.__dataclass_fields__.items():
        fields[name] = field
        if not isinstance(vars(cls).get(name), dataclasses.Field):
            continue
        if field.default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, field.default)
    made: Any = cls
    made.__dataclass_fields__, made.__dataclass_params__ = fields, twin.__dataclass_params__
    positional = tuple(each.name for each in dataclasses.fields(made) if each.init and not each.kw_only)
    setattr(made, "__match_args__", positional)  # noqa: B010  (mypy knows the name)
    made.__signature__ = _WRITES_CONSTRUCTOR
    if hasattr(twin, "__replace__"):  # from Python 3.13 on, for `copy.replace`
        made.__replace__ = twin.__replace__


class _Signature:
    """`__signature__` of a class: `inspect`, which asks for it first, then finds the constructor written."""

    def __get__(self, instance: object | None, owner: type[Any]) -> None:
        write = getattr(owner.__init__, "write", None)
        if write is not None:
            write()


_WRITES_CONSTRUCTOR = _Signature()


def _put_off(cls: type[Any], names: Sequence[str], **options: bool) -> None:
    """Set methods that, when one of them is first called, are replaced by those of the standard decorator."""

    def write() -> None:
        written = _written(cls, options)
        for name in names:
            setattr(cls, name, vars(written)[name])

    def stand_in(name: str) -> Any:
        def method(self: object, /, *arguments: object, **named: object) -> object:
            write()
            return vars(cls)[name](self, *arguments, **named)

        return method

    for name in names:
        method = stand_in(name)
        method.__name__, method.__qualname__, method.__module__ = (
            name,
            f"{cls.__qualname__}.{name}",
            cls.__module__,
        )
        method.write = write
        setattr(cls, name, method)


def _written(cls: type[Any], options: dict[str, Any]) -> type[Any]:
    """Return a class with the same fields, all its own, and the methods that the options of the standard decorator ask
    for."""
    given = [
        (
            each.name,
            each.type,
            dataclasses.field(
                default=each.default,
                default_factory=each.default_factory,
                **{name: getattr(each, name) for name in ("init", "repr", "hash", "compare", "kw_only")},
            ),
        )
        for each in dataclasses.fields(cls)
    ]
    after = {"__post_init__": None} if hasattr(cls, "__post_init__") else {}
    return dataclasses.make_dataclass(
        cls.__name__, given, namespace=after | {"__doc__": cls.__name__}, **options
    )


def _freeze(cls: type[Any]) -> None:
    """Make instances refuse other values of their fields."""

    def refuses(self: object, name: str) -> bool:
        return type(self) is cls or name in cls.__dataclass_fields__

    def set_attribute(self: object, name: str, value: object) -> None:
        if refuses(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if refuses(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    frozen: Any = cls
    frozen.__setattr__, frozen.__delattr__ = set_attribute, delete_attribute
