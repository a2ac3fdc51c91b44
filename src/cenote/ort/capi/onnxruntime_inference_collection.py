"""onnxruntime.capi.onnxruntime_inference_collection: the classes under the names that this module has in
onnxruntime."""

from __future__ import annotations

from cenote.ort.binding import IOBinding
from cenote.ort.providers import check_and_normalize_provider_args
from cenote.ort.session import InferenceSession, Session
from cenote.ort.values import OrtDevice, OrtValue

__all__ = [
    "IOBinding",
    "InferenceSession",
    "OrtDevice",
    "OrtValue",
    "Session",
    "check_and_normalize_provider_args",
]
