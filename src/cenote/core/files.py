"""Files and folders that may hold code which this process will run: opened once, checked, then used by descriptor.

A check of a path is worth nothing if somebody can exchange what the path leads to. So a folder is opened, the open
folder is checked, and files in it are reached through its descriptor. Nothing is remembered: every use checks again
(10 us). Opening never blocks (a named pipe would), and reading is bounded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Self

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = 0o022


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading and return a descriptor. Raises OSError for anything else: a folder, a pipe, a
    device."""
    return _open_regular(path)[0]


def reading(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. Raises as `open_regular`."""
    return open(open_regular(path), "rb")


def _open_regular(
    path: str | os.PathLike[str], dir_fd: int | None = None, flags: int = 0
) -> tuple[int, os.stat_result]:
    try:
        handle = os.open(path, _READ | flags, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.ENXIO:  # of sockets, and of devices that do not exist
            raise
        raise OSError(f"{os.fspath(path)} is not a regular file") from error
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise OSError(f"{os.fspath(path)} is not a regular file")
    return handle, state


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], mode: int = 0o600, dir_fd: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file that replaces this path when it has been written: readers see the whole of it or none. An OSError
    names the path."""
    folder, _ = os.path.split(path)
    aside = os.path.join(folder, f".new-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}")
    try:  # Ctrl-C may arrive after any call, and must leave neither file nor descriptor
        with open(aside, "xb", opener=partial(os.open, mode=mode, dir_fd=dir_fd)) as file:
            yield file
        os.replace(aside, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=dir_fd)
        if isinstance(error, OSError) and error.errno and error.filename in (None, aside):
            # The error of a full disk names no file.
            error.filename, error.filename2 = os.fspath(path), None
        raise


class PrivateFolder:
    """Open folder that belongs to this user and that nobody else can write to; so must the files read from it."""

    def __init__(self, handle: int, path: Path) -> None:
        self.handle, self.path = handle, path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; closing again does nothing."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def open(self, name: str) -> int:
        """Open a file for reading and return a descriptor. Raises OSError where there is none that can be trusted."""
        return self._open(name)[0]

    def _open(self, name: str) -> tuple[int, os.stat_result]:
        handle, state = _open_regular(name, self.handle, os.O_NOFOLLOW)
        try:
            _check_owner(state, self.path / name)
        except OSError:
            os.close(handle)
            raise
        return handle, state

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most `most` bytes; OSError as `open`, and for a larger one."""
        handle, state = self._open(name)
        try:
            content = os.read(handle, state.st_size) if state.st_size <= most else b""
        finally:
            os.close(handle)
        if not content or len(content) != state.st_size:
            raise OSError(f"{self.path / name} is empty, too large or changing")
        return content

    def replacing(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file that replaces `name` when it has been written, readable by its owner alone."""
        return replacing(name, 0o600, self.handle)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self.handle)

    def touch(self, name: str) -> None:
        """Set a file's time of use to now."""
        os.utime(name, dir_fd=self.handle, follow_symlinks=False)

    def files(self) -> list[tuple[str, os.stat_result]]:
        """Return name and state of every entry."""
        entries_found = []
        with os.scandir(self.handle) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # removed meanwhile
                    entries_found.append((entry.name, entry.stat(follow_symlinks=False)))
        return entries_found

    def problem(self) -> str:
        """Reason why nothing can be written here; "" when something can."""
        if not os.access(".", os.W_OK, dir_fd=self.handle):
            return f"{self.path} cannot be written to"
        return "" if os.fstatvfs(self.handle).f_bavail else f"the disk of {self.path} is full"


def private_folder(base: Path, name: str) -> PrivateFolder:
    """Open the folder `name` in `base`, made with mode 0700 (and its parents) where it is missing.

    `base` must belong to this user or to root, and others must not be able to exchange its entries (no write
    permission, or the sticky bit). Raises OSError that describes the problem.
    """
    outer = _opened(base)
    try:
        _check_base(os.fstat(outer), base)
        inner = _opened(name, outer)
    finally:
        os.close(outer)
    try:
        _check_owner(os.fstat(inner), base / name)
    except OSError:
        os.close(inner)
        raise
    return PrivateFolder(inner, base / name)


def _opened(path: str | Path, dir_fd: int | None = None) -> int:
    flags = _READ | os.O_DIRECTORY | (0 if dir_fd is None else os.O_NOFOLLOW)
    try:
        return os.open(path, flags, dir_fd=dir_fd)
    except FileNotFoundError:
        _make(Path(path), dir_fd)
        return os.open(path, flags, dir_fd=dir_fd)


def _make(path: Path, dir_fd: int | None) -> None:
    if dir_fd is None and not path.parent.exists():
        _make(path.parent, None)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700, dir_fd=dir_fd)
        os.chmod(path, 0o700, dir_fd=dir_fd)  # whatever the umask


def _is_open_to_others(state: os.stat_result) -> bool:
    return bool(state.st_mode & _OTHERS_WRITE)


def _check_base(state: os.stat_result, path: Path) -> None:
    if state.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{path} belongs to another user")
    if _is_open_to_others(state) and not state.st_mode & stat.S_ISVTX:
        raise PermissionError(f"{path} can be written to by other users (mode {state.st_mode & 0o777:o})")


def _check_owner(state: os.stat_result, path: Path) -> None:
    if state.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if _is_open_to_others(state):
        raise PermissionError(f"{path} can be written to by other users (mode {state.st_mode & 0o777:o})")
