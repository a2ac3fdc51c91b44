"""Frozen dataclasses as plain data for JSON, and back, every field checked against its declared type.

A field may be a kind of dict, which checks its content when it is made."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cenote.core.errors import ArgumentError, shown

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return dicts, lists, numbers and strings. Numbers that JSON does not have (infinities, NaN) become None."""
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def from_plain(kind: type[T], data: Any, schema: str) -> T:
    """Return the dataclass that `to_plain` took apart. Missing fields get their defaults; unknown ones (written by a
    later version) are ignored. Raises ArgumentError where `data` is not of the schema."""
    if not isinstance(data, dict) or data.get("schema") != schema:
        seen = data.get("schema") if isinstance(data, dict) else data
        raise ArgumentError(f"this is no {schema}: its schema is {shown(seen)}")
    return cast(T, _made(kind, data, ""))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, value: Any, where: str) -> Any:
    """Return a value of a declared type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = get_args(kind)
        if value is None and type(None) in options:
            return None
        return _made(next(option for option in options if option is not type(None)), value, where)
    if origin is Literal:
        return value if value in get_args(kind) else _refuse(value, where)
    if origin is tuple:
        return _items(get_args(kind), value, where)
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if issubclass(kind, dict) and isinstance(value, dict):
        return kind(**value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if isinstance(value, kind) and type(value) is kind else _refuse(value, where)


def _items(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        _refuse(value, where)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_made(kinds[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if len(value) != len(kinds):
        _refuse(value, where)
    return tuple(_made(kind, item, where) for kind, item in zip(kinds, value, strict=True))


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        _refuse(value, where)
    arguments, hints = {}, _hints(kind)
    for each in fields(kind):
        place = f"{where}.{each.name}" if where else each.name
        if each.name in value:
            arguments[each.name] = _made(hints[each.name], value[each.name], place)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ArgumentError(f"a profile without '{place}'")
    return kind(**arguments)


def _refuse(value: Any, where: str) -> NoReturn:
    raise ArgumentError(f"a profile's '{where}' cannot be {shown(value)}")
