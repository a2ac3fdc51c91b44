"""Version and build of onnxruntime's module, and its settings of the process, which have no effect here."""

from __future__ import annotations

import platform
from typing import Any

from cenote.core.version import __version__ as cenote_version

VERSION = "1.31.1"
"""Version of the onnxruntime whose behaviour this package has."""


def get_version_string() -> str:
    """Return the version of the onnxruntime whose behaviour this package has."""
    return VERSION


def get_build_info() -> str:
    """Return the engine and its version: Cenote's."""
    return f"ORT Build Info: cenote={cenote_version}, build type=Release"


def get_device() -> str:
    """Return "CPU"."""
    return "CPU"


def get_ep_devices() -> list[Any]:
    """Return no devices: they are not enumerated."""
    return []


def has_collective_ops() -> bool:
    """Return False."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Do nothing: the logger "cenote" is set up with `logging`. Raises RuntimeError for a number that is no
    severity."""
    if not 0 <= severity <= 4:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing."""


def set_seed(seed: int) -> None:
    """Do nothing: random operators take the seed of their attribute."""


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Do nothing: models with the same number of threads share them."""


def disable_telemetry_events() -> None:
    """Do nothing: no telemetry is sent."""


def enable_telemetry_events() -> None:
    """Do nothing: no telemetry is sent."""


def preload_dlls(*arguments: Any, **options: Any) -> None:
    """Do nothing: no libraries are needed."""


def print_debug_info() -> None:
    """Print the engine, its version and the platform."""
    print(
        f"{get_build_info()}\nonnxruntime API: {VERSION}\n{platform.platform()}, Python {platform.python_version()}"
    )
