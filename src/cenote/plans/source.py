"""The files that a model was made from: known by their content, and compared with it before a plan of them is used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.plans import fingerprint


@dataclass(frozen=True)
class Source:
    """Files that a model was made from: the main one, by a digest of its content, and those with its weights.

    `path` leads to the main file; it is "" for bytes. `external` are the digests of the files beside it that hold
    weights, by their names; None where they could not be read. `operators` are the digests of the user's operators that
    nodes of the model became, by name.
    """

    content: str
    path: str = ""
    external: Mapping[str, str] | None = field(default_factory=dict)
    operators: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(model: object) -> Source | None:
        """Return the source that a model has, given by its path or its bytes; None for others, and for a file that is
        not readable."""
        content = content_of(model)
        if content is None:
            return None
        return Source(content, os.fspath(model) if isinstance(model, str | os.PathLike) else "")

    def beside(self, names: Iterable[str], operators: Mapping[str, str]) -> Source:
        """Return the source with the files of these names, which weights were read from, and the user's operators."""
        try:
            return replace(
                self, external={name: self._digest_of(name) for name in names}, operators=operators
            )
        except OSError:
            return replace(self, external=None, operators=operators)

    def is_still(self, model: object) -> bool:
        """Return whether a model, given by its path or its bytes, is this one, its weights included."""
        return content_of(model) == self.content and self.has_beside(self.external)

    def has_beside(self, external: Mapping[str, str] | None) -> bool:
        """Return whether the files with weights have these digests."""
        try:
            return external is not None and all(
                self._digest_of(name) == digest for name, digest in external.items()
            )
        except OSError:
            return False

    def _digest_of(self, name: str) -> str:
        """Return the digest of a file beside the model; the front end allows a path through a folder that is
        missing."""
        return fingerprint.of_file(Path(self.path).parent.joinpath(name).resolve())


def content_of(model: object) -> str | None:
    """Return the digest of a model's content; None unless it is bytes or files that can be read."""
    if isinstance(model, bytes):
        return fingerprint.of_bytes(model)
    if not isinstance(model, str | os.PathLike):
        return None
    try:
        if os.path.isdir(model):
            return fingerprint.of_pairs(model) or None
        return fingerprint.of_file(model)
    except (OSError, ValueError):
        # The front end reports the error.
        return None


def recorded(path: str | os.PathLike[str], known: Source | None) -> Source:
    """Return the source at a path, for a plan file. `known`: what the model was made from, as far as that is known.

    Raises ArgumentError when it cannot be read or is another model.
    """
    try:
        content = fingerprint.of_file(path)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"source: {os.fspath(path)} cannot be read ({error})") from error
    if known is not None and known.content != content:
        raise ArgumentError(
            f"source: {os.fspath(path)} is not what this model was made from, or has changed since; load it anew"
        )
    kept = known or Source(content)
    return Source(content, str(Path(path).resolve()), kept.external or {}, kept.operators)
