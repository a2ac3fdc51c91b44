"""Extensions on the command line: modules and files that register operators, algorithms and rewrites of users."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cenote

OPERATORS = "--operators"


def import_operators(modules: Iterable[str]) -> None:
    """Import modules by name, or Python files by path; each must register something.

    Raises ArgumentError where one cannot be imported, or registers nothing.
    """
    for module in modules:
        before, loaded = _registered(), Path(module).stem in sys.modules
        try:
            _import(module)
        except Exception as error:  # whatever the module's code raises
            raise cenote.ArgumentError(
                f"{OPERATORS}: {module} cannot be imported ({type(error).__name__}: {error})"
            ) from error
        if _registered() == before and not loaded:
            raise cenote.ArgumentError(
                f"{OPERATORS}: {module} registers no operator; put "
                '@cenote.register("domain.Operator") before a function, or @cenote.register before a class'
            )


def operator_classes(module: str) -> list[type]:
    """Return the classes that a module, given by its name or its file, has registered, and those of its package."""
    found = [each for each in cenote.registered_operators().values() if isinstance(each, type)]
    return list(dict.fromkeys(each for each in found if _is_of(each.__module__, module)))


def algorithm_names(module: str) -> list[str]:
    """Return the names of the algorithms that a module, given by its name or its file, has registered, and those of its
    package."""
    found = cenote.registered_extensions()
    return [name for name, each in found.items() if each.of and _is_of(each.module, module)]


def _is_of(name: str, module: str) -> bool:
    """Whether a module is the one that was given, by its name or its file, or one in that package."""
    given = Path(module).stem if module.endswith(".py") else module
    return name == given or name.startswith(f"{given}.")


def _registered() -> tuple[dict[str, Any], ...]:
    """Return all that is registered."""
    return cenote.registered_operators(), cenote.registered_extensions()


def _import(module: str) -> None:
    path = Path(module)
    if path.suffix != ".py":
        if "" not in sys.path:  # modules of the folder at hand, as for `python -m`
            sys.path.insert(0, "")
        importlib.import_module(module)
        return
    if (loaded := sys.modules.get(path.stem)) is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == path.resolve():
            return
        raise cenote.ArgumentError(f"a module {path.stem} is loaded already; give the file another name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "the file's name ends in .py"
    assert spec.loader is not None, "as that of every file of Python"
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[path.stem]
        raise
