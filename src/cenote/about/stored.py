"""Content of the cache, and its removal. `cenote cache` prints and calls this."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from typing import Literal

from cenote.codegen import cache
from cenote.core.deferred import dataclass
from cenote.core.files import PrivateFolder
from cenote.plans.later import finish
from cenote.plans.reader import PlanFile

Kind = Literal["kernel", "model", "note"]
_FOLDERS = ("objects", "plans")
_KERNEL = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedFile:
    """A file of the cache: a compiled kernel, a part of a compiled model, or a note (what was measured, digests).

    `used` is the time when it was last written or, as far as the system records that, read: seconds since 1970. `model`
    is the path that a compiled model was loaded from when it was written, or its graph's name; "" for others.
    """

    kind: Kind
    name: str
    nbytes: int
    used: float
    model: str = ""


def cache_contents() -> tuple[CachedFile, ...]:
    """Return all files of the cache; none where it is off or cannot be used (`info().cache.problem` says why).

    Waits until this process has written its files.
    """
    files = []
    for name, place, file, state in _files():
        used = max(state.st_mtime, state.st_atime if name == "objects" else 0.0)
        model = _model_of(place, file) if name == "plans" else ""
        files.append(CachedFile(_kind(name, file), file, state.st_size, used, model))
    return tuple(sorted(files, key=lambda each: (each.kind, -each.used, each.name)))


def clear_cache(*, kernels: bool = True, models: bool = True) -> int:
    """Remove compiled kernels, compiled models or both from the cache (with both, its notes too); return how many
    files.

    Running processes keep what they have loaded. Waits until this process has written its files. Files that cannot be
    removed are left without an error.
    """
    wanted = {"kernel": kernels, "model": models, "note": kernels and models}
    removed = 0
    for name, place, file, _ in _files():
        if wanted[_kind(name, file)]:
            with contextlib.suppress(OSError):
                place.remove(file)
                removed += 1
    _log.info("removed %d files from the cache", removed)
    return removed


def _files() -> Iterator[tuple[str, PrivateFolder, str, os.stat_result]]:
    """Yield the files of each folder, once this process has written its own; those that are being written have names
    with a dot."""
    finish()
    for name in _FOLDERS:
        with cache.folder(name) as place:
            for file, state in () if place is None else place.files():
                if place is not None and not file.startswith("."):
                    yield name, place, file, state


def _model_of(place: PrivateFolder, name: str) -> str:
    """Return what a compiled model was made from; "" where the file cannot be read."""
    try:
        with PlanFile(place.open(name), place.path / name) as file:
            return file.named()
    except OSError:
        return ""


def _kind(folder: str, name: str) -> Kind:
    if folder == "plans":
        return "model"
    return "kernel" if _KERNEL.fullmatch(name) else "note"
