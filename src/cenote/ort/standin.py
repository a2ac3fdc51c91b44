"""The stand-in for onnxruntime in a process: `import onnxruntime` then gives this package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from cenote.ort import fallback
from cenote.ort.python_operators import EXTENSIONS

NAME = fallback.NAME
_CAPI = (
    "_pybind_state",
    "onnxruntime_pybind11_state",
    "onnxruntime_inference_collection",
    "onnxruntime_validation",
)

# Subpackages of onnxruntime itself, in Python.
_SUBPACKAGES = ("backend", "datasets", "quantization", "tools", "transformers")


def install(fallback: str | None = None) -> None:
    """Make `import onnxruntime`, anywhere in this process from now on, give `cenote.ort`.

    `fallback="onnxruntime"`: models that Cenote refuses are run by the installed onnxruntime, and a warning with the
    reason is logged. Its subpackages in Python (`onnxruntime.quantization`, `.tools`, `.transformers`) remain
    available where it is installed, and use `cenote.ort` themselves; elsewhere importing them raises an error that
    names the missing package. Where onnxruntime_extensions is not installed, importing it gives
    `cenote.ort.extensions`, which has its operators in Python. Call this before anything imports onnxruntime: a module
    that was imported earlier keeps onnxruntime's classes, and a RuntimeWarning says so. Processes that start afresh
    (multiprocessing's "spawn") have to call it, too.

    Raises ArgumentError for another `fallback`.
    """
    _set_default(fallback)
    before = sys.modules.get(NAME)
    if isinstance(before, StandIn):
        return
    if before is not None:
        warnings.warn(
            "cenote.ort.install: onnxruntime has been imported before; what holds its classes goes on using it",
            RuntimeWarning,
            stacklevel=2,
        )
    for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
        del sys.modules[name]
    stand_in = StandIn(_folders(before))
    if not stand_in.__path__:
        sys.meta_path.append(_NotInstalled())
    capi = importlib.import_module("cenote.ort.capi")
    sys.modules[NAME], sys.modules[f"{NAME}.capi"] = stand_in, capi
    if EXTENSIONS not in sys.modules and importlib.util.find_spec(EXTENSIONS) is None:
        sys.modules[EXTENSIONS] = importlib.import_module("cenote.ort.extensions")
    for name in _CAPI:
        sys.modules[f"{NAME}.capi.{name}"] = importlib.import_module(f"cenote.ort.capi.{name}")


class StandIn(ModuleType):
    """The module `onnxruntime` while Cenote stands in for it. Its `install` distinguishes it from the real one."""

    def __init__(self, folders: list[str]) -> None:
        ort = importlib.import_module("cenote.ort")
        super().__init__(NAME, ort.__doc__)
        self.__dict__.update({name: value for name, value in vars(ort).items() if not name.startswith("__")})
        self.__version__, self.__file__ = ort.__version__, ort.__file__
        self.__path__ = folders
        self.__spec__ = ModuleSpec(NAME, None, is_package=True)
        self.__spec__.submodule_search_locations = folders
        self.__package__ = NAME

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"module 'onnxruntime' (cenote.ort stands in for it) has no attribute {name!r}")


class _NotInstalled(MetaPathFinder):
    """Finder that reports onnxruntime's subpackages as missing where it is not installed itself."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for one of the subpackages; called when no other finder has found the module."""
        package, _, rest = name.partition(".")
        if package == NAME and rest.partition(".")[0] in _SUBPACKAGES:
            raise ModuleNotFoundError(
                f"{name} is a part of onnxruntime, which is not installed (cenote.ort stands in for the rest of it): "
                "pip install onnxruntime",
                name=NAME,
            )


_set_default = fallback.set_default


def _folders(imported: ModuleType | None) -> list[str]:
    """Return the folders of the package that is replaced; none where it is not installed."""
    if imported is not None:
        return list(imported.__path__)
    try:
        spec = importlib.util.find_spec(NAME)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec is not None else []
