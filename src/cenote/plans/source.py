"""The model that a plan file was made from: recorded when it is saved, used only where it is still the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cenote.core.errors import ArgumentError, CenoteError
from cenote.core.files import open_regular
from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.plans import fingerprint, records
from cenote.plans.cache import CacheEntry
from cenote.plans.format import StoredModel
from cenote.plans.reader import MALFORMED, header_of, mapped, shapes_of


@dataclass(frozen=True)
class PlanSource:
    """The origin of a plan file: the model's path and digest, those of its weights' files, options, shapes."""

    path: str
    content: str
    external: Mapping[str, str]
    options: LoadOptions
    shapes: tuple[tuple[tuple[int, ...], ...], ...]


def source_of(path: str | os.PathLike[str]) -> PlanSource | None:
    """Return the origin of a plan file; None where that is unknown or unreadable."""
    try:
        handle = open_regular(path)
        try:
            header, _ = header_of(mapped(handle))
        finally:
            os.close(handle)
        origin = PlanSource(
            records.text(header["source"], "the source"),
            records.text(header["content"], "the source's digest"),
            records.texts(header["external"], "files with weights"),
            records.options(header["options"]),
            tuple(shapes_of(record) for record in (*header["plans"], *header["sized"])),
        )
    except (OSError, MemoryError, CenoteError, *MALFORMED):
        return None
    return origin if origin.path and origin.content else None


def is_source(path: str, content: str, external: Mapping[str, str]) -> bool:
    """Return whether the model at this path, with its files of weights, is the one that had these digests."""
    cache_entry = CacheEntry(content, path, NO_OPTIONS)
    cache_entry.external = external
    return cache_entry.is_of(path)


def with_source(
    stored: StoredModel, source: str | os.PathLike[str], origin: tuple[str, Mapping[str, str] | None] | None
) -> StoredModel:
    """Return the stored model with `source` as its origin. `origin`: the digests of that which are known already.

    Raises ArgumentError when the source cannot be read or is another model.
    """
    try:
        content = fingerprint.of_file(source)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"source: {os.fspath(source)} cannot be read ({error})") from error
    if origin is not None and origin[0] != content:
        raise ArgumentError(
            f"source: {os.fspath(source)} is not what this model was made from, or has changed since; load it anew"
        )
    external = (origin[1] if origin is not None else None) or {}
    return replace(stored, source=str(Path(source).resolve()), content=content, external=external)
