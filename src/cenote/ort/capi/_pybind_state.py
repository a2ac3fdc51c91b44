"""onnxruntime.capi._pybind_state: all of the extension module."""

from __future__ import annotations

from cenote.ort.capi.onnxruntime_pybind11_state import *  # noqa: F403
