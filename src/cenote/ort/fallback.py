"""The real onnxruntime, for models that Cenote refuses: imported beside the stand-in for it."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from cenote.core.errors import ArgumentError, shown
from cenote.core.locks import importing
from cenote.ort import errors
from cenote.ort.errors import OrtError
from cenote.ort.options import RunOptions, SessionOptions
from cenote.ort.providers import AVAILABLE
from cenote.ort.python_operators import OWN_LIBRARY
from cenote.ort.types import ModelMetadata, NodeArg
from cenote.ort.values import OrtValue

_log = logging.getLogger("cenote.ort")
NAME = "onnxruntime"
_told: set[str] = set()
_default: str | None = None


def checked(wanted: str | None) -> str | None:
    """Return the name of an engine to fall back on. Raises ArgumentError for an unknown one."""
    if wanted not in (None, NAME):
        raise ArgumentError(f'fallback: {shown(wanted)} is not known ("onnxruntime", or None)')
    return wanted


def set_default(wanted: str | None) -> None:
    """Set the engine that sessions fall back on by default."""
    global _default
    _default = checked(wanted)


def chosen(wanted: str | None) -> str | None:
    """Return the engine that a session falls back on: its own choice, else the default."""
    return _default if wanted is None else checked(wanted)


@cache
def real_onnxruntime() -> ModuleType:
    """Import and return the installed onnxruntime. Raises ImportError where there is none."""
    with importing():
        hidden = {name: sys.modules.pop(name) for name in _modules()}
        if hidden and not hasattr(hidden[NAME], "install"):
            # It is the real one.
            sys.modules.update(hidden)
            return hidden[NAME]
        try:
            return importlib.import_module(NAME)
        finally:
            if hidden:
                for name in _modules():
                    del sys.modules[name]
                sys.modules.update(hidden)


def _modules() -> list[str]:
    return [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]


def session(source: str | bytes, options: SessionOptions, refusal: OrtError) -> RealSession:
    """Return onnxruntime's session for a model that Cenote refused; each refusal is logged once. Raises the refusal
    where onnxruntime is not installed, and onnxruntime's own error where it refuses the model, too."""
    try:
        real = real_onnxruntime()
    except ImportError as missing:
        raise type(refusal)(
            f"{refusal}; onnxruntime, the fallback, is not installed ({missing})"
        ) from refusal
    with _translated(real):
        session = RealSession(real, source, options)
    if str(refusal) not in _told:
        _told.add(str(refusal))
        _log.warning("onnxruntime %s runs a model that Cenote refuses: %s", real.__version__, refusal.reason)
    return session


class RealSession:
    """A session of the real onnxruntime, with values and errors of this package."""

    def __init__(self, real: ModuleType, source: str | bytes, options: SessionOptions) -> None:
        self._real = real
        self._session = real.InferenceSession(source, _real_options(real, options), providers=[AVAILABLE])
        self.inputs = [NodeArg(node.name, node.type, node.shape) for node in self._session.get_inputs()]
        self.outputs = [NodeArg(node.name, node.type, node.shape) for node in self._session.get_outputs()]
        about = self._session.get_modelmeta()
        texts = ("producer_name", "graph_name", "domain", "description", "graph_description", "version")
        self.metadata = ModelMetadata({t: str(getattr(about, t)) for t in texts}, about.custom_metadata_map)

    def run(
        self, names: Sequence[str] | None, feed: Mapping[str, Any], options: RunOptions | None
    ) -> list[Any]:
        """Run as InferenceSession.run does."""
        inputs = {name: value.given if isinstance(value, OrtValue) else value for name, value in feed.items()}
        real_options = None
        if options is not None:
            real_options = self._real.RunOptions()
            _copy(options.values(), real_options)
            for key, value in options.entries.items():
                real_options.add_run_config_entry(key, value)
        with _translated(self._real):
            results: list[Any] = self._session.run(names, inputs, real_options)
        return results


def _real_options(real: ModuleType, options: SessionOptions) -> Any:
    real_options = real.SessionOptions()
    _copy(options.values(), real_options)
    for key, value in options.entries.items():
        real_options.add_session_config_entry(key, value)
    for name, size in options.by_name.items():
        real_options.add_free_dimension_override_by_name(name, size)
    for name, size in options.by_denotation.items():
        real_options.add_free_dimension_override_by_denotation(name, size)
    for library in options.libraries:
        if library == OWN_LIBRARY:
            # onnxruntime itself then refuses a model that has such operators.
            continue
        real_options.register_custom_ops_library(library)
    for name, weight in options.initializers.items():
        real_options.add_initializer(name, real.OrtValue.ortvalue_from_numpy(weight.numpy()))
    return real_options


def _copy(values: Mapping[str, Any], made: Any) -> None:
    """Copy attributes to one of onnxruntime's objects; members of enumerations by their names."""
    for name, value in values.items():
        if not hasattr(made, name):
            continue
        member = getattr(value, "name", None)
        setattr(made, name, value if member is None else getattr(type(getattr(made, name)), member))


# In lower case, as it is used like a context manager function.
class _translated:  # noqa: N801
    """A context that raises errors of the real onnxruntime as this package's, which the program catches."""

    def __init__(self, real: ModuleType) -> None:
        self._state = real.capi.onnxruntime_pybind11_state

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for ours in errors.ALL:
            theirs = getattr(self._state, ours.__name__, None)
            if theirs is not None and isinstance(error, theirs):
                raise ours(str(error)) from error
