"""Digests of whole files, computed by several threads: names of cached plans, and checks for damage.

A model is identified by a SHA-256 of its content. The constants of a plan are checked by CRC-32s: they must detect
accidents, not forgeries (anybody who can write a plan can put code there), and a CRC-32 detects every error of up to
32 neighbouring bits.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from functools import cache

from cenote.codegen import cache as object_cache
from cenote.core.files import open_regular
from cenote.runtime.pieces import on_all_cores

# Bytes that one thread digests at a time.
_CHUNK = 1 << 20
# Bytes read at a time: they stay in the cache, and the digest needs no memory for the whole model.
_BLOCK = 1 << 18
# Bytes of constants with a checksum of their own.
CHUNK = 1 << 16
# Chunks: constants with no more are checked at every load.
_SMALL = 4
# Chunks: 2 MB take 1 ms.
_WORTH_A_THREAD = 32
# Nanoseconds since a file's last change after which its date distinguishes states.
_SETTLED = 2_000_000_000


def of_bytes(content: bytes) -> str:
    """Return the digest of bytes, equal to that of a file which holds them."""
    view = memoryview(content)

    def piece(index: int) -> bytes:
        return hashlib.sha256(view[index * _CHUNK : (index + 1) * _CHUNK]).digest()

    return _joined(len(content), piece)


def of_file(path: str | os.PathLike[str]) -> str:
    """Return the digest of a file's content. Raises OSError, also for a path that is no regular file."""
    handle = open_regular(path)
    try:

        def piece(index: int) -> bytes:
            digest, block = hashlib.sha256(), memoryview(bytearray(min(_BLOCK, size)))
            at, end = index * _CHUNK, min((index + 1) * _CHUNK, size)
            while at < end:
                got = os.preadv(handle, [block[: end - at]], at)
                if not got:
                    raise OSError(f"{path} became shorter")
                digest.update(block[:got])
                at += got
            return digest.digest()

        size = os.fstat(handle).st_size
        return _joined(size, piece)
    finally:
        os.close(handle)


def of_pairs(folder: str | os.PathLike[str]) -> str:
    """Return the digest of the names and contents of a folder's `.bat` files; "" where there are none. Raises
    OSError."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".bat"))
    parts = [f"{name}\0{of_file(os.path.join(folder, name))}" for name in names]
    return of_bytes("\0".join(parts).encode("utf-8", "surrogateescape")) if parts else ""


def _joined(nbytes: int, piece: Callable[[int], bytes]) -> str:
    """Return the digest of the pieces' digests: SHA-256 runs at 1 to 1.6 GB/s a core, without the GIL."""
    count = -(-nbytes // _CHUNK)
    digest_of: dict[int, bytes] = {}

    def work(index: int) -> None:
        digest_of[index] = piece(index)

    on_all_cores(count, work, 1)
    digests = [nbytes.to_bytes(8, "little"), *(digest_of[index] for index in range(count))]
    return hashlib.sha256(b"".join(digests)).hexdigest()


# ---- checksums of constants -----------------------------------------------------------------------------------------


def checksums(pieces: Iterable[memoryview]) -> bytes:
    """Return the CRC-32 of each chunk of the concatenated pieces, as little-endian words."""
    sums, current, room = list[int](), 0, CHUNK
    for piece in pieces:
        at = 0
        while at < len(piece):
            part = piece[at : at + room]
            current, room, at = zlib.crc32(part, current), room - len(part), at + len(part)
            if not room:
                sums.append(current)
                current, room = 0, CHUNK
    if room < CHUNK:
        sums.append(current)
    return struct.pack(f"<{len(sums)}I", *sums)


def is_sound(content: memoryview, sums: bytes, handle: int) -> bool:
    """Return whether the chunks of a mapped file's constants have these checksums.

    They are computed once per state of the file and boot of the machine: the verdict is kept in the cache. Checking
    100 MB takes 20 to 40 ms. (Checking a few chunks at every load, others each time, was tried: they are pages that
    nobody has read lately, and made the load of ResNet-50's plan take 9.0 ms instead of 7.2.)
    """
    wanted = struct.unpack(f"<{len(sums) // 4}I", sums)
    if len(wanted) != -(-len(content) // CHUNK):
        return False
    state = os.fstat(handle)
    if len(wanted) > _SMALL and _is_known(state):
        return True
    wrong = list[int]()

    def work(index: int) -> None:
        if zlib.crc32(content[index * CHUNK : (index + 1) * CHUNK]) != wanted[index]:
            wrong.append(index)

    on_all_cores(len(wanted), work, _WORTH_A_THREAD)
    if not wrong and len(wanted) > _SMALL:
        _remember(state, os.fstat(handle))
    return not wrong


_known: set[str] = set()


def _identity(state: os.stat_result) -> str:
    """Return a text that changes when a file is written to or replaced, and when the machine restarts and reads it
    from the disk."""
    fields = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns, _boot())
    return " ".join(map(str, fields))


def _record(state: os.stat_result) -> str:
    """Return the name under which the cache keeps the last verdict on a file."""
    return f"verified-{state.st_dev}-{state.st_ino}"


@cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _is_known(state: os.stat_result) -> bool:
    identity = _identity(state)
    if identity not in _known and object_cache.read_text(_record(state)) != identity:
        return False
    _known.add(identity)
    return True


def _remember(before: os.stat_result, after: os.stat_result) -> None:
    """Keep the verdict that a file is sound, if its state is settled. Dates count in ticks of up to 10 ms: a file
    that changed just now could change again and keep its date."""
    settled = time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > _SETTLED
    if settled and _identity(before) == _identity(after):
        _known.add(_identity(before))
        object_cache.write_text(_record(before), _identity(before))
