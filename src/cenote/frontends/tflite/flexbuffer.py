"""FlexBuffers: maps of numbers, texts and lists of them, in which TensorFlow Lite stores options of custom operators.

https://flatbuffers.dev/internals#flexbuffers. The last two bytes are the type of the root and its width. Offsets are
distances back from the place that holds them.
"""

from __future__ import annotations

import struct
from typing import Any

from cenote.core.errors import ModelError

_INT, _UINT, _FLOAT, _KEY, _TEXT, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _LIST = range(1, 11)
_BOOL, _BOOLS = 26, 36
# Lists whose elements have one type, by the type of the list.
_TYPED = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, _BOOLS: _BOOL}
_INDIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}
_FORMS = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: " efd"}
_DEEPEST = 8
_MOST = 1 << 16


def flex_map(content: bytes) -> dict[str, Any]:
    """Return a map with numbers, texts and tuples of them.

    Raises ModelError for content that is no such map.
    """
    if len(content) < 3:
        raise ModelError("no FlexBuffer: it has less than three bytes")
    width, packed = content[-1], content[-2]
    if width not in (1, 2, 4, 8) or packed >> 2 != _MAP:
        raise ModelError("no FlexBuffer that is a map")
    reader = _Reader(content)
    at = reader.target(len(content) - 2 - width, width)
    return reader.map(at, 1 << (packed & 3))


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.left = _MOST

    def number(self, at: int, width: int, kind: int = _UINT) -> Any:
        """Return a number of `width` bytes."""
        form = _FORMS[kind][width.bit_length() - 1]
        if not 0 <= at <= len(self.content) - width or form == " ":
            raise ModelError("damaged: a number outside of the FlexBuffer")
        return struct.unpack_from(f"<{form}", self.content, at)[0]

    def target(self, at: int, width: int) -> int:
        """Return the place that an offset leads to."""
        found = at - int(self.number(at, width))
        if not 0 <= found <= at:  # an empty map has no elements between
            raise ModelError("damaged: an offset out of the FlexBuffer")
        return found

    def size(self, at: int, width: int) -> int:
        """Return the number of elements that stands before them; all elements of a buffer are counted."""
        size = int(self.number(at - width, width))
        self.left -= size
        if self.left < 0 or at + size > len(self.content):
            raise ModelError("damaged: a list that is larger than the FlexBuffer")
        return size

    def map(self, at: int, width: int) -> dict[str, Any]:
        keys = self.target(at - 3 * width, width)
        key_width = int(self.number(at - 2 * width, width))
        if key_width not in (1, 2, 4, 8):
            raise ModelError("damaged: keys of no width")
        size = self.size(at, width)
        if self.number(keys - key_width, key_width) != size:
            raise ModelError("damaged: a map with another number of keys than of values")
        names = [self.key(self.target(keys + i * key_width, key_width)) for i in range(size)]
        if len(set(names)) != size:
            raise ModelError("damaged: a key that is there twice")
        return dict(zip(names, self.elements(at, width, size, 0), strict=True))

    def key(self, at: int) -> str:
        end = self.content.find(b"\0", at)
        if end < 0:
            raise ModelError("damaged: a key without an end")
        return self._decoded(self.content[at:end])

    def text(self, at: int, width: int) -> str:
        return self._decoded(self.content[at : at + self.size(at, width)])

    def _decoded(self, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ModelError("damaged: a text that is none") from error

    def elements(self, at: int, width: int, size: int, deep: int) -> tuple[Any, ...]:
        """Return the elements of a list whose types follow them."""
        types = self.content[at + size * width : at + size * width + size]
        if len(types) != size or deep > _DEEPEST:
            raise ModelError("damaged: a list outside of the FlexBuffer")
        return tuple(self.element(at + i * width, width, packed, deep) for i, packed in enumerate(types))

    def element(self, at: int, width: int, packed: int, deep: int) -> Any:
        """Return the element at a place; `packed` is its type and the width of what it refers to."""
        kind, own = packed >> 2, 1 << (packed & 3)
        if kind == _BOOL:
            return bool(self.number(at, width, kind))
        if kind in _FORMS:
            return self.number(at, width, kind)
        if kind not in (_KEY, _TEXT, _LIST, *_INDIRECT, *_TYPED):
            raise ModelError(f"a FlexBuffer with a value of type {kind} is not supported")
        there = self.target(at, width)
        if kind == _KEY:
            return self.key(there)
        if kind == _TEXT:
            return self.text(there, own)
        if kind in _INDIRECT:
            return self.number(there, own, _INDIRECT[kind])
        size = self.size(there, own)
        if kind == _LIST:
            return self.elements(there, own, size, deep + 1)
        each = _TYPED[kind] << 2
        return tuple(self.element(there + i * own, own, each, deep + 1) for i in range(size))
