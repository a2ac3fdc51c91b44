"""Numbers, names and vectors of WebAssembly's binary format (WebAssembly Core Specification, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.errors import CodegenError


class Reader:
    """Reader of a part of a module."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end
        if self.end > len(data):
            raise CodegenError("the WebAssembly object ends early")

    @property
    def more(self) -> bool:
        """Whether there is more to read."""
        return self.at < self.end

    def byte(self) -> int:
        if self.at >= self.end:
            raise CodegenError("the WebAssembly object ends early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        value, _, _ = self._number()
        return value

    def signed(self) -> int:
        value, shift, last = self._number()
        return value - (1 << shift) if last & 64 else value

    def _number(self) -> tuple[int, int, int]:
        """Return a number in groups of seven bits, the bits that it has, and its last byte."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, shift, byte

    def bytes(self, count: int) -> bytes:
        if self.at + count > self.end:
            raise CodegenError("the WebAssembly object ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        return self.bytes(self.unsigned()).decode()

    def part(self) -> Reader:
        """Return the reader of a part whose size comes first, and go on behind it."""
        size = self.unsigned()
        part = Reader(self.data, self.at, self.at + size)
        self.at += size
        return part


def unsigned(value: int) -> bytes:
    """Return a number of no sign in as few bytes as it needs."""
    made = bytearray()
    while True:
        value, byte = value >> 7, value & 127
        made.append(byte | 128 if value else byte)
        if not value:
            return bytes(made)


def signed(value: int) -> bytes:
    """Return a number with a sign in as few bytes as it needs."""
    made = bytearray()
    while True:
        value, byte = value >> 7, value & 127
        last = value == (-1 if byte & 64 else 0)
        made.append(byte if last else byte | 128)
        if last:
            return bytes(made)


def address(value: int) -> bytes:
    """Return an address of 32 bits as the operand of i32.const, which has a sign."""
    return signed(value - (1 << 32) if value >= 1 << 31 else value)


def vector(items: Sequence[bytes]) -> bytes:
    """Return items behind their number."""
    return unsigned(len(items)) + b"".join(items)


def name(text: str) -> bytes:
    """Return a name behind its length."""
    encoded = text.encode()
    return unsigned(len(encoded)) + encoded


def section(kind: int, content: bytes) -> bytes:
    """Return a section of a module."""
    return bytes([kind]) + unsigned(len(content)) + content
