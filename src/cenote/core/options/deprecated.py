"""Deprecated names, parameters and values: one warning for all, and a table of names (docs/stability.md)."""

from __future__ import annotations

import inspect
import os
import warnings
from importlib import import_module
from pathlib import Path

from cenote.core.deferred import dataclass

_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


@dataclass(frozen=True)
class Deprecated:
    """The full name of what stands for a deprecated one, and the version in which the old name goes."""

    instead: str
    goes: str


# By full name: "cenote.old_name": Deprecated("cenote.new_name", "0.4").
NAMES: dict[str, Deprecated] = {}


def warn_deprecated(old: str, instead: str, goes: str) -> None:
    """Warn that something of Cenote is deprecated: at the line outside of Cenote that uses it.

    old, instead   what it is, and what to use: "the option pins", "algorithms"
    goes           version of Cenote in which it is no longer there
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    text = f"{old} is deprecated and goes in Cenote {goes}; use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


def deprecated_name(module: str, name: str) -> object:
    """Return what a deprecated name of a module stands for, with a warning: the end of a module's `__getattr__`.

    Raises AttributeError for a name that is not deprecated.
    """
    found = NAMES.get(f"{module}.{name}")
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_deprecated(f"{module}.{name}", found.instead, found.goes)
    home, _, new = found.instead.rpartition(".")
    value: object = getattr(import_module(home), new)
    return value
