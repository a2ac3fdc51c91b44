"""Cache of compiled kernels on disk, so that a second process compiles nothing.

An object file is executable content, so the folder must belong to the user and be writable by nobody else (mode
0700), which is checked at every use (`core.files`); otherwise it is not used. A file is written under another name
and renamed, so a reader never sees half of one; it carries a digest of its name and content, so a damaged or
misplaced one is compiled anew. No failure here is an error, for the cache only saves time; failures are logged once.

Object code has two keys. `key` covers all that it depends on: the kernel's spec, the source text of the generator,
LLVM's version, the target's level; so it is found without generating anything. A change to any source file makes new
keys, and then `key_of_text`, which covers the kernel's LLVM IR, finds the code of all kernels that have not changed:
after an update of Cenote, or an edit, only the others are compiled. Files that have not been used for 90 days are
removed when kernels are compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from contextlib import AbstractContextManager
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from cenote.core.files import PrivateFolder, private_folder
from cenote.core.settings import cache_folder
from cenote.core.target import Target
from cenote.core.version import __version__

_log = logging.getLogger(__name__)
_MAGIC = b"cenote-object-2\n"
_DIGEST = 32
_LARGEST = 64 << 20  # bytes of a file that is read: object code is some 10 KB
GENERATOR = ("codegen", "core", "kernels", "runtime")  # packages that kernels may import, and so depend on
_DAY = 86400
_KEEP_SECONDS = 90 * _DAY
_TOGETHER_SECONDS = 0.25
_PRUNED = "pruned"  # the text under this name is the day on which old files were last removed
_PACKAGE = Path(__file__).resolve().parent.parent


TUNED = "tuned"  # the text under this name changes whenever a layer has been timed


def _state_of_files() -> str:
    lines = [__version__]
    folders = [str(_PACKAGE)]
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".json")):
                    state = entry.stat()
                    lines.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


# Taken at import, before the files that compile are imported, so that it is never newer than their code.
_STATE = _state_of_files()


def is_source_unchanged() -> bool:
    """Whether Cenote's files are those with which this process began: 3.5 ms."""
    return _state_of_files() == _STATE


def source_state() -> str:
    """Digest of names, sizes and dates of all of Cenote's files: it changes with them, and costs 1 ms, not 10."""
    return _STATE


@cache
def generator_digest() -> str:
    """Digest of the source text that turns specs into kernels; it is kept as long as no file changes."""
    name = f"generator-{source_state()}"
    kept = read_text(name)
    if kept is None:
        kept = _generator_digest()
        write_text(name, kept)
    return kept


def _generator_digest() -> str:
    digest = hashlib.sha256()
    for folder in GENERATOR:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(_PACKAGE).as_posix().encode()
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def llvm_version() -> str:
    """Identification of the installed llvmlite, which decides LLVM's version: its file of versions, without importing
    it.

    (Asking importlib.metadata takes 30 ms.)
    """
    spec = PathFinder.find_spec("llvmlite")
    try:
        return Path((spec and spec.origin) or "").with_name("_version.py").read_text()
    except (OSError, ValueError):
        return _installed_version()


def _installed_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("llvmlite")
    except metadata.PackageNotFoundError:  # cenote-runtime needs none, and compiles nothing
        return ""


@cache
def _world(target: Target) -> str:
    return "\0".join((generator_digest(), llvm_version(), repr(target.of_level())))


def key(symbol: str, target: Target) -> str:
    """File name of a kernel's object code."""
    return hashlib.sha256(f"{_world(target)}\0{symbol}".encode()).hexdigest()


@cache
def _pipeline() -> str:
    return hashlib.sha256((_PACKAGE / "codegen" / "llvm.py").read_bytes()).hexdigest()


def key_of_text(text: str, target: Target) -> str:
    """File name of the object code of a kernel's LLVM IR."""
    world = "\0".join((_pipeline(), llvm_version(), repr(target.of_level())))
    return hashlib.sha256(f"text\0{world}\0{text}".encode()).hexdigest()


def folder(name: str = "objects") -> AbstractContextManager[PrivateFolder | None]:
    """Folder of the cache, open and checked; None where it cannot be used (`problem` says why)."""
    base = cache_folder()
    if base is not None:
        try:
            return private_folder(base, name)
        except (OSError, ValueError) as error:
            _tell(str(error))
    return contextlib.nullcontext()


@cache
def _tell(problem: str) -> None:
    """Log, once per process, the problem of the cache."""
    _log.warning("the cache is not used: %s (CENOTE_CACHE names another folder; 'off' does without)", problem)


def problem() -> str:
    """Reason why the cache cannot be used or written to, though it is on; "" when it can."""
    base = cache_folder()
    if base is None:
        return ""
    try:
        with private_folder(base, "objects") as place:
            return place.problem()
    except (OSError, ValueError) as error:
        return str(error)


def read(symbol: str, target: Target) -> bytes | None:
    """Object code of a kernel, or None when it is not there or damaged."""
    return read_code(key(symbol, target))


def write(symbol: str, target: Target, code: bytes) -> None:
    """Store object code; a failure is only logged."""
    write_code(key(symbol, target), code)


class KernelWriter:
    """Store of object code that one target's compiler delivers.

    A module is imported when it is first needed. Where the package was updated or edited meanwhile, its code is newer
    than the keys, which this process took at its start: it is not stored, or a return to the old source would run it.
    The check is made for all that came within a quarter of a second, and after it was compiled.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._waiting: dict[str, bytes] = {}
        self._stored = time.monotonic()

    def add(self, symbol: str, code: bytes) -> None:
        """Store object code, now or with the next."""
        self._waiting[symbol] = code
        if time.monotonic() - self._stored > _TOGETHER_SECONDS:
            self.finish()

    def finish(self) -> None:
        """Store what waits; failures are only logged."""
        if not self._waiting:
            return
        if is_source_unchanged():
            for symbol, code in self._waiting.items():
                write(symbol, self.target, code)
        else:
            _log.info("%d kernels are not stored: source files have changed", len(self._waiting))
        self._waiting.clear()
        self._stored = time.monotonic()


def read_text(name: str) -> str | None:
    """Return the small text stored under a name."""
    content = read_code(name)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def write_text(name: str, text: str) -> None:
    """Store a small text."""
    write_code(name, text.encode())


def _digest(name: str, body: bytes) -> bytes:
    """Digest of name and content; the name is covered so that a file under another's name is not accepted."""
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def read_code(name: str) -> bytes | None:
    """Return the content stored under a key, or None when it is not there or damaged."""
    with folder() as place:
        if place is None:
            return None
        try:
            content = place.read(name, _LARGEST)
        except (OSError, MemoryError):
            return None
    head = len(_MAGIC) + _DIGEST
    body = content[head:]
    if content[: len(_MAGIC)] != _MAGIC or _digest(name, body) != content[len(_MAGIC) : head]:
        return None
    return body


def write_code(name: str, body: bytes) -> None:
    """Store object code under a key; a failure is only logged."""
    with folder() as place:
        if place is None:
            return
        try:
            with place.replacing(name) as file:
                file.write(_MAGIC + _digest(name, body) + body)
        except OSError as error:
            _tell(place.problem() or f"{place.path}: {error.strerror}")


def prune() -> int:
    """Once a day, remove files that have not been read or written for 90 days; return their number."""
    today = str(int(time.time()) // _DAY)
    if read_text(_PRUNED) == today:
        return 0
    write_text(_PRUNED, today)
    removed, oldest = 0, time.time() - _KEEP_SECONDS
    with contextlib.suppress(OSError), folder() as place:
        for name, state in [] if place is None else place.files():
            if place is not None and max(state.st_atime, state.st_mtime) < oldest:
                with contextlib.suppress(OSError):
                    place.remove(name)
                    removed += 1
    return removed
