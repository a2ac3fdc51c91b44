"""onnxruntime's options of sessions and of runs, and its enumerations.

The options for threads, flushed denormals, fixed dimensions and replaced weights have an effect. Those of
onnxruntime's own optimisations, memory and logging are accepted and kept, since Cenote has nothing that corresponds
to them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from inspect import get_annotations
from typing import Any, ClassVar, NoReturn

from cenote.core.extensions.functions import OperatorFunction
from cenote.ort.python_operators import operators_of
from cenote.ort.values import OrtValue

# Numbers have to fit a C int.
_LIMIT = 1 << 31
_LONGEST_KEY = 1024


class _Enumeration(IntEnum):
    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Enumeration):
    """Amount of optimisation in onnxruntime; Cenote always does all that it can."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Enumeration):
    """Execution of operators in onnxruntime, one by one or in parallel; Cenote's threads share each operator."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Enumeration):
    """The order in which onnxruntime runs a graph's nodes."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _whole(value: Any) -> int:
    number = operator.index(value)
    if not -_LIMIT <= number < _LIMIT:
        raise TypeError
    return number


def _flag(value: Any) -> bool:
    """Return the truth of a value that has one: numbers and None, but not strings, paths and containers."""
    if value is not None and not hasattr(type(value), "__bool__"):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError
    return value


def _path(value: Any) -> str:
    return os.fsdecode(value)


def _check_of(default: object) -> Callable[[Any], Any]:
    """Return the check of values for an attribute with this default."""
    if not isinstance(default, IntEnum):
        return {bool: _flag, int: _whole, str: _text}[type(default)]

    def check(value: Any) -> IntEnum:
        if not isinstance(value, type(default)):
            raise TypeError
        return value

    return check


class _Options:
    """Attributes that are checked when they are set; an unknown one raises AttributeError. A class declares them with
    their defaults; `_checks` are those that do not follow from the default."""

    _known: ClassVar[dict[str, tuple[Callable[[Any], Any], Any]]]
    _checks: ClassVar[dict[str, Callable[[Any], Any]]] = {}
    _entries: dict[str, str]

    def __init_subclass__(cls) -> None:
        defaults = {name: vars(cls)[name] for name in get_annotations(cls) if name in vars(cls)}
        cls._known = {
            name: (cls._checks.get(name) or _check_of(default), default)
            for name, default in defaults.items()
            if name != "_checks"
        }

    def __init__(self) -> None:
        self.__dict__.update({name: default for name, (_, default) in self._known.items()}, _entries={})

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._known:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        try:
            self.__dict__[name] = self._known[name][0](value)
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}.{name}: {value!r} is not what it takes (like {self._known[name][1]!r})"
            ) from None

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def values(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {name: self.__dict__[name] for name in self._known}

    @property
    def entries(self) -> dict[str, str]:
        """The configuration entries that were added."""
        return dict(self._entries)

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"a configuration entry is a key and a value, both str, not {key!r} and {value!r}"
            )
        if not 0 < len(key) <= _LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {_LONGEST_KEY}")
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Options):
    """Options of a session. `intra_op_num_threads`: threads per run, 0 for one per physical core.

    Entries that have an effect: "session.set_denormal_as_zero".
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    by_name: dict[str, int]
    by_denotation: dict[str, int]
    initializers: dict[str, OrtValue]
    operators: dict[str, OperatorFunction]
    libraries: list[str]
    _checks: ClassVar = {"optimized_model_filepath": _path}

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(by_name={}, by_denotation={}, initializers={}, operators={}, libraries=[])

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; a later one of the same key replaces it."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Return the value of a key. Raises RuntimeError where there is none."""
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the dimensions of this name."""
        self.by_name[_text(name)] = _whole(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fix the dimensions of this denotation ("DATA_BATCH")."""
        self.by_denotation[_text(denotation)] = _whole(size)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Use this value in place of a weight of the model."""
        self.initializers[_text(name)] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Use these values in place of weights that are stored outside of the model's file."""
        if len(names) != len(values):
            raise RuntimeError("Expecting names and values to be of equal length.")
        self.initializers.update(zip(names, values, strict=True))

    def register_custom_ops_library(self, path: str) -> None:
        """Take the operators in Python that `onnxruntime_extensions` or `cenote.ort.extensions` declares
        (`@onnx_op`); `path`: its `get_library_path()`. Raises Fail for a library of operators in C++."""
        self.operators.update(operators_of(_path(path)))
        self.libraries.append(_path(path))

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Do nothing: there is one provider."""

    def add_provider_for_devices(self, devices: Sequence[Any], options: dict[str, str]) -> None:
        """Do nothing: there is one provider."""

    def set_provider_selection_policy(self, policy: Any) -> None:
        """Do nothing: there is one provider."""

    def has_providers(self) -> bool:
        """Return False: the CPU is not named."""
        return False

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """Do nothing: a load cannot be cancelled."""


class RunOptions(_Options):
    """Options of a run. `terminate`: a run does not begin and raises Fail; one that is under way continues."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; no entry has an effect."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """Return the value of a key. Raises RuntimeError where there is none."""
        return self._get(key)
