"""Compiled models in the cache folder, so that a second process loads a model as it would load a plan file.

A plan (`format`) is stored under a digest of all that it depends on: the model's bytes (its content, not its name or
date), the options that change a plan, the CPU, the settings, and Cenote itself. Weights in files beside the model are
compared with the digests that the plan records. So no outdated plan is ever used: a model that changed has another
name. When there are more than CENOTE_PLAN_CACHE megabytes, old plans are removed, the least recently used first.

Plans are written when the model has answered (`later`).

Like kernels, plans are executable content: the folder must be the user's own (mode 0700). A file is written aside and
renamed; a damaged one is replaced. No failure here is an error for the caller.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
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
from cenote.core.files import PrivateFolder
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.plans import fingerprint, reader
from cenote.plans.format import StoredModel
from cenote.plans.later import Later, finish, later

_log = logging.getLogger(__name__)
Shapes = tuple[tuple[int, ...], ...]

# Seconds after which a file that is still being written belongs to a process that died.
_ABANDONED = 3600.0
# Seconds for which a plan counts as used: recording its use changes a date, and costs a full check.
_USED_LATELY = 86400.0
_MEGABYTE = 1_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Sets of shapes that a process adds for a model with symbolic dimensions: each holds all weights.
_SHAPES_KEPT = 1


class CacheEntry:
    """A model loaded in one way: a digest of its content, and its place in the cache."""

    def __init__(
        self,
        content: str,
        path: str | os.PathLike[str] | None,
        options: LoadOptions,
        values: Sequence[str] = (),
    ) -> None:
        """Make an entry. `content`: digest of the model; `path`: its file, beside which are those with its
        weights; `values`: those inside the loaded model that are given instead of its outputs."""
        self.content, self.path, self.options, self.values = content, path, options, tuple(values)
        # Digests of those files by name; None where they cannot be read.
        self.external: Mapping[str, str] | None = {}
        self._left = _SHAPES_KEPT

    def find(self, shapes: Shapes | None, threads: int) -> StoredModel | None:
        """Return the model as it was stored: when it had been loaded (None), or with the plan for these shapes.

        A file that cannot be used is left for `keep` to replace: it may be sound, and the memory to map it may be
        lacking.
        """
        with _plans() as place:
            if place is None:
                return None
            name = self._name(shapes)
            finish(str(place.path / name))
            try:
                handle = place.open(name)
                try:
                    stored = reader.read_open(handle, str(place.path / name), threads)
                    idle = time.time() - os.fstat(handle).st_mtime
                finally:
                    os.close(handle)
            except (CenoteError, OSError):
                return None
            if not self._holds(stored.external):
                return None
            if idle > _USED_LATELY:
                with contextlib.suppress(OSError):
                    place.touch(name)
        self.external = stored.external
        return stored

    def keep(self, shapes: Shapes | None, model: StoredModel) -> Later | None:
        """Store a model in the background. Failures are logged; a full disk warns once."""
        if shapes is not None:
            self._left -= 1
        room = settings.PLAN_CACHE.integer() * _MEGABYTE
        arrays = [x for plan in model.plans.values() for x in plan.program.constants]
        arrays += [x for _, sized in model.sized for x in sized.template.constants]
        nbytes = sum({id(x): x.nbytes for x in arrays}.values())
        if self.external is None or self._left < 0 or not 0 <= nbytes < room:
            return None
        with importing():
            # Imported here: a process that finds its plan writes none.
            from cenote.plans.writer import write

        name, target = self._name(shapes), jit.host_target()
        model = replace(model, source="", content=self.content, external=self.external)
        place = _plans().__enter__()
        if place is None:
            return None

        def work(piece: Later) -> None:
            with place:
                try:
                    with place.replacing(name) as file:
                        write(file, model, target, piece.check)
                    _make_room(place, name, room)
                except OSError as error:
                    if error.errno in _FULL:
                        _tell_full(place.path)
                    else:
                        _log.info("%s: %s", place.path / name, error.strerror)
                except CenoteError as error:
                    # A host step that cannot be written.
                    _log.info("%s: not kept: %s", place.path / name, error)

        try:
            return later(str(place.path / name), work)
        except BaseException:
            # Ctrl-C, or no memory.
            place.close()
            raise

    def giving(self, values: Sequence[str]) -> CacheEntry:
        """Return the entry of the same model with values inside it as its outputs."""
        made = CacheEntry(self.content, self.path, self.options, values)
        made.external = self.external
        return made

    def note_external(self, names: Sequence[str]) -> None:
        """Record the files beside the model that its weights were read from."""
        assert self.path is not None or not names
        try:
            self.external = {name: self._digest_of(name) for name in names}
        except OSError:
            self.external = None

    def _digest_of(self, name: str) -> str:
        """Return the digest of a file beside the model; the front end allows a path through a folder that is
        missing."""
        return fingerprint.of_file(Path(self.path or "").parent.joinpath(name).resolve())

    def is_of(self, source: object) -> bool:
        """Return whether the model is still the same."""
        return content_of(source) == self.content and self._holds(self.external)

    def _holds(self, external: Mapping[str, str] | None) -> bool:
        """Return whether the files with the weights have the content that the plan was made from."""
        try:
            return external is not None and all(
                self._digest_of(name) == digest for name, digest in external.items()
            )
        except OSError:
            return False

    def _name(self, shapes: Shapes | None) -> str:
        parts = [self.content, *(f"{name}={value}" for name, value in self.options.key().items()), _world()]
        if self.values:
            parts.append(f"values={self.values}")
        if self.options.tune != "off":
            parts.append(object_cache.read_text(object_cache.TUNED) or "")
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        which = "" if shapes is None else "-" + hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]
        return f"{name}{which}.cenote"


def _plans() -> contextlib.AbstractContextManager[PrivateFolder | None]:
    """Open the folder of plans; None when plans are not cached."""
    return object_cache.folder("plans") if settings.PLAN_CACHE.integer() else contextlib.nullcontext()


def cache_entry_of(source: object, options: LoadOptions) -> CacheEntry | None:
    """Return the entry of a model given by its path or its bytes; None for others, and for a file that is not
    readable."""
    content = content_of(source)
    if content is None:
        return None
    return CacheEntry(content, source if isinstance(source, str | os.PathLike) else None, options)


def content_of(source: object) -> str | None:
    """Return the digest of a model's content; None unless it is bytes or files that can be read."""
    if isinstance(source, bytes):
        return fingerprint.of_bytes(source)
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        if os.path.isdir(source):
            return fingerprint.of_pairs(source) or None
        return fingerprint.of_file(source)
    except (OSError, ValueError):
        # The front end reports the error.
        return None


def _world() -> str:
    """Return the state that plans depend on besides the model and the options."""
    return "\0".join(
        (object_cache.source_state(), object_cache.llvm_version(), np.__version__, jit.host_target().text)
    )


# ---- room -----------------------------------------------------------------------------------------------------------


def _make_room(place: PrivateFolder, newest: str, room: int) -> None:
    """Remove the plans that have not been used for the longest time, until the rest fits."""
    now, plans = time.time(), list[tuple[float, int, str]]()
    for name, state in place.files():
        if name.endswith(".cenote") and not name.startswith("."):
            plans.append((state.st_mtime, state.st_size, name))
        elif state.st_mtime < now - _ABANDONED:
            with contextlib.suppress(OSError):
                place.remove(name)
    total = sum(size for _, size, _ in plans)
    for _, size, name in sorted(plans):
        if total <= room:
            break
        if name != newest:
            with contextlib.suppress(OSError):
                place.remove(name)
            total -= size


@cache
def _tell_full(folder: Path) -> None:
    warnings.warn(
        f"the disk of Cenote's cache ({folder}) is full: models are not kept and load slower; CENOTE_CACHE names "
        "another folder, CENOTE_PLAN_CACHE=0 keeps none",
        RuntimeWarning,
        stacklevel=2,
    )
