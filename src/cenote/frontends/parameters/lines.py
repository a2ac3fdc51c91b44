"""JSON whose objects have the line on which they begin, so that an error can name it."""

from __future__ import annotations

import json
from collections.abc import Collection
from json import scanner
from typing import Any

from cenote.core.errors import ModelError, shown


class JsonObject(dict[str, Any]):
    """An object of a JSON file."""

    line = 0

    def fail(self, problem: str) -> ModelError:
        """Return the error for a fault of this object."""
        return ModelError(f"line {self.line}: {problem}")

    def only(self, *names: str) -> None:
        """Refuse keys that are never read."""
        unknown = sorted(set(self) - set(names))
        if unknown:
            raise self.fail(f"unknown key {', '.join(map(repr, unknown))} (known: {', '.join(names)})")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.get(key, default)
        if not isinstance(value, str):
            raise self.fail(f"'{key}' must be a text, not {shown(value)}")
        return value

    def list(self, key: str, kinds: type | tuple[type, ...]) -> Any:
        """Return a list whose elements are of these kinds."""
        value = self.get(key)
        if not isinstance(value, list) or not all(
            isinstance(item, kinds) and not isinstance(item, bool) for item in value
        ):
            raise self.fail(f"'{key}' must be a list of its kind, not {shown(value)}")
        return value

    def record(self, key: str) -> JsonObject:
        value = self.get(key)
        if not isinstance(value, JsonObject):
            raise self.fail(f"'{key}' must be an object, not {shown(value)}")
        return value

    def choice(self, key: str, known: Collection[Any]) -> Any:
        value = self.get(key)
        if isinstance(value, list | dict) or value not in known:
            raise self.fail(f"'{key}' is {shown(value)}, which is none of {', '.join(map(str, known))}")
        return value


def parse(text: str) -> JsonObject:
    """Parse a file's object. Raises ModelError naming the line for invalid JSON, or a key given twice."""

    class Decoder(json.JSONDecoder):
        def __init__(self) -> None:
            super().__init__(object_pairs_hook=_unique)
            inner: Any = self.parse_object  # type: ignore[has-type]  # of the base class

            def parse_object(start: tuple[str, int], *rest: Any) -> tuple[JsonObject, int]:
                line = text.count("\n", 0, start[1]) + 1
                try:
                    record, end = inner(start, *rest)
                except _Twice as error:
                    raise ModelError(f"line {line}: '{error}' is given twice") from None
                record.line = line
                return record, end

            self.parse_object = parse_object
            # The Python scanner calls `self.parse_object`.
            self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    try:
        record = Decoder().decode(text)
    except json.JSONDecodeError as error:
        raise ModelError(f"line {error.lineno}: this is no JSON ({error.msg})") from None
    except (RecursionError, ValueError) as error:
        # ValueError: an integer of thousands of digits.
        raise ModelError(f"this is no JSON that can be read ({error})") from None
    if not isinstance(record, JsonObject):
        raise ModelError("line 1: the file must hold one object")
    return record


class _Twice(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    record = JsonObject()
    for key, value in pairs:
        if key in record:
            raise _Twice(key)
        record[key] = value
    return record
