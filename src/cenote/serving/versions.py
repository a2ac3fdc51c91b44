"""Which versions of a model are served at once: Triton's `version_policy`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ModelError

CONFIG = "config.pbtxt"
"""File in a model's folder, in Triton's form; only its `version_policy` is read."""
# Between a model's name and its version where only a name has room: a letter that no file's name in a URL has.
_BETWEEN = "\x1f"


@dataclass(frozen=True)
class VersionPolicy:
    """The `latest` so many (0: all of them), or those of `specific`."""

    latest: int = 1
    specific: tuple[int, ...] = ()

    def chosen(self, versions: Sequence[int]) -> list[int]:
        """Return which of the versions of a folder are served, the largest first."""
        ordered = sorted(versions, reverse=True)
        if self.specific:
            return [version for version in ordered if version in self.specific]
        return ordered[: self.latest or None]

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as Triton's model configuration has it."""
        if self.specific:
            return {"specific": {"versions": list(self.specific)}}
        return {"latest": {"num_versions": self.latest}} if self.latest else {"all": {}}


LATEST = VersionPolicy()
"""The largest version alone."""


def version_policy(given: VersionPolicy | int | str) -> VersionPolicy:
    """Return the policy of an option: a number of versions, or "all". Raises ArgumentError for others."""
    if isinstance(given, VersionPolicy):
        return given
    text = str(given)
    if text == "all":
        return VersionPolicy(0)
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ArgumentError(f"versions: {text!r} is neither a number of versions from 1 on nor 'all'")
    return VersionPolicy(int(text))


def policy_in(folder: Path, otherwise: VersionPolicy) -> VersionPolicy:
    """Return the policy that a model's folder states in its config.pbtxt, if it does.

    Raises ModelError for one that cannot be read.
    """
    path = folder / CONFIG
    if not path.is_file():
        return otherwise
    text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8", errors="replace"))
    found = re.search(r"\bversion_policy\s*:?\s*\{(.*)", text, re.DOTALL)
    if not found:
        return otherwise
    body = found.group(1)
    if re.match(r"\s*all\s*:?\s*\{\s*\}\s*\}", body):
        return VersionPolicy(0)
    if latest := re.match(r"\s*latest\s*:?\s*\{\s*(?:num_versions\s*:\s*(\d+))?\s*,?\s*\}\s*\}", body):
        return VersionPolicy(max(1, int(latest.group(1) or 1)))
    if specific := re.match(r"\s*specific\s*:?\s*\{([^{}]*)\}\s*\}", body):
        words = re.sub(r"versions\s*:|[\[\],]", " ", specific.group(1)).split()
        if words and all(word.isascii() and word.isdigit() for word in words):
            return VersionPolicy(0, tuple(map(int, words)))
    raise ModelError(
        f"{path}: the version_policy is none of all {{}}, latest {{ num_versions: 2 }}, specific {{ versions: [1, 3] }}"
    )


def addressed(name: str, version: str) -> str:
    """Return a model and its version as one name, for where only a name has room; the name alone without a version."""
    return f"{name}{_BETWEEN}{version}" if version else name


def parted(address: str) -> tuple[str, str]:
    """Return the name and the version ("" for none) of `addressed`."""
    name, _, version = address.partition(_BETWEEN)
    return name, version
