"""Static libraries. Format: ar(5) with GNU's index of symbols and table of long names."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_LARGEST = 1 << 32  # the index has places of 32 bits


@dataclass(frozen=True)
class Member:
    """Object file of a library: its content in pieces that have so many bytes in all, and the symbols it defines."""

    name: str
    content: Iterable[bytes]
    nbytes: int
    symbols: Sequence[str]


def archive(members: Sequence[Member]) -> Iterator[bytes]:
    """Yield a static library piece by piece. The same members give the same bytes.

    Raises UnsupportedError for members of 4 GB or more in all.
    """
    # The sizes of both tables count the byte that makes them even: readelf looks for the next member behind them.
    names = b"".join(f"{member.name}/\n".encode() for member in members)
    names += b"\n" * (len(names) % 2)
    symbols = [symbol for member in members for symbol in member.symbols]
    index_bytes = _even(4 + 4 * len(symbols) + sum(len(symbol.encode()) + 1 for symbol in symbols))
    at = len(_MAGIC) + 2 * _HEADER_BYTES + index_bytes + len(names)
    places: list[int] = []
    for member in members:
        places += [at] * len(member.symbols)
        at += _HEADER_BYTES + _even(member.nbytes)
    if at >= _LARGEST:
        raise UnsupportedError(
            f"a static library of {at:,} bytes: keep the weights beside it (weights='beside')"
        )
    index = struct.pack(f">I{len(places)}I", len(symbols), *places)
    index += b"".join(symbol.encode() + b"\0" for symbol in symbols)
    yield _MAGIC
    yield _header("/", index_bytes) + index + bytes(len(index) % 2)
    yield _header("//", len(names)) + names
    name_at = 0
    for member in members:
        yield _header(f"/{name_at}", member.nbytes)
        yield from member.content
        yield b"\n" * (member.nbytes % 2)
        name_at += len(member.name) + 2


def _even(nbytes: int) -> int:
    return nbytes + nbytes % 2


def _header(name: str, nbytes: int) -> bytes:
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{nbytes:<10}`\n".encode()
