"""Cenote: a CNN inference engine and operator library whose CPU kernels are generated in Python.

model = cenote.load("model.onnx")
y = model(x)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cenote.codegen.jit import watching as watch_compilation
from cenote.core.errors import (
    ArgumentError,
    CapacityError,
    CenoteError,
    CodegenError,
    DTypeError,
    InputError,
    MissingFileError,
    MissingPackageError,
    ModelError,
    OperatorError,
    ShapeError,
    UnavailableError,
    UnsupportedError,
)
from cenote.core.load_options import LoadOptions
from cenote.core.locks import on_demand
from cenote.core.types import TensorType
from cenote.core.version import __version__
from cenote.models.loading import export_model, load, load_with, unsupported
from cenote.models.model import Model

if TYPE_CHECKING:
    from cenote import algorithms, functional, kernels, serving, tiling
    from cenote.about.info import Info, info
    from cenote.about.stored import CachedFile, cache_contents, clear_cache
    from cenote.compression.compress import compress
    from cenote.compression.report import Compression
    from cenote.core.extensions.functions import OperatorFunction
    from cenote.core.extensions.registry import register, registered_operators, unregister
    from cenote.core.extensions.switched import (
        register_algorithm,
        register_rewrite,
        registered_extensions,
    )
    from cenote.diagnosis.diagnose import Diagnosis
    from cenote.frontends.parameters.writer import extract
    from cenote.functional.custom.kernel_functions import jit_elementwise, jit_kernel
    from cenote.functional.ways.call_profile import CallProfile, profile_call
    from cenote.profile.comparison import Comparison, compare_profiles
    from cenote.profile.data import Profile
    from cenote.profile.metrics.memory_usage import MemoryUsage
    from cenote.quantization.quantize import quantize
    from cenote.quantization.report import QuantizationReport
    from cenote.verification.accuracy import Accuracy, accuracy
    from cenote.verification.contract.check import check_operator
    from cenote.verification.contract.report import OperatorReport
    from cenote.verification.found import Verification
    from cenote.verification.verify import verify, verify_with

__all__ = [
    "Accuracy",
    "ArgumentError",
    "CachedFile",
    "CallProfile",
    "CapacityError",
    "CenoteError",
    "CodegenError",
    "Comparison",
    "Compression",
    "DTypeError",
    "Diagnosis",
    "Info",
    "InputError",
    "LoadOptions",
    "MemoryUsage",
    "MissingFileError",
    "MissingPackageError",
    "Model",
    "ModelError",
    "OperatorError",
    "OperatorFunction",
    "OperatorReport",
    "Profile",
    "QuantizationReport",
    "ShapeError",
    "TensorType",
    "UnavailableError",
    "UnsupportedError",
    "Verification",
    "__version__",
    "accuracy",
    "algorithms",
    "cache_contents",
    "check_operator",
    "clear_cache",
    "compare_profiles",
    "compress",
    "export_model",
    "extract",
    "functional",
    "info",
    "jit_elementwise",
    "jit_kernel",
    "kernels",
    "load",
    "load_with",
    "profile_call",
    "quantize",
    "register",
    "register_algorithm",
    "register_rewrite",
    "registered_extensions",
    "registered_operators",
    "serving",
    "tiling",
    "unregister",
    "unsupported",
    "verify",
    "verify_with",
    "watch_compilation",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = on_demand(
    __name__,
    {
        "cenote.about.info": "Info info",
        "cenote.about.stored": "CachedFile cache_contents clear_cache",
        "cenote.compression.compress": "compress",
        "cenote.compression.report": "Compression",
        "cenote.core.extensions.functions": "OperatorFunction",
        "cenote.core.extensions.registry": "register registered_operators unregister",
        "cenote.core.extensions.switched": "register_algorithm register_rewrite registered_extensions",
        "cenote.diagnosis.diagnose": "Diagnosis",
        "cenote.frontends.parameters.writer": "extract",
        "cenote.functional.custom.kernel_functions": "jit_elementwise jit_kernel",
        "cenote.functional.ways.call_profile": "CallProfile profile_call",
        "cenote.profile.comparison": "Comparison compare_profiles",
        "cenote.profile.data": "Profile",
        "cenote.profile.metrics.memory_usage": "MemoryUsage",
        "cenote.quantization.quantize": "quantize",
        "cenote.quantization.report": "QuantizationReport",
        "cenote.verification.contract.check": "check_operator",
        "cenote.verification.contract.report": "OperatorReport",
        "cenote.verification.accuracy": "Accuracy accuracy",
        "cenote.verification.found": "Verification",
        "cenote.verification.verify": "verify verify_with",
    },
    modules="algorithms functional kernels serving tiling",
)

# Silent until the program says where messages go: logging.basicConfig(level=logging.INFO), say.
logging.getLogger(__name__).addHandler(logging.NullHandler())
