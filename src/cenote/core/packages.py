"""Errors for parts that an installation lacks: packages, and parts of Cenote that the distribution `cenote-runtime`
leaves out."""

from __future__ import annotations

import importlib
from typing import Any

from cenote.core.errors import UnsupportedError

_REMEDY = "pip install cenote (instead of cenote-runtime, which runs plan files only)"


class MissingPackageError(UnsupportedError, ImportError):
    """A package that is required is not installed."""


def needed(package: str, purpose: str, remedy: str = _REMEDY) -> Any:
    """Import a package that not every installation has. Raises MissingPackageError, which names the purpose."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise MissingPackageError(
            f"{purpose} takes the package {package}, which is not installed: {remedy}"
        ) from None


def left_out(module: str) -> MissingPackageError:
    """Return the error for the import of a part that `cenote-runtime` does not have."""
    return MissingPackageError(f"{module} is not installed, nor what it needs: {_REMEDY}")
