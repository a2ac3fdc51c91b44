"""Installed extensions: packages that name a module of theirs under the entry points `cenote.operators`.

    [project.entry-points."cenote.operators"]
    shop = "shop_operators"

Importing the module registers what it has: operators, algorithms, rewrites. That happens when a name is asked for that
is not known otherwise, so processes that need no extension import none.
"""

from __future__ import annotations

import logging
import threading

from cenote.core.locks import Guard, importing

GROUP = "cenote.operators"

_log = logging.getLogger(__name__)
_guard = Guard()
_done = False
_importer = 0  # the thread that imports them now
_failures: list[str] = []


def import_installed() -> None:
    """Import the modules of all installed extensions, once per process.

    One that fails is logged as a warning and listed by `failures`; the others are imported nevertheless.
    """
    global _done, _importer
    if _done:
        return
    with _guard.lock:
        # A module that asks for a name itself, while it is imported, finds what is registered so far.
        if _done or is_under_way():
            return
        _importer = threading.get_ident()
        try:
            with importing():
                _import_all()
            _done = True
        finally:
            _importer = 0


def is_under_way() -> bool:
    """Return whether this thread imports installed extensions now."""
    return _importer == threading.get_ident()


def failures() -> tuple[str, ...]:
    """Return a text for each installed extension that could not be imported: its name, its package, the error."""
    return tuple(_failures)


def _import_all() -> None:
    from importlib.metadata import entry_points  # 30 ms

    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except Exception as error:  # whatever the extension's code raises
            owner = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
            problem = f"{type(error).__name__}: {error}"
            _failures.append(
                f"the extension {point.name} ({point.value}){owner} cannot be imported ({problem})"
            )
            _log.warning("%s", _failures[-1])
