"""Kernels that came with the package: those of common networks, compiled when the wheel was made.

One file has them for all levels of x86-64. A checkout, and a package that was built without that step, have none, and
compile. Nothing in it is ever stale: a kernel is stored under a digest of its spec, the generator's text and the
target's level.

    magic
    u32 number of kernels, then of each: key (32 bytes), start and length of its body (u32, u32)
    bodies: a digest of key and object code, then the object code, compressed

The package's folder is trusted as its source files are; the digests detect damage. A damaged kernel is compiled.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cenote.codegen.cache import generator_digest
from cenote.core.files import open_regular
from cenote.core.target import Target

PATH = Path(__file__).resolve().parent.parent / "data" / "kernels.bundle"

_log = logging.getLogger(__name__)
_MAGIC = b"cenote-kernels-1"
_ENTRY = struct.Struct("<32sII")
_COUNT = struct.Struct("<I")
_DIGEST = 32
_LARGEST = 16 << 20  # bytes of object code in one kernel: some 10 KB


def key(symbol: str, target: Target) -> bytes:
    """Key under which a kernel's object code is stored. It leaves out LLVM's version: code that was tested stays
    valid."""
    return hashlib.sha256("\0".join((generator_digest(), repr(target.of_level()), symbol)).encode()).digest()


def read(symbol: str, target: Target) -> bytes | None:
    """Object code of a kernel, or None when it is not there or damaged."""
    name = key(symbol, target)
    place = _index(PATH).get(name)
    if place is None:
        return None
    try:
        return _unpacked(name, _read(PATH, *place))
    except (OSError, ValueError, zlib.error) as error:
        _log.warning("%s is damaged (%s): what it holds is compiled instead", PATH, error)
        return None


def size() -> tuple[int, int]:
    """Number of kernels in the file, and its bytes."""
    try:
        return len(_index(PATH)), PATH.stat().st_size
    except OSError:
        return 0, 0


def write(path: Path, objects: Mapping[bytes, bytes]) -> None:
    """Write such a file of object code by key."""
    bodies = {name: _packed(name, code) for name, code in sorted(objects.items())}
    at = len(_MAGIC) + _COUNT.size + _ENTRY.size * len(bodies)
    entries = []
    for name, body in bodies.items():
        entries.append(_ENTRY.pack(name, at, len(body)))
        at += len(body)
    path.write_bytes(b"".join((_MAGIC, _COUNT.pack(len(bodies)), *entries, *bodies.values())))


@cache
def _index(path: Path) -> dict[bytes, tuple[int, int]]:
    """Start and length of each body by key."""
    try:
        head = _read(path, 0, len(_MAGIC) + _COUNT.size)
        (count,) = _COUNT.unpack(head[len(_MAGIC) :])
        if head[: len(_MAGIC)] != _MAGIC:
            raise ValueError("another format")
        entries = _read(path, len(head), count * _ENTRY.size)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, struct.error) as error:
        _log.warning("%s is damaged (%s): what it holds is compiled instead", path, error)
        return {}
    return {name: (start, nbytes) for name, start, nbytes in _ENTRY.iter_unpack(entries)}


def _read(path: Path, start: int, nbytes: int) -> bytes:
    """Read bytes of the file. It is not mapped: if the file were cut short meanwhile, the process would be killed."""
    handle = open_regular(path)
    try:
        if start + nbytes > os.fstat(handle).st_size:
            raise ValueError("cut short")
        return os.pread(handle, nbytes, start)
    finally:
        os.close(handle)


def _packed(name: bytes, code: bytes) -> bytes:
    return hashlib.sha256(name + code).digest() + zlib.compress(code, 9)


def _unpacked(name: bytes, body: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    code = unpacker.decompress(body[_DIGEST:], _LARGEST)
    if hashlib.sha256(name + code).digest() != body[:_DIGEST]:
        raise ValueError("a digest differs")
    return code
