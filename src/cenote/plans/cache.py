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
from collections.abc import Sequence
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
from cenote.plans.format import StoredModel
from cenote.plans.later import Later, finish, later
from cenote.plans.reader import PlanFile
from cenote.plans.source import Source
from cenote.runtime.threads import resolve_threads

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
    """A model loaded in one way, and its place in the cache."""

    def __init__(self, source: Source, options: LoadOptions, values: Sequence[str] = ()) -> None:
        """Make an entry. `values`: those inside the loaded model that are given instead of its outputs."""
        self.source, self.options, self.values = source, options, tuple(values)
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
                with PlanFile(place.open(name), place.path / name) as file:
                    stored = file.model(threads)
                    idle = time.time() - os.fstat(file.handle).st_mtime
            except (CenoteError, OSError):
                return None
            external = stored.source.external if stored.source is not None else {}
            if not self.source.has_beside(external):
                return None
            if idle > _USED_LATELY:
                with contextlib.suppress(OSError):
                    place.touch(name)
        self.source = replace(self.source, external=external)
        return stored

    def keep(self, shapes: Shapes | None, model: StoredModel) -> Later | None:
        """Store a model in the background, unless source files have changed since this process began. Failures are
        logged; a full disk warns once."""
        if shapes is not None:
            self._left -= 1
        room = settings.PLAN_CACHE.integer() * _MEGABYTE
        arrays = [x for plan in model.plans.values() for x in plan.program.constants]
        arrays += [x for _, sized in model.sized for x in sized.template.constants]
        nbytes = sum({id(x): x.nbytes for x in arrays}.values())
        if self.source.external is None or self._left < 0 or not 0 <= nbytes < room:
            return None
        with importing():
            # Imported here: a process that finds its plan writes none.
            from cenote.plans.writer import write

        name, target = self._name(shapes), jit.host_target()
        model = replace(model, source=self.source)
        place = _plans().__enter__()
        if place is None:
            return None

        def work(piece: Later) -> None:
            with place:
                if not object_cache.is_source_unchanged():
                    return
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
        return CacheEntry(self.source, self.options, values)

    def _name(self, shapes: Shapes | None) -> str:
        parts = [
            self.source.content,
            *(f"{name}={value}" for name, value in self.options.key().items()),
            f"threads={int(resolve_threads(self.options.threads))}",  # which share the work in other pieces
            _world(),
        ]
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
