"""Digests of modules: of the source of classes from outside the package, as it was imported.

A class is told from another by the text of its module and of what that imports from its own package or folder: import
statements are read, also those within functions, so that the digest does not depend on what a process happens to have
imported. Other packages (NumPy, Cenote) do not count.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from cenote.core.locks import importing

# Texts of modules as they were first seen, by name; with the spec of that import, which a second import renews.
_texts: dict[str, tuple[ModuleSpec | None, bytes | None]] = {}
_UNLIKE = os.urandom(8).hex()


def source_digest(module_name: str) -> tuple[str, str]:
    """Return the digest of a module's source, and what keeps it from being told: "" for nothing.

    The digest covers the module and all that it imports, at any depth, of the same top-level package, or of the same
    folder where that is one of scripts. It is that of the files when the module was first asked about, so ask while it
    is imported. Where there is no source (an interactive session), the digest is like none of another process.
    """
    root = _text(module_name)
    if root is None:
        where = "an interactive session" if module_name == "__main__" else f"module {module_name}"
        unlike = f"{_UNLIKE} {os.getpid()} {module_name} {id(_spec(module_name))}"
        return _hashed(unlike.encode()), f"{where} has no source"
    # The name of the module itself does not count: a script is __main__ here and has another name in its workers.
    found: dict[str, bytes] = {module_name: b""}
    waiting = [module_name]
    while waiting:
        name = waiting.pop()
        for other in _imported(name, _text(name) or b""):
            if other not in found and _belongs(other, module_name) and (text := _text(other)) is not None:
                found[other] = text
                waiting.append(other)
    others = (part for name in sorted(found) for part in (name.encode(), found[name]) if name != module_name)
    return _hashed(root, *others), ""


def import_registering(module_name: str) -> None:
    """Import a module that a plan file names, if it registers anything with Cenote.

    A plan's content is checked and its word not taken: importing a module runs its code, so no other is imported than
    one whose source, read before, imports cenote and calls `register` or one of its kind. Does nothing where there is
    no such module, or where it cannot be imported.
    """
    if module_name in sys.modules or not _registers(module_name):
        return
    with (
        importing(),
        contextlib.suppress(Exception),
    ):  # whatever its code raises: what it registers is then missing
        importlib.import_module(module_name)


def _registers(module_name: str) -> bool:
    """Whether the source of a module imports cenote and calls a function that registers."""
    try:
        tree = ast.parse(_text(module_name) or b"")
    except (SyntaxError, ValueError):  # compiled
        return False
    if not any(
        name.partition(".")[0] == "cenote" for name in _imported(module_name, _text(module_name) or b"")
    ):
        return False
    names = (getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(tree))
    return any(name.startswith("register") for name in names)


def _hashed(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:32]


def _spec(name: str) -> ModuleSpec | None:
    """Return what Python knows of where a module comes from."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    around = name.rpartition(".")[0]
    path = getattr(_spec(around), "submodule_search_locations", None) if around else None
    if around and path is None:
        return None
    # importlib.util.find_spec would import the packages around it.
    found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in found if spec is not None), None)


def _text(name: str) -> bytes | None:
    """Return the source of a module as it was first seen, the file's bytes where it is compiled; None without
    either."""
    spec = _spec(name)
    if name not in _texts or _texts[name][0] is not spec:
        origin = _origin(name, spec)
        text: bytes | None = None
        with contextlib.suppress(OSError, ImportError):
            # Modules in archives have loaders of their own.
            source = getattr(spec and spec.loader, "get_data", None)
            text = source(origin) if source and origin else Path(origin).read_bytes() if origin else None
        _texts[name] = (spec, text)
    return _texts[name][1]


def _origin(name: str, spec: ModuleSpec | None) -> str:
    """Return the path of a module's file; "" for none."""
    if spec is not None:
        return spec.origin or "" if spec.has_location else ""
    return getattr(sys.modules.get(name), "__file__", None) or ""


def _package(name: str) -> str:
    """Return the package that relative imports of a module start from."""
    module, spec = sys.modules.get(name), _spec(name)
    if isinstance(module, ModuleType) and getattr(module, "__package__", None):
        return str(module.__package__)
    return spec.parent or "" if spec is not None else name.rpartition(".")[0]


def _imported(name: str, text: bytes) -> Iterator[str]:
    """Yield the names of modules that a module may import, with the packages around them."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # compiled
        return
    names = set(_around(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(each for alias in node.names for each in (alias.name, *_around(alias.name)))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*_package(name).split(".")[: 1 - node.level or None], *filter(None, [base])])
            names.update((base, *_around(base), *(f"{base}.{alias.name}" for alias in node.names)))
    yield from sorted(names - {""})


def _around(name: str) -> list[str]:
    """Return the names of the packages that a module is in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _belongs(other: str, module_name: str) -> bool:
    """Whether a module belongs to another one's package, or lies beside it in a folder of scripts."""
    if other.partition(".")[0] == (_package(module_name) or module_name).partition(".")[0]:
        return True
    here, there = (_folder(name.partition(".")[0]) for name in (module_name, other))
    return bool(here) and here == there and here not in _installed()


def _folder(name: str) -> str:
    """Return the folder that a module or package lies in."""
    spec = _spec(name)
    path = Path(_origin(name, spec)).absolute()
    if not _origin(name, spec):
        return ""
    return str(path.parent.parent if path.name == "__init__.py" else path.parent)


@cache
def _installed() -> frozenset[str]:
    """Folders of Python and of installed packages: what lies side by side there has nothing in common."""
    import sysconfig  # 4 ms

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return frozenset(str(Path(sysconfig.get_path(name)).absolute()) for name in names)
