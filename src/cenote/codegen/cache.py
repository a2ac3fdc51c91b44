"""Compiled kernels on disk, so that a second process compiles nothing.

An object file is executable content, so the folder must belong to the user and be writable by nobody else (mode 0700);
otherwise it is not used. A file is written aside and renamed, so a reader never sees half of one; it carries a digest,
so a damaged one is compiled anew. Nothing that goes wrong here is an error: the cache only saves time.

The key covers all that the code depends on: the kernel's spec, the source text of the generator, LLVM's version, the
target. A change to any kernel's source makes new keys; `prune` removes what has not been used for long.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import BinaryIO

from cenote.core.settings import cache_folder
from cenote.core.target import Target
from cenote.core.version import __version__

_MAGIC = b"cenote-object-1\n"
_DIGEST = 32
_KEEP_SECONDS = 90 * 86400
_PACKAGE = Path(__file__).resolve().parent.parent


TUNED = "tuned"  # the text under this name changes whenever a layer has been timed


def _state_of_files() -> str:
    lines = [__version__]
    folders = [str(_PACKAGE)]
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    state = entry.stat()
                    lines.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


# Taken when this is imported, before the files that compile are, so that it is never newer than their code.
_STATE = _state_of_files()


def source_state() -> str:
    """Digest of names, sizes and dates of all of Cenote's files: it changes with them, and costs 1 ms, not 10."""
    return _STATE


@cache
def generator_digest() -> str:
    """Digest of the source text that turns specs into kernels; kept for as long as no file changes."""
    name = f"generator-{source_state()}"
    kept = read_text(name)
    if kept is None:
        kept = _generator_digest()
        write_text(name, kept)
    return kept


def _generator_digest() -> str:
    package = _PACKAGE
    digest = hashlib.sha256()
    for folder in ("codegen", "kernels"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def llvm_version() -> str:
    """What identifies the installed llvmlite, which decides LLVM's version: its file of versions, without importing it.

    (Asking importlib.metadata takes 30 ms.)
    """
    spec = PathFinder.find_spec("llvmlite")
    try:
        return Path((spec and spec.origin) or "").with_name("_version.py").read_text()
    except (OSError, ValueError):
        return _installed_version()


def _installed_version() -> str:
    from importlib import metadata

    return metadata.version("llvmlite")


@cache
def _world(target: Target) -> str:
    return "\0".join((generator_digest(), llvm_version(), repr(target)))


def key(symbol: str, target: Target) -> str:
    """File name of a kernel's object code."""
    return hashlib.sha256(f"{_world(target)}\0{symbol}".encode()).hexdigest()


def _is_safe(folder: Path) -> bool:
    """A real directory that is ours and that nobody else can write to."""
    state = folder.lstat()
    ours = not hasattr(os, "getuid") or state.st_uid == os.getuid()
    return stat.S_ISDIR(state.st_mode) and ours and not state.st_mode & 0o022


@cache
def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _is_safe(folder)
    except OSError:
        return False


def folder(name: str = "objects") -> Path | None:
    """A folder of the cache if it can be used."""
    base = cache_folder()
    if base is None:
        return None
    path = base / name
    return path if _usable(path) else None


def read(symbol: str, target: Target) -> bytes | None:
    """Object code of a kernel, or None when it is not there or damaged."""
    return _read(key(symbol, target))


def write(symbol: str, target: Target, code: bytes) -> None:
    """Keep object code; quietly does nothing when it cannot."""
    _write(key(symbol, target), code)


def read_text(name: str) -> str | None:
    """A small text kept under a name."""
    content = _read(name)
    return None if content is None else content.decode()


def write_text(name: str, text: str) -> None:
    """Keep a small text."""
    _write(name, text.encode())


def _read(name: str) -> bytes | None:
    place = folder()
    if place is None:
        return None
    try:
        content = (place / name).read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST
    body = content[head:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : head]:
        return None
    return body


def _write(name: str, body: bytes) -> None:
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError), replacing(place / name) as file:
        file.write(_MAGIC + hashlib.sha256(body).digest() + body)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file that takes this place when it has been written: readers see the whole of it or none."""
    aside = path.with_name(f".new-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def prune() -> int:
    """Remove files that nobody has read or written for 90 days; how many went."""
    place, removed = folder(), 0
    if place is None:
        return 0
    for path in place.iterdir():
        with contextlib.suppress(OSError):
            state = path.stat()
            if max(state.st_atime, state.st_mtime) < time.time() - _KEEP_SECONDS:
                path.unlink()
                removed += 1
    return removed
