"""What onnxruntime's module says of itself, and its settings of the process, which have no effect here."""

from __future__ import annotations

import platform
from typing import Any

from cenote.core.version import __version__ as cenote_version

VERSION = "1.31.1"
"""The onnxruntime whose behaviour this package has."""


def get_version_string() -> str:
    """The version of onnxruntime whose behaviour this package has."""
    return VERSION


def get_build_info() -> str:
    """What computes."""
    return f"ORT Build Info: cenote={cenote_version}, build type=Release"


def get_device() -> str:
    """ "CPU"."""
    return "CPU"


def get_ep_devices() -> list[Any]:
    """None: devices are not enumerated."""
    return []


def has_collective_ops() -> bool:
    """False."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Nothing to do: `logging.getLogger("cenote")` is set by `logging`. Raises RuntimeError for no severity."""
    if not 0 <= severity <= 4:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing to do."""


def set_seed(seed: int) -> None:
    """Nothing to do: random operators take the seed of their attribute."""


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Nothing to do: models with the same number of threads share them."""


def disable_telemetry_events() -> None:
    """Nothing to do: none are sent."""


def enable_telemetry_events() -> None:
    """Nothing to do: none are sent."""


def preload_dlls(*arguments: Any, **options: Any) -> None:
    """Nothing to do: no libraries are needed."""


def print_debug_info() -> None:
    """Print what computes, and where."""
    print(
        f"{get_build_info()}\nonnxruntime API: {VERSION}\n{platform.platform()}, Python {platform.python_version()}"
    )
