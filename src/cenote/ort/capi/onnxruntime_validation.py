"""onnxruntime.capi.onnxruntime_validation: the name and version of the package."""

from __future__ import annotations

from cenote.ort.environment import VERSION


def check_distro_info() -> None:
    """Do nothing."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Return the name, the version, and the version of CUDA, which is empty."""
    return "onnxruntime", VERSION, ""
