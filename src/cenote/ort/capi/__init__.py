"""onnxruntime.capi: the package in which programs look for exceptions, and some for the classes."""

from __future__ import annotations

from cenote.ort.capi import (
    _pybind_state,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
    onnxruntime_validation,
)

__all__ = [
    "_pybind_state",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
]
