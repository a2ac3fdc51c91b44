"""Compiled models in the cache folder, so that a second process loads a model as it would load a plan file.

A plan (`format`) is kept under a digest of all that it depends on: the model's bytes (its content, not its name or
date), the options that change a plan, the CPU, the settings, and Cenote itself. Weights in files beside the model are
held to the digests that the plan records. So nothing stale is ever used: what changed has another name, and old plans
go, the least recently used first, when there are more than CENOTE_PLAN_CACHE megabytes.

Like kernels, plans are executable content: the folder must be the user's own (mode 0700). A file is written aside and
renamed; a damaged one is dropped and made anew. Nothing that goes wrong here is an error.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from cenote.codegen import cache as object_cache
from cenote.codegen import jit
from cenote.core import settings
from cenote.core.errors import CenoteError
from cenote.plans import fingerprint, reader
from cenote.plans.format import StoredModel
from cenote.plans.writer import save

Shapes = tuple[tuple[int, ...], ...]

_ABANDONED = 3600.0  # seconds after which a file that is still being written belongs to a process that died
_MEGABYTE = 1_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Sets of shapes that a process adds for a model with symbolic dimensions: each holds all weights.
_SHAPES_KEPT = 1


class Keeper:
    """The place in the cache of one model loaded in one way."""

    def __init__(self, content: str, folder: Path | None, options: Mapping[str, str]) -> None:
        """`content`: digest of the model; `folder`: where it lies, and with it files that hold its weights."""
        self.content, self.folder, self.options = content, folder, options
        self.external: Mapping[str, str] = {}
        self._left = _SHAPES_KEPT

    def find(self, shapes: Shapes | None, threads: int) -> StoredModel | None:
        """The model as it was kept: when it had been loaded (None), or with the plan for these shapes."""
        path = self._path(shapes)
        if path is None or not path.is_file():
            return None
        try:
            stored = reader.read(path, threads)
        except (CenoteError, OSError):
            with contextlib.suppress(OSError):
                path.unlink()  # damaged
            return None
        if not self._holds(stored.external):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        self.external = stored.external
        return stored

    def keep(self, shapes: Shapes | None, model: StoredModel) -> None:
        """Put a model there, quietly if that is not possible; a full disk is told once."""
        if shapes is not None:
            self._left -= 1
        path, room = self._path(shapes), settings.PLAN_CACHE.integer() * _MEGABYTE
        nbytes = sum(
            {id(x): x.nbytes for plan in model.plans.values() for x in plan.program.constants}.values()
        )
        if path is None or self._left < 0 or not 0 <= nbytes < room:
            return
        try:
            save(path, replace(model, external=self.external), private=True)
            _make_room(path, room)
        except OSError as error:
            if error.errno in _FULL:
                _tell_full(path.parent)
        except CenoteError:
            pass  # a host step that cannot be written down

    def note_external(self, names: Sequence[str]) -> None:
        """The files beside the model that its weights were read from."""
        assert self.folder is not None or not names
        self.external = {name: fingerprint.of_file(Path(self.folder or "", name)) for name in names}

    def is_of(self, source: object) -> bool:
        """Is the model still what it was?"""
        return _content(source) == self.content and self._holds(self.external)

    def _holds(self, external: Mapping[str, str]) -> bool:
        """Do the files with the weights have the content that the plan was made from?"""
        try:
            return all(
                fingerprint.of_file(Path(self.folder or "", name)) == digest
                for name, digest in external.items()
            )
        except OSError:
            return False

    def _path(self, shapes: Shapes | None) -> Path | None:
        folder = object_cache.folder("plans")
        if folder is None:
            return None
        parts = [self.content, *(f"{name}={value}" for name, value in sorted(self.options.items())), _world()]
        if self.options.get("tune") != "off":
            parts.append(object_cache.read_text(object_cache.TUNED) or "")
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return (
            folder
            / f"{name}{'' if shapes is None else f'-{hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]}'}.cenote"
        )


def keeper_of(source: object, options: Mapping[str, str]) -> Keeper | None:
    """The place of a model given by its path or its bytes; None when plans are not cached, or the file not readable."""
    if not settings.PLAN_CACHE.integer() or object_cache.folder("plans") is None:
        return None
    content = _content(source)
    if content is None:
        return None
    return Keeper(content, None if isinstance(source, bytes) else Path(str(source)).parent, options)


def _content(source: object) -> str | None:
    """Digest of a model's content; None for one that is neither bytes nor a file that can be read."""
    if isinstance(source, bytes):
        return fingerprint.of_bytes(source)
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        return fingerprint.of_file(source)
    except (OSError, ValueError):
        return None  # the front end says what is wrong


def _world() -> str:
    """What plans depend on besides the model and the options."""
    return "\0".join(
        (object_cache.source_state(), object_cache.llvm_version(), np.__version__, repr(jit.host_target()))
    )


# ---- room -----------------------------------------------------------------------------------------------------------


def _make_room(newest: Path, room: int) -> None:
    """Remove the plans that were not used for longest, until the rest fits."""
    now, plans = time.time(), list[tuple[float, int, Path]]()
    for path in newest.parent.iterdir():
        with contextlib.suppress(OSError):
            state = path.stat()
            if path.suffix == ".cenote" and not path.name.startswith("."):
                plans.append((state.st_mtime, state.st_size, path))
            elif state.st_mtime < now - _ABANDONED:
                path.unlink()
    total = sum(size for _, size, _ in plans)
    for _, size, path in sorted(plans):
        if total <= room:
            break
        if path != newest:
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size


@cache
def _tell_full(folder: Path) -> None:
    warnings.warn(
        f"the disk of Cenote's cache ({folder}) is full: models are not kept and load slower; CENOTE_CACHE names "
        "another folder, CENOTE_PLAN_CACHE=0 keeps none",
        RuntimeWarning,
        stacklevel=2,
    )
