"""onnxruntime.capi.onnxruntime_validation: which package this is."""

from __future__ import annotations

from cenote.ort.environment import VERSION


def check_distro_info() -> None:
    """Nothing to do."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Name, version, and the version of CUDA, of which there is none."""
    return "onnxruntime", VERSION, ""
